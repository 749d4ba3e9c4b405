// Reduces a job to the smallest sizes that keep its layout and the features of its model. Pure.
#pragma once

#include <string>
#include <vector>

#include "common/spec/train/model.hpp"
#include "common/spec/train/train.hpp"
#include "worker/plan/pipeline_schedule.hpp"

namespace roll::train {

// The largest number of ranks with which a job is proven in its complete layout.
inline constexpr int kRanksMax = 64;

// A size that was reduced. `key` is a key of the job file or of a HuggingFace config.
struct Cut {
    std::string key;
    double from = 0, to = 0;
};

struct SmallJob {
    spec::TrainSpec spec;
    spec::ModelConfig config;
    std::vector<Cut> cuts;
};

// Reduces the widths of the model, its layers, the sequences and the micro-batches. If a parallel
// axis divides a size exactly, the axis also divides the reduced size exactly. If an axis does not
// divide the size exactly, it does not divide the reduced size exactly either. A stage that has
// more layers than another stage still has more. The small model keeps a layer of each kind that
// the job's model has (sliding window, frozen or decayed parameters), if the small model has enough
// layers. If the job has more than kRanksMax ranks, dp becomes at most 2. If the job then still has
// too many ranks, tp and then cp become at most 2, and finally pp is reduced. `schedule` is the
// job's schedule; the small job requests the same schedule by name.
SmallJob cut_job(const spec::TrainSpec& spec, const spec::ModelConfig& config,
                 const plan::PipelineSchedule& schedule);

}  // namespace roll::train
