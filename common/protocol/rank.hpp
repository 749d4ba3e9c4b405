// The protocol between roll-worker and a job's program (roll-rank, roll-convert).
//
// roll-worker sends a launch file, then JSON lines (Command) on the program's stdin. The program
// sends JSON lines (Report) on descriptor 3; its stdout and stderr are the log. docs/internals.md
// lists the fields.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "common/error.hpp"
#include "common/ids.hpp"
#include "common/protocol/worker.hpp"
#include "common/training_request.hpp"

namespace roll::protocol {

constexpr int kReportDescriptor = 3;

// Exit statuses of a rank besides 0 and 1 (the program's own failure).
constexpr int kExitInvalid = 2;   // the input can never work; no retry
constexpr int kExitDiverged = 3;  // the loss or a gradient is too high or not finite; no retry
// the output cannot be written, which counts as the job's fault; no retry
constexpr int kExitRefused = 4;
constexpr int kExitYielded = 75;   // stopped at a step boundary after a checkpoint
constexpr int kExitPeerLost = 76;  // another rank died and broke a collective
constexpr int kExitUnfit = 77;     // the job's check of the node failed, or a GPU is not usable
// Exit statuses of an attempt that roll-worker sets. No program returns these statuses.
constexpr int kExitUnhealthy = 78;  // the site's check of the node failed
constexpr int kExitHung = 79;       // the attempt made no step for too long
// the attempt exceeded resources.memory; same status as after SIGKILL
constexpr int kExitOutOfMemory = 137;

// The launch file. roll-worker writes one per attempt and node:
// logs/attempt-N/launch-NODERANK.json. Programs get the file as `--launch FILE --rank R`.
struct Launch {
    AttemptKey attempt;
    std::string kind;
    std::string document;
    std::string output;
    std::string logs;  // directory of this attempt's logs and rendezvous file
    int nodes = 1;
    int node_rank = 0;
    int ranks_per_node = 1;
    std::vector<int> gpus;
    std::string nonce;
    // checkpoints from which the job may start, newest first
    std::vector<WrittenCheckpoint> checkpoints;
    std::int64_t stop_step = 0;  // step at which a request ends the training; 0: no request
    bool allow_faults = false;   // whether the job may have train.faults

    int world_size() const { return nodes * ranks_per_node; }
};

std::string encode(const Launch& launch);
Result<Launch> decode_launch(std::string_view json);

// The structs from here to Report are the messages that the program sends.
struct Ready {};  // this rank has started; the attempt is running once all ranks are ready
// A progress report for people: a JSON object with step, steps, loss, tokens_per_second, eta_s, ...
struct Progress {
    std::string json;
};
// Sent by each rank from time to time. roll-worker detects stragglers and hangs from these reports.
struct StepDone {
    std::int64_t step = 0;
    std::int64_t steps = 0;  // total steps of the job
    // duration of the step in ms, without waits for other ranks
    std::int64_t own_ms = 0;
};
// A checkpoint is complete and synced to disk. Its directory still has a temporary name that starts
// with ".".
struct CheckpointStaged {
    std::int64_t step = 0;
    std::string directory;
    std::uint64_t asked = 0;  // number of the SaveNow that this checkpoint answers; 0: none
    // Duration of the save in ms, from the start of the save at a step boundary until this message
    // is sent; 0: unknown.
    std::int64_t save_ms = 0;
};
struct CheckpointPruned {
    std::int64_t step = 0;
    Token writer;
};
struct ExportDone {
    std::string directory;
};
// A training has exported one of its checkpoints. The export is complete and has its final name.
struct CheckpointExported {
    WrittenExport written;
};
// The ranks have carried out a request. Rank 0 sends this report.
struct Answered {
    RequestAnswer answer;
};
// The attempt failed. The message becomes the reason of the failure.
struct Failed {
    std::string message;
};
using Report = std::variant<Ready, Progress, StepDone, CheckpointStaged, CheckpointPruned,
                            ExportDone, CheckpointExported, Answered, Failed>;

std::string encode(const Report& report);  // returns one line without the newline
Result<Report> decode_report(std::string_view line);

// The structs from here to Command are the messages that roll-worker sends. To stop a program,
// roll-worker also sends SIGTERM, because some programs do not read stdin.
//
// RecordedStep: the ledger has recorded this checkpoint, so the program may delete older
// checkpoints.
struct RecordedStep {
    std::int64_t step = 0;
};
struct StopAtStep {
    bool checkpoint = true;
};
// Tells the program to save at the next step boundary and to continue.
struct SaveNow {
    std::uint64_t asked = 0;  // number of the request; it increases within an attempt
};
// Tells the ranks to carry out a request at the next step boundary. Rank 0 answers the request.
struct Asked {
    TrainingRequest request;
};
using Command = std::variant<RecordedStep, StopAtStep, SaveNow, Asked>;

std::string encode(const Command& command);
Result<Command> decode_command(std::string_view line);

}  // namespace roll::protocol
