// Writes the phases of some steps of all ranks as a Chrome trace.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "worker/train/comm/communicator.hpp"
#include "worker/train/comm/phase_clock.hpp"

namespace roll::train {

struct StepSpan {
    std::int64_t step = 0;
    PhaseClock::Clock::time_point begin{}, end{};
};

// Returns the trace in the Trace Event format that chrome://tracing and Perfetto read. Thread 0 has
// the steps as this rank saw them, and thread 1 + R has the phases of rank R. Each rank's times
// count from its `start`. The ranks must take `start` right after a collective operation. All ranks
// must call this function.
std::string phase_trace(Communicator& world, PhaseClock::Clock::time_point start,
                        const std::vector<PhaseClock::Span>& spans,
                        const std::vector<StepSpan>& steps);

}  // namespace roll::train
