#include "worker/convert/command/launch.hpp"

#include <fstream>

#include <gtest/gtest.h>
#include <unistd.h>

#include "common/files.hpp"
#include "common/json.hpp"
#include "common/protocol/rank.hpp"
#include "common/tensor/safetensors.hpp"
#include "tests/temporary_folder.hpp"
#include "worker/checkpoint/choose.hpp"
#include "worker/checkpoint/manifest.hpp"
#include "worker/checkpoint/state.hpp"
#include "worker/convert/convert.hpp"

namespace roll::convert {
namespace {

namespace fs = std::filesystem;

// Runs convert jobs with one-layer models, all of whose weights have one value.
class Launches : public ::testing::Test {
  protected:
    void write_model(const fs::path& directory, float value) {
        const Json sizes{{"hidden_size", 8},        {"num_hidden_layers", 1},
                         {"vocab_size", 16},        {"num_attention_heads", 2},
                         {"intermediate_size", 12}, {"num_key_value_heads", 1}};
        const families::Family& family = *families_.find("llama").value();
        const Json config = families::complete_hf_config(family, sizes).value();
        const Json native = families::native_config(family, config).value();
        const auto tensors = families::native_tensors(family, native).value();
        std::vector<tensor::TensorView> views;
        const std::vector<float> values(1024, value);
        for (const families::NativeTensor& tensor : tensors)
            for (const families::HfTensor& source : tensor.sources) {
                const auto bytes = tensor::byte_count(tensor::DType::F32, source.shape).value();
                views.push_back({{source.name, tensor::DType::F32, source.shape},
                                 std::as_bytes(std::span(values)).first(bytes)});
            }
        fs::create_directories(directory);
        ASSERT_TRUE(write_file_atomically(directory / "config.json", config.dump()));
        ASSERT_TRUE(tensor::write_safetensors(directory / "model.safetensors", views, {}));
    }

    // Writes a checkpoint as a training run does: MCA with a manifest.
    fs::path write_checkpoint(std::int64_t step, float value,
                              std::optional<std::int64_t> best = std::nullopt) {
        write_model(root_ / "hf", value);
        const checkpoint::Name name{step, {3, 1}};
        Request request;
        request.source = root_ / "hf";
        request.target = root_ / checkpoint::final_name(name);
        EXPECT_TRUE(convert(request, families_, {}));
        fs::remove_all(root_ / "hf");
        fs::create_directories(request.target / checkpoint::kFolder);
        checkpoint::State state;
        state.step = step;
        if (best) state.best.value = 1;
        state.best_step = best.value_or(0);
        EXPECT_TRUE(write_file_atomically(request.target / checkpoint::kStateFile,
                                          checkpoint::encode(state)));
        const checkpoint::Manifest manifest{name, checkpoint::hash_files(request.target).value()};
        EXPECT_TRUE(write_file_atomically(request.target / checkpoint::kManifestFile,
                                          checkpoint::encode(manifest)));
        return request.target;
    }

    int launch(const Json& convert, std::vector<fs::path> newest_first, std::uint64_t attempt = 1) {
        protocol::Launch launch;
        launch.attempt = {{2}, {3, attempt}};
        launch.kind = "convert";
        launch.document = Json{{"kind", "convert"}, {"convert", convert}}.dump();
        for (const fs::path& path : newest_first) launch.checkpoints.push_back({1, path.string()});
        const fs::path file = root_ / "launch-0.json";
        EXPECT_TRUE(write_file_atomically(file, protocol::encode(launch)));
        reports_.clear();
        const auto choose = [](std::span<const fs::path> paths, bool best) -> Result<fs::path> {
            std::vector<fs::path> order(paths.begin(), paths.end());
            if (const auto step = checkpoint::best_step(paths); best && step)
                order = checkpoint::with_step_first(paths, *step);
            const auto choice = checkpoint::choose_newest(order);
            if (choice.directory) return *choice.directory;
            return fail(ErrorCode::Corrupt, choice.reasons.front());
        };
        return run_launch(file, {{}, choose, [&](const std::string& line) {
                                     reports_.push_back(Json::parse(line));
                                 }});
    }

    float value_of(const fs::path& hf) {
        const auto file = tensor::SafetensorsFile::open(hf / "model.safetensors").value();
        return static_cast<float>(
            tensor::load_float(tensor::DType::F32, file.find("lm_head.weight")->bytes.data()));
    }

