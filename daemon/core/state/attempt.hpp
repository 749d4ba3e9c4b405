// One attempt of a job, and its outcome.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "common/ids.hpp"
#include "common/outcome.hpp"
#include "common/time.hpp"
#include "common/training_request.hpp"
#include "common/usage.hpp"

namespace roll::core {

using roll::Outcome;
using roll::Usage;

// The phases are Starting -> Running -> Stopping -> ended. An attempt may also go from Starting to
// Stopping.
enum class AttemptPhase { Starting, Running, Stopping };

// The resources of one worker that an attempt holds. The places of an attempt are in the order of
// its node ranks.
struct Place {
    WorkerId worker;
    std::vector<int> slots;  // slot indices, 0..Worker::slots-1
    std::vector<int> gpus;   // GPU indices, 0..Worker::gpus-1
    bool up = false;         // true once the ranks of this member have started
    bool ended = false;      // true once this member has ended; never true for a spare
    int gpu_percent = 100;   // share of each GPU in percent
    // true if this is a spare: a node that runs nothing and may replace a failing node
    bool spare = false;
    std::int64_t memory = 0;  // memory that the member holds, in bytes
    int cpus = 0;
    friend bool operator==(const Place&, const Place&) = default;
};

// A user's request to the training.
struct MadeRequest {
    TrainingRequest request{};
    std::string by{};
    std::optional<RequestAnswer> answer{};
    friend bool operator==(const MadeRequest&, const MadeRequest&) = default;
};

constexpr std::size_t kRequestsKept = 20;  // maximum number of requests that an attempt keeps

// Returns the number of the next request of an attempt.
inline std::uint64_t next_number(const std::vector<MadeRequest>& requests) {
    return requests.empty() ? 1 : requests.back().request.number + 1;
}

struct Attempt {
    Token token;
    AttemptPhase phase = AttemptPhase::Starting;
    std::vector<Place> places{};
    std::vector<std::string> nodes{};  // node names of the places; kept when a worker is lost
    int variant = 0;                   // index of the job's resource variant, see JobSpec::shape()
    Time placed_at{};
    std::optional<Time> started_at{};
    // The failure that decides the attempt's outcome; it is kept until every member has ended. A
    // member that failed by itself takes precedence over a member that rolld stopped or that lost a
    // peer.
    std::optional<Outcome> outcome{};
    std::string blamed{};     // node of the member whose failure decides the outcome
    std::set<int> matched{};  // indices of the retry.on_log patterns that any member's log matched
    int exit_code = 0;        // exit code as in a shell: 128+n for signal n
    std::string reason{};
    bool preempted = false;   // true if the stop counts for retry.preempted
    std::uint64_t asked = 0;  // number of the newest request for a checkpoint
    std::uint64_t saved = 0;  // number of the newest request whose checkpoint is recorded
    std::optional<Time> checkpoint_at{};  // when the attempt's newest checkpoint was recorded
    std::vector<MadeRequest> requests{};  // newest requests; the last has the highest number
    Usage usage{};                        // resource usage of the members that have ended

    // Returns the resources that the attempt holds on the worker; nullptr if none.
    const Place* place_on(WorkerId worker) const {
        const auto place = std::ranges::find(places, worker, &Place::worker);
        return place == places.end() ? nullptr : &*place;
    }
    friend bool operator==(const Attempt&, const Attempt&) = default;
};

struct EndedAttempt {
    Token token;
    std::vector<std::string> nodes{};
    Time placed_at{};
    std::optional<Time> started_at{};
    Time ended_at{};
    Outcome outcome = Outcome::Done;
    int exit_code = 0;
    std::string reason{};
    std::string blamed{};  // node whose failure decided the outcome
    Usage usage{};
    std::optional<Time> checkpoint_at{};  // when the attempt's newest checkpoint was recorded
    std::vector<MadeRequest> requests{};
    friend bool operator==(const EndedAttempt&, const EndedAttempt&) = default;
};

// A valid checkpoint: it is recorded in the ledger, and its directory has the final name.
struct Checkpoint {
    std::int64_t step = 0;
    Token token;
    std::string directory;    // absolute path of the checkpoint
    std::uint64_t asked = 0;  // number of the user's request for this checkpoint; 0: not requested
    friend bool operator==(const Checkpoint&, const Checkpoint&) = default;
};

// An export that a training has made of one of its checkpoints.
struct CheckpointExport {
    std::int64_t step = 0;
    std::string directory;  // absolute path of the export
    friend bool operator==(const CheckpointExport&, const CheckpointExport&) = default;
};

}  // namespace roll::core
