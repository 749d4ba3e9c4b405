// Which job writes to which directory. Two jobs that write to one at the same time mix their logs
// and checkpoints, so the second is refused unless it waits for the first.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>

#include "common/error.hpp"
#include "daemon/core/state.hpp"

namespace roll::server {

class Outputs {
  public:
    // Error Refused: a job that is not over, and that `spec` does not wait for, writes to the
    // output of `spec` or of one of its array's tasks; or tasks have one output. An output with
    // "{id}" is not looked at: it is each job's own. `submission` names the submission, which may
    // be said twice in a turn.
    Result<void> check(const core::State& state, const spec::JobSpec& spec,
                       const std::string& submission);

    // A job was queued. Cheap until check() has looked at an output.
    void note(JobId id, const core::Job& job);
    // Forgets what was checked in this turn and then refused.
    void end_turn() { checked_.clear(); }

  private:
    void build(const core::State& state);
    Result<void> check_one(const core::State& state, const spec::JobSpec& spec,
                           const std::string& output, const std::string& submission);

    std::optional<std::unordered_map<std::uint64_t, JobId>> writers_{};  // by the output's hash
    std::map<std::uint64_t, std::string> checked_{};  // in this turn: by which submission
};

}  // namespace roll::server
