#include "worker/train/save/snapshot.hpp"

#include <cstring>
#include <fstream>

#include <ATen/ATen.h>

#include "common/files.hpp"
#include "common/tensor/safetensors.hpp"
#include "worker/formats/mca.hpp"
#include "worker/formats/torch_file.hpp"
#include "worker/train/model/lazy_zeros.hpp"
#include "worker/train/model/load_weights.hpp"
#include "worker/train/process/failure.hpp"
#include "worker/train/save/adapter_files.hpp"

namespace roll::train {
namespace {

namespace fs = std::filesystem;

constexpr const char* kAverage = ".exp_avg";
constexpr const char* kSquare = ".exp_avg_sq";
constexpr const char* kUpdates = "updates";

std::span<std::byte> bytes_of(const at::Tensor& tensor) {
    return {static_cast<std::byte*>(tensor.data_ptr()), tensor.nbytes()};
}

tensor::TensorInfo info_of(const std::string& name, const at::Tensor& tensor) {
    const auto dtype =
        tensor.scalar_type() == at::kDouble ? tensor::DType::F64 : tensor::DType::F32;
    return {name, dtype, tensor.sizes().vec()};
}

Result<void> write_weights(const fs::path& directory, const Snapshot& snapshot,
                           const ModelSetup& model) {
    formats::McaConfig config;
    config.model_type = model.config.family;
    config.hf_config = model.hf_config;
    config.native = model.native;
    ROLL_TRY_VOID(formats::write_mca_root(directory, config, tensor::DType::F32));
    const fs::path file = directory / formats::mca_rank_file({}, {});
    ROLL_TRY_VOID(make_directories(file.parent_path()));
    std::vector<tensor::TensorView> views;
    for (std::size_t i = 0; i < snapshot.specs.size(); ++i) {
        views.push_back(
            {info_of(snapshot.specs[i].name, snapshot.weight[i]), bytes_of(snapshot.weight[i])});
    }
    return formats::write_torch_file(file, formats::mca_chunk_key({}, 0), views);
}

Result<void> write_moments(const fs::path& file, const Snapshot& snapshot) {
    std::vector<tensor::TensorView> tensors;
    for (std::size_t i = 0; i < snapshot.specs.size(); ++i) {
        if (snapshot.specs[i].frozen) continue;
        const std::string& name = snapshot.specs[i].name;
        const at::Tensor &average = snapshot.average[i], &square = snapshot.square[i];
        tensors.push_back({info_of(name + kAverage, average), bytes_of(average)});
        tensors.push_back({info_of(name + kSquare, square), bytes_of(square)});
    }
    return tensor::write_safetensors(
        file, std::move(tensors), {{"format", "pt"}, {kUpdates, std::to_string(snapshot.updates)}});
}

// Reads one moment of a parameter. Does nothing if the file does not have it, because the parameter
// was frozen when the file was written.
void read_moment(const tensor::SafetensorsFile& file, const std::string& name,
                 const ParameterSpec& spec, const layout::Rows& own, const at::Tensor& into) {
    const tensor::TensorView* view = file.find(name);
    if (view == nullptr) return;
    tensor::TensorInfo expected = info_of(name, into);
    expected.shape = whole_sizes(spec);
    if (!(view->info == expected))
        throw RankFailure(2, "the checkpoint's optimizer state has no " + name +
                                 " of the job's shape and precision");
    const at::Tensor whole = at::empty(expected.shape, into.options().device(at::kCPU));
    std::memcpy(whole.data_ptr(), view->bytes.data(), view->bytes.size());
    const at::Tensor part = spec.parts.empty() ? whole : at::empty(spec.sizes, whole.options());
    if (!spec.parts.empty()) copy_from_whole(spec, whole, part);
    into.copy_(part.narrow(0, own.begin, own.count));
}

// Writes the main weight of a parameter to to[0], and its moments to to[1] and to[2] if it is
// trained. Ranks that share optimizer state all must call it: each adds its own rows.
void copy_all_rows(TrainStep& step, std::size_t chunk, std::size_t i,
                   std::span<const at::Tensor> to) {
    const Parameters& p = step.chunks()[chunk].parameters();
    const AdamWState& moments = step.optimizers()[chunk].state();
    if (p.is_shared)
        for (at::Tensor one : to) one.zero_();
    copy_main(p, i, own_rows(p, i, to[0]));
    if (to.size() > 1) own_rows(p, i, to[1]).copy_(moments.average[i]);
    if (to.size() > 1) own_rows(p, i, to[2]).copy_(moments.square[i]);
    // The rows are disjoint, so their sum with zeros is exact.
    for (const at::Tensor& one : to)
        if (p.is_shared) sum_over(step.groups().dp, one, {Site::Weights, static_cast<int>(i)});
}

// Gives the rows of this rank to copy_all_rows() on the first replica.
void give_rows(TrainStep& step, at::ScalarType type) {
    if (!step.chunks().front().parameters().is_shared) return;
    for (const WholeParameter& parameter : saved_parameters(step.whole())) {
        if (parameter.rank != step.groups().pp.rank()) continue;
        std::vector<at::Tensor> dropped;
        for (int i = 0; i < (parameter.spec.frozen ? 1 : 3); ++i)
            dropped.push_back(at::empty(parameter.own.sizes, type));
        copy_all_rows(step, parameter.chunk, parameter.index, dropped);
    }
}

}  // namespace

std::optional<Snapshot> take_snapshot(TrainStep& step, const checkpoint::State& state,
                                      const std::string& job) {
    const std::vector<WholeParameter> whole = saved_parameters(step.whole());
    Communicator& pp = step.groups().pp;
    const at::ScalarType type = main_type(step.chunks().front().parameters());
    if (step.groups().dp.rank() > 0) {
        give_rows(step, type);
        return std::nullopt;
    }
    Snapshot snapshot;
    snapshot.specs = specs_of(whole);
    const bool is_here = is_first(step.groups());
    if (is_here) {
        const std::int64_t all = numel(snapshot.specs), trained = trainable_numel(snapshot.specs);
        snapshot.weight = views_of(snapshot.specs, lazy_zeros(all, type));
        snapshot.average = trainable_views(snapshot.specs, lazy_zeros(trained, type));
        snapshot.square = trainable_views(snapshot.specs, lazy_zeros(trained, type));
    }
    for (std::size_t i = 0; i < whole.size(); ++i) {
        const auto& [spec, own, rank, chunk, index] = whole[i];
        std::vector<at::Tensor> to(spec.frozen ? 1 : 3);
        if (is_here) {
            to[0] = snapshot.weight[i];
            if (!spec.frozen) to[1] = snapshot.average[i], to[2] = snapshot.square[i];
        }
        copy_to_first(
            whole[i], pp, step.groups().tp, type, to,
            [&](std::span<const at::Tensor> copies) { copy_all_rows(step, chunk, index, copies); });
    }
    if (!is_here) return std::nullopt;
    snapshot.updates = step.optimizers().front().state().steps;
    snapshot.state = state;
    snapshot.job = job;
    return snapshot;
}

std::uint64_t snapshot_bytes(TrainStep& step, const ModelSetup& model) {
    constexpr std::uint64_t kOfTensor = 1 << 10, kOfFiles = 1 << 16;
    const std::vector<ParameterSpec> specs = specs_of(saved_parameters(step.whole()));
    const std::int64_t count = numel(specs) + 2 * trainable_numel(specs);
    std::uint64_t bytes = static_cast<std::uint64_t>(count) *
                          c10::elementSize(main_type(step.chunks().front().parameters()));
    bytes += kOfFiles + kOfTensor * specs.size();
    for (const auto& [name, content] : model.companions) bytes += content.size();
    return bytes;
}

Result<void> write_snapshot(const fs::path& directory, const Snapshot& snapshot,
                            const ModelSetup& model) {
    ROLL_TRY_VOID(make_directories(directory / "roll"));
    if (model.config.lora.is_set()) {
        ROLL_TRY_VOID(write_adapter(directory, snapshot.specs, snapshot.weight, model));
    } else {
        ROLL_TRY_VOID(write_weights(directory, snapshot, model));
    }
    ROLL_TRY_VOID(write_moments(directory / checkpoint::kOptimizerFile, snapshot));
    for (const auto& [name, content] : model.companions)
        ROLL_TRY_VOID(write_file_atomically(directory / name, content));
    ROLL_TRY_VOID(write_file_atomically(directory / checkpoint::kJobFile, snapshot.job));
    return write_file_atomically(directory / checkpoint::kStateFile,
                                 checkpoint::encode(snapshot.state));
}

std::string load_weights(const fs::path& directory, TrainStep& step, std::uint64_t seed) {
    std::vector<Parameters*> chunks;
    for (Chunk& chunk : step.chunks()) chunks.push_back(&chunk.parameters());
    return load_weights(directory, chunks, specs_of(step.whole()), seed);
}

checkpoint::State restore(const fs::path& directory, TrainStep& step, const ModelSetup& model) {
    if (model.config.lora.is_set())
        read_adapter(directory, step, model);
    else
        load_weights(directory, step);
    const auto file = need(tensor::SafetensorsFile::open(directory / checkpoint::kOptimizerFile));
    const std::vector<WholeParameter>& whole = step.whole();
    if (std::ranges::none_of(whole, [&](const WholeParameter& parameter) {
            return !parameter.spec.frozen && file.find(parameter.spec.name + kAverage) != nullptr;
        }))
        throw RankFailure(2, "the checkpoint's optimizer state belongs to another model");
    const auto updates = file.metadata().find(kUpdates);
    if (updates == file.metadata().end())
        throw RankFailure(2, "the checkpoint's optimizer state has no number of updates");
    for (std::size_t chunk = 0; chunk < step.chunks().size(); ++chunk) {
        const Parameters& p = step.chunks()[chunk].parameters();
        const std::vector<ParameterSpec>& specs = p.specs;
        AdamWState& moments = step.optimizers()[chunk].state();
        for (std::size_t i = 0; i < specs.size(); ++i) {
            if (specs[i].frozen) continue;
            read_moment(file, specs[i].name + kAverage, specs[i], p.own[i], moments.average[i]);
            read_moment(file, specs[i].name + kSquare, specs[i], p.own[i], moments.square[i]);
        }
        moments.steps = std::stoll(updates->second);
    }
    return need(checkpoint::decode_state(need(read_file(directory / checkpoint::kStateFile))));
}

}  // namespace roll::train