    families::Families families_ = families::Families::load().value();
    TemporaryFolder root_;
    std::vector<Json> reports_;
};

TEST_F(Launches, TheAutomaticExportTakesTheNewestCheckpointThatVerifies) {
    const fs::path old = write_checkpoint(1, 1.5F);
    const fs::path newest = write_checkpoint(2, 2.5F);
    const Json convert{{"source_job", 1}, {"target", (root_ / "export/hf").string()}};
    EXPECT_EQ(launch(convert, {newest, old}), 0);
    EXPECT_EQ(value_of(root_ / "export/hf"), 2.5F);
    EXPECT_EQ(reports_.front()["t"], "ready");
    EXPECT_EQ(reports_.back()["t"], "export");
    EXPECT_EQ(reports_.back()["directory"], (root_ / "export/hf").string());

    std::fstream file(newest / "iter_0000001/mp_rank_00/model_optim_rng.pt",
                      std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(-700, std::ios::end);
    file.put('x');
    file.close();
    EXPECT_EQ(launch(convert, {newest, old}, 2), 0);
    EXPECT_EQ(value_of(root_ / "export/hf"), 1.5F);
    EXPECT_EQ(launch(convert, {newest}, 3), 1);
    EXPECT_EQ(reports_.back()["t"], "failed");
    EXPECT_EQ(value_of(root_ / "export/hf"), 1.5F);  // the last good export is still there
}

TEST_F(Launches, TheExportOfTheBestTakesTheStepThatTheNewestStateNames) {
    const fs::path best = write_checkpoint(2, 2.5F, 2);
    const fs::path newest = write_checkpoint(4, 4.5F, 2);
    const Json target = (root_ / "export/hf").string();
    const Json of_best{{"source_job", 1}, {"target", target}, {"of", "best"}};
    EXPECT_EQ(launch(of_best, {newest, best}), 0);
    EXPECT_EQ(value_of(root_ / "export/hf"), 2.5F);
    EXPECT_EQ(launch({{"source_job", 1}, {"target", target}, {"of", "last"}}, {newest, best}, 2),
              0);
    EXPECT_EQ(value_of(root_ / "export/hf"), 4.5F);
    fs::remove_all(best / "iter_0000001");  // without the best checkpoint, the newest is exported
    EXPECT_EQ(launch(of_best, {newest, best}, 3), 0);
    EXPECT_EQ(value_of(root_ / "export/hf"), 4.5F);
    // the state has no validation, so there is no best checkpoint
    const fs::path untold = write_checkpoint(5, 5.5F);
    EXPECT_EQ(launch(of_best, {untold, newest}, 4), 0);
    EXPECT_EQ(value_of(root_ / "export/hf"), 5.5F);
}

TEST_F(Launches, ExitCodesSayWhetherToTryAgain) {
    write_model(root_ / "hf", 1);
    const Json good{{"source", (root_ / "hf").string()}, {"target", (root_ / "out").string()}};
    const auto with = [&](const char* key, const Json& value) {
        Json changed = good;
        changed[key] = value;
        return changed;
    };
    EXPECT_EQ(launch(with("dtype", "int3"), {}), 2);
    EXPECT_EQ(launch(with("to", "gguf"), {}), 2);
    EXPECT_EQ(launch(with("source", ""), {}), 2);
    EXPECT_EQ(launch(with("source", (root_ / "nowhere").string()), {}), 2);
    EXPECT_EQ(reports_.back()["t"], "failed");
    EXPECT_EQ(launch(good, {}), 0);
    EXPECT_EQ(launch(good, {}), 2);     // the target exists and may be the user's
    EXPECT_EQ(launch(good, {}, 2), 0);  // an earlier attempt of the same job made the target
}

TEST_F(Launches, AStopLeavesNothing) {
    write_model(root_ / "hf", 1);
    Request request;
    request.source = root_ / "hf";
    request.target = root_ / "out";
    for (int windows = 0;; ++windows) {
        int seen = 0;
        const auto done =
            convert(request, families_, {.stopped = [&] { return seen++ >= windows; }});
        if (done) break;
        EXPECT_EQ(done.error().code, ErrorCode::Unavailable);
        EXPECT_EQ(std::distance(fs::directory_iterator(root_), fs::directory_iterator()), 1);
    }
    EXPECT_TRUE(fs::exists(root_ / "out/mca_config.json"));
}

}  // namespace
}  // namespace roll::convert
