// Tracks which job writes to which output directory. Two jobs that write to the same directory at
// once would mix their logs and checkpoints. A training would replace the results of an earlier
// training. rolld therefore refuses a job if an earlier job writes to its directory. It also
// refuses a training if an earlier training has left results there. A job that depends on the
// earlier job is not refused.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>

#include "common/error.hpp"
#include "daemon/core/state/state.hpp"

namespace roll::api {

class Outputs {
  public:
    // Fails with Refused if another job that has not ended uses an output of `spec`. If `spec` is a
    // training, also fails if an ended training has left results in an output. A job that `spec`
    // waits for, and a training that `spec` resumes, may have the same output. Also fails with
    // Refused if tasks of the array of `spec` share an output. An output with "{id}" is not
    // checked, because it is unique. `submission` identifies the submission. If a submission
    // arrives twice in a turn, the repetition is therefore not refused.
    Result<void> check(const core::State& state, const spec::JobSpec& spec,
                       const std::string& submission);

    // Records the output of a queued job. Does nothing before the first check().
    void note(JobId id, const core::Job& job);
    // Forgets the outputs that check() saw in this turn. At the end of a turn, note() has recorded
    // the outputs of the accepted jobs.
    void end_turn() { checked_.clear(); }

  private:
    void build(const core::State& state);
    Result<void> check_one(const core::State& state, const spec::JobSpec& spec,
                           const std::string& output, const std::string& submission);

    // Maps the hash of an output to the newest job that writes there or has left results there.
    // nullopt before the first check().
    std::optional<std::unordered_map<std::uint64_t, JobId>> writers_{};
    std::size_t built_ = 0;  // size of `writers_` when build() filled it
    // Outputs that were checked in this turn: maps the hash of the output to the submission.
    std::map<std::uint64_t, std::string> checked_{};
};

}  // namespace roll::api
