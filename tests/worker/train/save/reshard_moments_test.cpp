// Tests that the moments that one layout saves are read by any other: each rank gets exactly the
// elements of its part. Each element of a moment has its own number.
#include <filesystem>
#include <map>

#include <gtest/gtest.h>

#include "common/files.hpp"
#include "common/tensor/safetensors.hpp"
#include "tests/temporary_folder.hpp"
#include "tests/worker/train/pipeline/world.hpp"
#include "worker/checkpoint/staging.hpp"
#include "worker/checkpoint/state.hpp"
#include "worker/plan/pipeline_choice.hpp"
#include "worker/train/process/failure.hpp"
#include "worker/train/save/moments.hpp"
#include "worker/train/save/owned_rows.hpp"
#include "worker/train/save/part_writer.hpp"

namespace roll::train {
namespace {

namespace fs = std::filesystem;

constexpr int kMicrobatchesOfStep = 12;
const checkpoint::Name kName{3, {1, 1}};

struct Layout {
    int tp = 1, pp = 1, vpp = 1, dp = 1, zero = 0;
    spec::Schedule schedule = spec::Schedule::Auto;
    bool tied = false;
    at::ScalarType dtype = at::kDouble;
    spec::OptimizerKind kind = spec::OptimizerKind::AdamW;
};

const std::vector<Layout> kLayouts = {
    {},
    {.tp = 2, .pp = 2},
    {.dp = 3},
    {.dp = 3, .zero = 1},
    {.tp = 4, .dp = 2, .zero = 3},
    {.pp = 4, .vpp = 2},
    {.pp = 2, .vpp = 2, .schedule = spec::Schedule::ZeroBubbleV},
    {.tp = 2, .pp = 2, .dp = 2, .zero = 1},
    {.tp = 2, .dp = 4},
};

spec::ParallelSpec parallel_of(const Layout& layout) {
    return {.dp = layout.dp,
            .tp = layout.tp,
            .pp = layout.pp,
            .vpp = layout.vpp,
            .schedule = layout.schedule,
            .zero = layout.zero};
}

spec::ModelConfig model_of(bool tied) {
    spec::ModelConfig config = split_model(tied);
    config.layers = 8;
    return config;
}

// The number of each element of a whole parameter's moment
at::Tensor numbered(const ParameterSpec& spec, double first) {
    const double name = static_cast<double>(std::hash<std::string>()(spec.name) % 1000);
    const auto& sizes = whole_sizes(spec);
    return (at::arange(c10::multiply_integers(sizes), at::kDouble) + 1e4 * name + first)
        .view(sizes);
}

// The number of the first element of a kind of state
double first(const StateTensors& kind) { return kind.ending == kSquare ? 0.5 : 0; }

// This rank's rows of a whole tensor
at::Tensor own_part(const Parameters& p, std::size_t i, const at::Tensor& whole) {
    const at::Tensor own = at::zeros(p.specs[i].sizes, whole.options());
    copy_from_whole(p.specs[i], whole, own);
    return own_rows(p, i, own);
}

using Visit = std::function<void(TrainStep& step, int rank)>;

// Calls visit() on every rank of the layout.
void on_ranks(const spec::ModelConfig& config, const Layout& layout, const Visit& visit) {
    const auto schedule =
        plan::schedule_of(parallel_of(layout), kMicrobatchesOfStep / layout.dp).value();
    LocalFabric fabric(layout.tp * layout.dp * layout.pp);
    fabric.run([&](int rank) {
        const int t = rank % layout.tp, d = rank / layout.tp % layout.dp,
                  s = rank / layout.tp / layout.dp;
        const auto number = [&](int of_d, int of_s, int of_t) {
            return (of_s * layout.dp + of_d) * layout.tp + of_t;
        };
        std::vector<int> of_pp, of_dp, of_tp;
        for (int i = 0; i < layout.pp; ++i) of_pp.push_back(number(d, i, t));
        for (int i = 0; i < layout.dp; ++i) of_dp.push_back(number(i, s, t));
        for (int i = 0; i < layout.tp; ++i) of_tp.push_back(number(d, s, i));
        const auto group = [&](const char* name, const std::vector<int>& ranks) {
            return fabric.group(name + std::to_string(ranks.front()), ranks, rank);
        };
        const auto pp = group("pp", of_pp), dp = group("dp", of_dp), tp = group("tp", of_tp);
        TrainStep step(config, schedule, {*pp, *dp, nullptr, tp.get()},
                       {.init = {.dtype = layout.dtype},
                        .optimizer = {.decays = {}, .kind = layout.kind, .momentum = 0.9},
                        .zero = layout.zero});
        visit(step, rank);
    });
}

class ReshardMoments : public testing::Test {
  protected:
    // Saves numbered moments and returns the checkpoint.
    fs::path save(const spec::ModelConfig& config, const Layout& layout) {
        const fs::path staged = checkpoint::begin_stage(root_, kName).value();
        ModelSetup model;
        model.config = config;
        on_ranks(config, layout, [&](TrainStep& step, int rank) {
            for (std::size_t chunk = 0; chunk < step.chunks().size(); ++chunk) {
                const Parameters& p = step.chunks()[chunk].parameters();
                OptimizerState& state = step.optimizers()[chunk].state();
                state.steps = 3;
                for (const StateTensors& kind : state.kinds)
                    for (std::size_t i = 0; i < p.specs.size(); ++i)
                        if (kind.of[i].defined())
                            kind.of[i].copy_(own_part(p, i, numbered(p.specs[i], first(kind))));
            }
            const auto mca = mca_layout_of(parallel_of(layout), config, step.schedule());
            PartWriter writer(step, model, plan_part(step, mca, rank), rank, 3000);
            written_[rank] = writer.bytes() - std::ssize(checkpoint::encode(writer.plan().boxes));
            writer.start(staged, kName);
            writer.wait();
            EXPECT_FALSE(writer.has_failed());
        });
        const auto none = [](const fs::path&) -> Result<void> { return {}; };
        return checkpoint::seal_parts(root_, kName, layout.tp * layout.pp * layout.dp, none)
            .value();
    }

