#include "common/spec/pipeline.hpp"

#include <fmt/format.h>

namespace roll::spec {
namespace {

// Returns true if Megatron can divide the layers. The stages without a given number of layers must
// have equally many layers, and so must the chunks of each stage.
bool divide(std::int64_t layers, const ParallelSpec& p) {
    const std::int64_t others = p.pp - (p.first_layers > 0) - (p.last_layers > 0);
    const std::int64_t rest = layers - p.first_layers - p.last_layers;
    if (others < 0 || rest < 0 || (others == 0 ? rest : rest % others) != 0) return false;
    const std::int64_t each = others == 0 ? 0 : rest / others;
    return each % p.vpp == 0 && p.first_layers % p.vpp == 0 && p.last_layers % p.vpp == 0;
}

Problem undivided(std::int64_t layers, const ParallelSpec& p) {
    if (p.first_layers == 0 && p.last_layers == 0)
        return {"parallel.pp", fmt::format("is {} and vpp is {}, so the {} layers of the model "
                                           "(num_hidden_layers) must be a multiple of {}; or set "
                                           "parallel.first_layers or parallel.last_layers",
                                           p.pp, p.vpp, layers, std::int64_t{p.pp} * p.vpp)};
    return {
        "parallel.pp",
        fmt::format("is {}, vpp {}, first_layers {} and last_layers {}, which do not divide the "
                    "{} layers of the model (num_hidden_layers): the stages that first_layers "
                    "and last_layers do not name need equally many layers, and each stage a "
                    "multiple of vpp",
                    p.pp, p.vpp, p.first_layers, p.last_layers, layers)};
}

}  // namespace

std::vector<Problem> pipeline_problems(const ParallelSpec& p, const PipelineSizes& sizes) {
    std::vector<Problem> problems;
    const auto refuse = [&](const char* path, std::string message) {
        problems.push_back({path, std::move(message)});
    };
    if (p.pp > 1 && sizes.on_gpus)
        refuse(
            "parallel.pp",
            fmt::format("is {}, but pipeline stages on GPUs are not supported yet, because their "
                        "sends and receives can deadlock in NCCL; allowed: 1",
                        p.pp));
    if (p.vpp > 1 && p.pp == 1)
        refuse(
            "parallel.vpp",
            fmt::format("is {}, but parallel.pp is 1; allowed: 1, or set parallel.pp to 2 or more",
                        p.vpp));
    const Schedule schedule = p.schedule;
    if (schedule == Schedule::Interleaved && p.vpp == 1)
        refuse("parallel.schedule",
               "is interleaved, but parallel.vpp is 1; set parallel.vpp to 2 or more, or the "
               "schedule to 1f1b");
    const bool one_chunk =
        schedule == Schedule::OneForwardOneBackward || schedule == Schedule::ZeroBubbleH1;
    if (one_chunk && p.vpp > 1)
        refuse("parallel.schedule",
               fmt::format("is {}, which has one chunk per stage, but parallel.vpp is {}; allowed "
                           "with this vpp: auto, interleaved, gpipe",
                           name_of(schedule), p.vpp));
    const bool interleaves =
        p.vpp > 1 && (schedule == Schedule::Auto || schedule == Schedule::Interleaved);
    if (interleaves && p.pp > 1 && sizes.microbatches && *sizes.microbatches % p.pp != 0)
        refuse(
            "parallel.vpp",
            fmt::format("is {}, but the {} micro-batches of a replica (global_batch_size / "
                        "micro_batch_size / dp) are not a multiple of pp {}; change these sizes, "
                        "or set vpp to 1",
                        p.vpp, *sizes.microbatches, p.pp));
    if (sizes.layers && !divide(*sizes.layers, p)) problems.push_back(undivided(*sizes.layers, p));
    return problems;
}

}  // namespace roll::spec
