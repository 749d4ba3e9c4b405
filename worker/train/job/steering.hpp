// The settings of a run that requests can change during training. The settings are the same on all
// ranks.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "common/training_request.hpp"
#include "worker/train/report/phase_trace.hpp"

namespace roll::train {

// The recording of a profile.
struct Profile {
    std::uint64_t request = 0;  // number of the request
    std::int64_t first = 0;     // first recorded step
    std::int64_t last = 0;      // last step to record
    PhaseClock::Clock::time_point start{};
    std::vector<StepSpan> steps{};
};

struct Steering {
    bool ended = false;          // true: the last step is done, and requests change nothing
    std::int64_t stop_step = 0;  // step at which the training ends; 0: the job's last step
    std::int64_t log_every = 1;  // every log_every-th step is logged
    std::optional<Profile> profile{};
    // Requests that rank 0 has received but the ranks have not agreed on yet; empty on other ranks
    std::deque<TrainingRequest> waiting{};
};

}  // namespace roll::train
