// Tracks which job writes to which output directory. Two jobs that write to the same one would
// mix their logs and checkpoints, so the second is refused unless it waits for the first.
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
    // Fails with Refused if the output of `spec`, or of one of its array's tasks, is used by a job
    // that has not ended and that `spec` does not wait for, or if tasks share an output. Outputs
    // with "{id}" are not checked, because they are unique. `submission` names the submission,
    // which may arrive twice in a turn.
    Result<void> check(const core::State& state, const spec::JobSpec& spec,
                       const std::string& submission);

    // Records a queued job. Cheap before the first check().
    void note(JobId id, const core::Job& job);
    // Forgets outputs that were checked in this turn and then refused.
    void end_turn() { checked_.clear(); }

  private:
    void build(const core::State& state);
    Result<void> check_one(const core::State& state, const spec::JobSpec& spec,
                           const std::string& output, const std::string& submission);

    std::optional<std::unordered_map<std::uint64_t, JobId>> writers_{};  // by hash of the output
    // Hash of an output checked in this turn -> the submission's name.
    std::map<std::uint64_t, std::string> checked_{};
};

}  // namespace roll::server
