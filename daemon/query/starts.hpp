// Predicts when waiting jobs start. The functions are pure.
#pragma once

#include <map>
#include <optional>

#include "daemon/core/state/state.hpp"

namespace roll::query {

// Returns the predicted starts of the jobs at the head of the queue. For the first job that must
// wait, this is the reserved time. Later jobs cannot delay this start. Leaves out a job whose start
// is unknown.
std::map<JobId, Time> known_starts(const core::State& state, Time now);

// The predicted starts of the jobs of one reply. A prediction takes as long as a pass over the
// queue, so the starts are computed only at the first call of of() for a waiting job.
class Starts {
  public:
    Starts(const core::State& state, Time now) : state_(state), now_(now) {}

    // Returns the job's predicted start; nullopt if it is unknown, or if the job does not wait.
    std::optional<Time> of(JobId id, const core::Job& job);

  private:
    const core::State& state_;
    Time now_;
    std::optional<std::map<JobId, Time>> starts_{};
};

}  // namespace roll::query
