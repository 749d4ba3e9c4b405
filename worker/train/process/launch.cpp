#include "worker/train/process/launch.hpp"

#include "worker/train/process/failure.hpp"

namespace roll::train {
namespace {

namespace fs = std::filesystem;

void refuse_axis(const char* name, int value) {
    if (value == 1) return;
    throw RankFailure(2, std::string("parallel.") + name + ": " + std::to_string(value) +
                             " is not supported yet; set it to 1");
}

}  // namespace

void check_spec(const spec::TrainSpec& spec) {
    refuse_axis("tp", spec.parallel.tp);
    refuse_axis("pp", spec.parallel.pp);
    refuse_axis("vpp", spec.parallel.vpp);
    refuse_axis("cp", spec.parallel.cp);
    refuse_axis("ep", spec.parallel.ep);
    const std::int64_t rows = spec.micro_batch_size * spec.parallel.dp;
    if (spec.global_batch_size < rows || spec.global_batch_size % rows != 0) {
        throw RankFailure(2, "train.global_batch_size: " + std::to_string(spec.global_batch_size) +
                                 " is not a multiple of micro_batch_size " +
                                 std::to_string(spec.micro_batch_size) + " x dp " +
                                 std::to_string(spec.parallel.dp));
    }
}

spec::TrainSpec checked_spec(const protocol::Launch& launch) {
    spec::TrainSpec spec = need(spec::train_spec(launch.document));
    check_spec(spec);
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
