// Faults that a training job injects into itself (train.faults).
#pragma once

#include <cstdint>

namespace roll::spec {

// The phase of a step in which a rank injects a
// fault.
enum class FaultPhase { Forward, Backward, Reduce, Optimizer, Save };
// Kill: the rank gets SIGKILL. Hang: the rank stops for ever. Nan: a weight becomes NaN. Exit: the
// process exits with status 1. Flip: a bit of a weight flips. Glitch: an element of a gradient is
// wrong. Slow: the rank sleeps in this step and in all later steps. DiskFull: the rank's write to a
// checkpoint fails as on a full disk.
enum class FaultKind { Kill, Hang, Nan, Exit, Flip, Glitch, Slow, DiskFull };
const char* name_of(FaultPhase phase);
const char* name_of(FaultKind kind);
struct FaultSpec {
    int rank = 0;
    std::int64_t step = 1;  // number of the step, counted from 1
    FaultPhase phase = FaultPhase::Forward;
    FaultKind kind = FaultKind::Kill;
    std::int64_t ms = 0;  // Slow: the time that the rank sleeps in each step
};

}  // namespace roll::spec