    void expect_read(const fs::path& saved, const spec::ModelConfig& config, const Layout& layout) {
        on_ranks(config, layout, [&](TrainStep& step, int) {
            read_moments(saved, step);
            for (std::size_t chunk = 0; chunk < step.chunks().size(); ++chunk) {
                const Parameters& p = step.chunks()[chunk].parameters();
                const OptimizerState& state = step.optimizers()[chunk].state();
                EXPECT_EQ(state.steps, 3);
                for (const StateTensors& kind : state.kinds) {
                    for (std::size_t i = 0; i < p.specs.size(); ++i) {
                        if (!kind.of[i].defined()) continue;
                        const at::Tensor wanted = own_part(p, i, numbered(p.specs[i], first(kind)))
                                                      .to(kind.of[i].scalar_type());
                        EXPECT_TRUE(kind.of[i].equal(wanted)) << p.specs[i].name << kind.ending;
                    }
                }
            }
        });
    }

    TemporaryFolder root_;
    std::map<int, std::int64_t> written_;  // for each rank, the bytes of its tensors' files
};

TEST_F(ReshardMoments, EveryLayoutReadsEveryOther) {
    for (const bool tied : {false, true}) {
        const spec::ModelConfig config = model_of(tied);
        for (std::size_t from = 0; from < kLayouts.size(); ++from) {
            const fs::path saved = save(config, kLayouts[from]);
            ASSERT_TRUE(checkpoint::verify(saved));
            // Two other layouts each; all pairs would take half a minute.
            for (const std::size_t step : {1, 4}) {
                SCOPED_TRACE("from " + std::to_string(from) + " +" + std::to_string(step));
                expect_read(saved, config, kLayouts[(from + step) % kLayouts.size()]);
            }
        }
    }
}

TEST_F(ReshardMoments, EveryKindOfOptimizerHasItsOwnState) {
    using enum spec::OptimizerKind;
    const spec::ModelConfig config = model_of(false);
    for (const auto kind : {Adam, Sgd, Lion, Muon}) {
        SCOPED_TRACE(spec::name_of(kind));
        Layout layout{.tp = 2, .pp = 2, .dp = 2, .zero = 1, .kind = kind};
        const fs::path saved = save(config, layout);
        layout = {.dp = 3, .zero = 2, .kind = kind};
        expect_read(saved, config, layout);
        const auto text = read_file(saved / checkpoint::kOptimizerIndexFile).value();
        EXPECT_EQ(checkpoint::decode_optimizer_index(text)->optimizer, spec::name_of(kind));
        layout.kind = kind == Lion ? Sgd : Lion;
        on_ranks(config, layout, [&](TrainStep& step, int) {
            EXPECT_THROW(read_moments(saved, step), RankFailure);
        });
    }
}

TEST_F(ReshardMoments, TheOneFileOfEarlierVersionsIsRead) {
    const spec::ModelConfig config = model_of(false);
    std::vector<tensor::TensorView> views;
    std::vector<at::Tensor> kept;
    for (const ParameterSpec& spec : parameter_specs(config, whole_chunk(config)))
        for (const auto& [ending, first] : {std::pair(".exp_avg", 0.0), {".exp_avg_sq", 0.5}}) {
            kept.push_back(numbered(spec, first));
            views.push_back({{spec.name + ending, tensor::DType::F64, spec.sizes},
                             {static_cast<const std::byte*>(kept.back().const_data_ptr()),
                              kept.back().nbytes()}});
        }
    fs::create_directories(root_ / "roll");
    ASSERT_TRUE(tensor::write_safetensors(root_ / checkpoint::kOptimizerFile, std::move(views),
                                          {{"updates", "3"}}));
    for (const Layout& layout : kLayouts) expect_read(root_, config, layout);
}

TEST_F(ReshardMoments, AMissingBoxIsAnError) {
    const spec::ModelConfig config = model_of(false);
    const fs::path saved = save(config, {.dp = 3});
    const fs::path file = saved / checkpoint::kOptimizerIndexFile;
    auto index = checkpoint::decode_optimizer_index(read_file(file).value()).value();
    index.parameters.begin()->second.boxes.pop_back();
    ASSERT_TRUE(write_file_atomically(file, checkpoint::encode(index)));
    on_ranks(config, {},
             [&](TrainStep& step, int) { EXPECT_THROW(read_moments(saved, step), RankFailure); });
}

// Returns the files of a checkpoint that hold weights, by their paths.
std::map<std::string, std::string> weights_in(const fs::path& checkpoint) {
    std::map<std::string, std::string> files;
    for (const auto& entry : fs::recursive_directory_iterator(checkpoint))
        if (entry.path().extension() == ".pt")
            files[fs::relative(entry.path(), checkpoint)] = read_file(entry.path()).value();
    return files;
}

std::int64_t bytes_of_tensor_files(const fs::path& checkpoint) {
    std::int64_t bytes = 0;
    for (const auto& entry : fs::recursive_directory_iterator(checkpoint))
        if (entry.is_regular_file() && entry.path().extension() != ".json")
            bytes += static_cast<std::int64_t>(entry.file_size());
    return bytes;
}

// The replicas divide the bytes of a file with weights. The file is the same as that of one
// replica.
TEST_F(ReshardMoments, ReplicasWriteEquallyManyBytes) {
    spec::ModelConfig config = model_of(false);
    config.vocab = 30000;
    const std::vector<Layout> layouts = {
        {.dp = 2, .zero = 1},
        {.dp = 3},
        {.dp = 6},
        {.dp = 4, .zero = 3},
        {.tp = 2, .pp = 2, .dp = 2, .zero = 2},
        {.pp = 2, .vpp = 2, .dp = 3, .zero = 1, .schedule = spec::Schedule::ZeroBubbleV}};
    for (Layout layout : layouts) {
        layout.dtype = at::kFloat;
        SCOPED_TRACE("dp " + std::to_string(layout.dp) + ", zero " + std::to_string(layout.zero));
        written_.clear();
        const fs::path saved = save(config, layout);
        EXPECT_TRUE(checkpoint::verify(saved));
        std::int64_t all = 0;
        for (const auto& [rank, bytes] : written_) all += bytes;
        EXPECT_EQ(all, bytes_of_tensor_files(saved));
        for (int first = 0; first < layout.tp * layout.pp * layout.dp; ++first) {
            if (first / layout.tp % layout.dp > 0) continue;
            std::int64_t most = 0, sum = 0;
            for (int replica = 0; replica < layout.dp; ++replica) {
                const std::int64_t bytes = written_.at(first + replica * layout.tp);
                most = std::max(most, bytes);
                sum += bytes;
            }
            const double mean = static_cast<double>(sum) / layout.dp;
            // Parts of a file end at multiples of 64 KiB, which matters only if there are few
            // bytes.
            EXPECT_LE(static_cast<double>(most), std::max(1.05 * mean, mean + (1 << 16)));
            std::printf("dp %d, zero %d: %lld bytes, max/mean %.3f\n", layout.dp, layout.zero,
                        static_cast<long long>(sum), static_cast<double>(most) / mean);
        }
        const auto shared = weights_in(saved);
        layout.dp = 1;
        layout.zero = 0;
        const auto whole = weights_in(save(config, layout));
        EXPECT_EQ(shared.size(), whole.size());
        for (const auto& [path, content] : whole) EXPECT_TRUE(shared.at(path) == content) << path;
    }
}

TEST(BalancedShares, FillUpTheRanksWithTheFewestBytes) {
    EXPECT_EQ(balanced_shares({4, 0}, 8), (std::vector<std::int64_t>{2, 6}));
    EXPECT_EQ(balanced_shares({4, 0, 0, 0}, 8), (std::vector<std::int64_t>{0, 4, 2, 2}));
    EXPECT_EQ(balanced_shares({0, 100}, 5), (std::vector<std::int64_t>{5, 0}));
    EXPECT_EQ(balanced_shares({7}, 5), (std::vector<std::int64_t>{5}));
}

}  // namespace
}  // namespace roll::train
