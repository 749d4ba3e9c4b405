#include "worker/train/save/restore.hpp"

#include "common/files.hpp"
#include "worker/checkpoint/optimizer_index.hpp"
#include "worker/train/model/load_weights.hpp"
#include "worker/train/model/tensor_shard.hpp"
#include "worker/train/process/failure.hpp"
#include "worker/train/save/adapter_files.hpp"
#include "worker/train/save/dist_part.hpp"
#include "worker/train/save/moments.hpp"

namespace roll::train {
namespace {

namespace fs = std::filesystem;

formats::McaConfig mca_config(const ModelSetup& model, const formats::McaLayout& layout) {
    formats::McaConfig config;
    config.model_type = model.config.family;
    config.hf_config = model.hf_config;
    config.native = model.native;
    config.layout = layout;
    const std::int64_t rows = vocabulary_rows(model.config, layout.tp) * layout.tp;
    if (rows != model.config.vocab) {
        config.native["vocab_size"] = model.config.vocab;
        config.native["padded_vocab_size"] = rows;
    }
    return config;
}

}  // namespace

Result<void> write_head_files(const fs::path& directory, const ModelSetup& model,
                              const formats::McaLayout& layout, const checkpoint::State& state,
                              const std::string& job, const formats::DcpMetadata* dist) {
    const formats::McaConfig config = mca_config(model, layout);
    ROLL_TRY_VOID(make_directories(directory / "roll"));
    ROLL_TRY_VOID(model.config.lora.is_set()
                      ? write_adapter_config(directory, model)
                      : formats::write_mca_root(directory, config, tensor::DType::F32));
    if (dist != nullptr) ROLL_TRY_VOID(write_dist_files(directory, config, *dist, state, job));
    // If the job averages its adapter, the ranks have already written the averaged adapter.
    if (const fs::path averaged = directory / checkpoint::kAveragedAdapter; path_exists(averaged))
        ROLL_TRY_VOID(write_adapter_config(averaged, model));
    for (const auto& [name, content] : model.companions)
        ROLL_TRY_VOID(write_file_atomically(directory / name, content));
    ROLL_TRY_VOID(write_file_atomically(directory / checkpoint::kJobFile, job));
    return write_file_atomically(directory / checkpoint::kStateFile, checkpoint::encode(state));
}

std::string load_weights(const fs::path& directory, TrainStep& step, std::uint64_t seed,
                         const std::vector<std::string>& adapters) {
    std::vector<Parameters*> chunks;
    for (Chunk& chunk : step.chunks()) chunks.push_back(&chunk.parameters());
    std::string how = load_weights(directory, chunks, specs_of(step.whole()), seed, adapters);
    for (Chunk& chunk : step.chunks()) chunk.start_magnitudes();
    for (Optimizer& optimizer : step.optimizers()) optimizer.start_average();
    return how;
}

checkpoint::State restore(const fs::path& directory, TrainStep& step, const ModelSetup& model) {
    if (model.config.lora.is_set())
        read_adapter(directory, step, model);
    else
        load_weights(directory, step);
    for (Optimizer& optimizer : step.optimizers()) optimizer.start_average();
    read_moments(directory, step);
    return need(checkpoint::decode_state(need(read_file(directory / checkpoint::kStateFile))));
}

}  // namespace roll::train
