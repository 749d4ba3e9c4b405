// The events of a step in order, for tests and timelines.
#pragma once

#include <vector>

#include "worker/plan/pipeline_schedule.hpp"

namespace roll::train {

struct TraceEvent {
    enum class Kind { OpDone, ReductionIssued };
    Kind kind = Kind::OpDone;
    plan::Op op = {};  // if OpDone
    int chunk = 0;     // if ReductionIssued
    int bucket = 0;    // if ReductionIssued; numbered in the order of backward
};
using StepTrace = std::vector<TraceEvent>;

}  // namespace roll::train
