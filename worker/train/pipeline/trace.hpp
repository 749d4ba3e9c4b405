// What a step did and in which order, for tests and timelines.
#pragma once

#include <vector>

#include "worker/plan/pipeline_schedule.hpp"

namespace roll::train {

struct TraceEvent {
    enum class Kind { OpDone, ReductionIssued };
    Kind kind = Kind::OpDone;
    plan::Op op = {};  // of OpDone
    int chunk = 0;     // of ReductionIssued
    int bucket = 0;    // likewise; counts in the order of backward
};
using StepTrace = std::vector<TraceEvent>;

}  // namespace roll::train
