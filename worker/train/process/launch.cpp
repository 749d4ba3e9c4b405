#include "worker/train/process/launch.hpp"

#include "common/spec/pipeline.hpp"
#include "worker/train/process/failure.hpp"

namespace roll::train {
namespace {

namespace fs = std::filesystem;

void refuse_axis(const char* name, int value) {
    if (value == 1) return;
    throw RankFailure(2, std::string("parallel.") + name + ": " + std::to_string(value) +
                             " is not supported yet; set it to 1");
}

void refuse_first(const std::vector<spec::Problem>& problems) {
    if (problems.empty()) return;
    throw RankFailure(2, problems.front().path + " " + problems.front().message);
}

}  // namespace

void check_spec(const spec::TrainSpec& spec, bool on_gpus) {
    refuse_axis("tp", spec.parallel.tp);
    refuse_axis("cp", spec.parallel.cp);
    refuse_axis("ep", spec.parallel.ep);
    const std::int64_t rows = spec.micro_batch_size * spec.parallel.dp;
    if (spec.global_batch_size < rows || spec.global_batch_size % rows != 0) {
        throw RankFailure(2, "train.global_batch_size: " + std::to_string(spec.global_batch_size) +
                                 " is not a multiple of micro_batch_size " +
                                 std::to_string(spec.micro_batch_size) + " x dp " +
                                 std::to_string(spec.parallel.dp));
    }
    refuse_first(spec::pipeline_problems(
        spec.parallel, {.microbatches = spec.microbatches(), .on_gpus = on_gpus}));
}

void check_stages(const spec::TrainSpec& spec, std::int64_t layers) {
    refuse_first(spec::pipeline_problems(spec.parallel, {.layers = layers}));
}

spec::TrainSpec checked_spec(const protocol::Launch& launch) {
    spec::TrainSpec spec = need(spec::train_spec(launch.document));
    check_spec(spec, !launch.gpus.empty());
    return spec;
}

std::vector<fs::path> candidates_of(const protocol::Launch& launch) {
    std::vector<fs::path> directories;
    for (const protocol::WrittenCheckpoint& checkpoint : launch.checkpoints)
        if (!checkpoint.deleted) directories.emplace_back(checkpoint.directory);
    return directories;
}

fs::path output_of(const fs::path& checkpoint) { return checkpoint.parent_path().parent_path(); }

}  // namespace roll::train
