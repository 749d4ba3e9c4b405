#include "worker/train/process/launch.hpp"

#include "common/spec/check/context.hpp"
#include "common/spec/check/experts.hpp"
#include "common/spec/check/pipeline.hpp"
#include "common/spec/check/tensor.hpp"
#include "worker/train/process/failure.hpp"

namespace roll::train {
namespace {

namespace fs = std::filesystem;

void refuse(const std::vector<spec::Problem>& problems) {
    std::string text;
    for (const spec::Problem& problem : problems)
        text += (text.empty() ? "" : "; ") + problem.path + " " + problem.message;
    if (!text.empty()) throw RankFailure(2, text);
}

}  // namespace

void check_spec(const spec::TrainSpec& spec) {
    if (spec.objective == spec::Objective::Preference)
        refuse(spec::context_problems(spec.parallel.cp, spec::name_of(spec.preference.kind)));
    if (spec.parallel.ep != 1)
        throw RankFailure(2, "parallel.ep: " + std::to_string(spec.parallel.ep) +
                                 " is not supported yet; set it to 1");
    if (spec.parallel.zero < 0 || spec.parallel.zero > 3)
        throw RankFailure(2, "parallel.zero: " + std::to_string(spec.parallel.zero) +
                                 " is not allowed; set it to 0, 1, 2 or 3");
    const std::int64_t rows = spec.micro_batch_size * spec.parallel.dp;
    if (spec.global_batch_size < rows || spec.global_batch_size % rows != 0) {
        throw RankFailure(2, "train.global_batch_size: " + std::to_string(spec.global_batch_size) +
                                 " is not a multiple of micro_batch_size " +
                                 std::to_string(spec.micro_batch_size) + " x dp " +
                                 std::to_string(spec.parallel.dp));
    }
    for (const spec::BatchPhase& phase : spec.batch_phases)
        if (phase.size % rows != 0)
            throw RankFailure(2, "train.batch_size_schedule: " + std::to_string(phase.size) +
                                     " is not a multiple of micro_batch_size x dp, " +
                                     std::to_string(rows));
    for (const spec::BatchPhase& phase : spec.batch_phases)
        refuse(spec::pipeline_problems(spec.parallel,
                                       {.microbatches = phase.size / rows, .rows = rows}));
    refuse(spec::tensor_problems(spec.parallel, {}));
    refuse(spec::pipeline_problems(spec.parallel,
                                   {.microbatches = spec.microbatches(), .rows = rows}));
}

void check_layout(const spec::TrainSpec& spec, const spec::ModelConfig& model, bool on_gpu) {
    if (model.experts > 0) {
        const bool compares = spec.objective == spec::Objective::Preference;
        refuse(spec::expert_problems({compares ? spec::name_of(spec.preference.kind) : "",
                                      spec.parallel.cp, spec.lora.is_set(), on_gpu}));
    }
    std::vector<spec::Problem> problems =
        spec::tensor_problems(spec.parallel, spec::tensor_sizes(model));
    for (spec::Problem& problem : spec::pipeline_problems(spec.parallel, {.layers = model.layers}))
        problems.push_back(std::move(problem));
    refuse(problems);
}

void check_faults(const spec::TrainSpec& spec, const protocol::Launch& launch) {
    if (!spec.faults.empty() && !launch.allow_faults)
        throw RankFailure(2,
                          "train.faults: this node's roll-worker does not allow faults; start it "
                          "with --allow-faults, or remove train.faults");
    for (const spec::FaultSpec& fault : spec.faults)
        if (fault.rank >= launch.world_size())
            throw RankFailure(2, "train.faults: rank " + std::to_string(fault.rank) +
                                     " does not exist; the job has ranks 0 to " +
                                     std::to_string(launch.world_size() - 1));
}

spec::TrainSpec checked_spec(const protocol::Launch& launch) {
    spec::TrainSpec spec = need(spec::train_spec(launch.document));
    check_spec(spec);
    check_faults(spec, launch);
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
