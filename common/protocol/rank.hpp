// What roll-worker and the program that runs a job (roll-rank, roll-convert) say to each other.
//
// Down: a launch file, then JSON lines on the program's stdin. Up: JSON lines on descriptor 3.
// stdout and stderr are the log. Fields of each line: docs/internals.md.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "common/error.hpp"
#include "common/ids.hpp"
#include "common/protocol/worker.hpp"

namespace roll::protocol {

constexpr int kReportDescriptor = 3;

// Exit statuses of a rank besides 0 and 1 (the program's own failure).
constexpr int kExitInvalid = 2;    // the input can never work: not tried again
constexpr int kExitDiverged = 3;   // loss or gradient is not finite: not tried again
constexpr int kExitRefused = 4;    // the output takes no more: no fault of the machine
constexpr int kExitYielded = 75;   // stopped at a step boundary after a checkpoint
constexpr int kExitPeerLost = 76;  // another rank died and broke a collective
// Of an attempt, by roll-worker.
constexpr int kExitUnfit = 77;      // the job's check of the node failed
constexpr int kExitUnhealthy = 78;  // the site's check of the node failed
constexpr int kExitHung = 79;       // no step for too long

// One per attempt and node: logs/attempt-N/launch-NODERANK.json, given as `--launch FILE --rank R`.
struct Launch {
    AttemptKey attempt;
    std::string kind;
    std::string document;
    std::string output;
    std::string logs;  // directory of this attempt's logs; the rendezvous file lies here too
    int nodes = 1;
    int node_rank = 0;
    int ranks_per_node = 1;
    std::vector<int> gpus;
    std::string nonce;
    std::vector<WrittenCheckpoint> checkpoints;  // newest first

    int world_size() const { return nodes * ranks_per_node; }
};

std::string encode(const Launch& launch);
Result<Launch> decode_launch(std::string_view json);

// Up.
struct Ready {};  // this rank is up; all ranks ready = started
// one object for people: step, steps, loss, tokens_per_second, eta_s, ...
struct Progress {
    std::string json;
};
// each rank, now and then: what straggles, and what hangs
struct StepDone {
    std::int64_t step = 0;
    std::int64_t steps = 0;   // of the job
    std::int64_t own_ms = 0;  // of a step, waiting for other ranks not counted
};
// whole, synced, under a name that starts with "."
struct CheckpointStaged {
    std::int64_t step = 0;
    std::string directory;
    std::uint64_t asked = 0;   // the SaveNow that it answers; 0: none
    std::int64_t save_ms = 0;  // from the step boundary on; 0: not said
};
struct CheckpointPruned {
    std::int64_t step = 0;
    Token writer;
};
struct ExportDone {
    std::string directory;
};
// one sentence; becomes the attempt's reason
struct Failed {
    std::string message;
};
using Report =
    std::variant<Ready, Progress, StepDone, CheckpointStaged, CheckpointPruned, ExportDone, Failed>;

std::string encode(const Report& report);  // one line, no newline
Result<Report> decode_report(std::string_view line);

// Down. A stop also comes as SIGTERM, for programs that read no stdin.
// the ledger has this checkpoint: older ones may be pruned
struct RecordedStep {
    std::int64_t step = 0;
};
struct StopAtStep {
    bool checkpoint = true;
};
// save at the next step boundary, and go on
struct SaveNow {
    std::uint64_t asked = 0;  // grows with each request of an attempt
};
using Command = std::variant<RecordedStep, StopAtStep, SaveNow>;

std::string encode(const Command& command);
Result<Command> decode_command(std::string_view line);

}  // namespace roll::protocol
