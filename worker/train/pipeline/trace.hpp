// The events of a step in order, for tests and timelines.
#pragma once

#include <vector>

#include "worker/plan/pipeline_schedule.hpp"

namespace roll::train {

struct TraceEvent {
    enum class Kind { OpDone, ReductionIssued };
    Kind kind = Kind::OpDone;
    plan::Op op = {};  // set if OpDone
    int chunk = 0;     // set if ReductionIssued
    int bucket = 0;    // set if ReductionIssued; buckets are numbered in the order of backward
};
using StepTrace = std::vector<TraceEvent>;

}  // namespace roll::train
