// An attempt as the heartbeats of its worker describe it.
#pragma once

#include <string>
#include <vector>

#include "common/ids.hpp"
#include "common/outcome.hpp"
#include "common/protocol/written_checkpoint.hpp"
#include "common/protocol/written_export.hpp"
#include "common/training_request.hpp"
#include "common/usage.hpp"

namespace roll::protocol {

// The phase of an attempt on one worker.
enum class Phase { Starting, Running, Stopping, Ended };

// An attempt on the worker that sends the heartbeat.
struct RunningAttempt {
    AttemptKey attempt;
    Phase phase = Phase::Starting;
    Outcome outcome = Outcome::Done;  // valid only if the attempt has ended
    int exit_code = 0;
    std::string reason;
    std::vector<int> matched{};  // indices of the patterns in retry.on_log that the log matched
    // Checkpoints that are written but not yet recorded by rolld.
    std::vector<WrittenCheckpoint> checkpoints{};
    std::string exported{};                // directory of an export that rolld has not recorded yet
    std::vector<WrittenExport> exports{};  // exports of checkpoints, not yet recorded by rolld
    std::vector<RequestAnswer> answers{};  // answers to requests, not yet recorded by rolld
    std::string progress{};                // newest progress report, as JSON for people
    Usage usage{};  // resources that the ended attempt used on this worker; all zero if unknown
};

}  // namespace roll::protocol
