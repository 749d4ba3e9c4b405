// Cuts a job to the least sizes that keep its layout and the features of its model. Pure.
#pragma once

#include <string>
#include <vector>

#include "common/spec/model.hpp"
#include "common/spec/train.hpp"
#include "worker/plan/pipeline_schedule.hpp"

namespace roll::train {

// The most ranks of a job that is proven in its whole layout.
inline constexpr int kRanksMax = 64;

// One size that was cut. `key` is a key of the job file or of a HuggingFace config.
struct Cut {
    std::string key;
    double from = 0, to = 0;
};

struct SmallJob {
    spec::TrainSpec spec;
    spec::ModelConfig config;
    std::vector<Cut> cuts;
};

// Cuts the widths of the model, its layers, the sequences and the micro-batches. A size that an
// axis divides stays divisible by the axis, and one that it does not divide stays indivisible. A
// stage with more layers than another stage keeps more. The small model has a layer of each kind
// (sliding window, frozen or decayed parameters) that the model has, if it has enough layers.
// If the job has more than kRanksMax ranks, then dp becomes 2; if that does not suffice, tp becomes
// 2, and then pp is cut. `schedule` is the job's; the small job asks for the same by name.
SmallJob cut_job(const spec::TrainSpec& spec, const spec::ModelConfig& config,
                 const plan::PipelineSchedule& schedule);

}  // namespace roll::train
