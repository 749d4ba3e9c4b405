// The orders of rolld to a roll-worker: start or stop an attempt, save a checkpoint now, or pass a
// request on to a running training.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "common/ids.hpp"
#include "common/protocol/written_checkpoint.hpp"
#include "common/training_request.hpp"

namespace roll::protocol {

// Everything that a worker needs to run its part of an attempt.
struct StartOrder {
    AttemptKey attempt;
    std::string kind;      // name of the job's kind, from spec::name_of()
    std::string document;  // the job's document (spec::JobSpec::document)
    std::string output;    // absolute path of the output directory
    int node_rank = 0;
    int nodes = 1;
    int ranks_per_node = 1;
    std::vector<int> slots;
    std::vector<int> gpus;
    // share of each GPU in percent; below 100: other jobs may use the rest of the GPU
    int gpu_percent = 100;
    std::string nonce;  // random text per attempt; names the rendezvous of the attempt's ranks
    // Checkpoints from which the attempt may start, newest first. The list has the recorded
    // checkpoints of the job and of its source job.
    std::vector<WrittenCheckpoint> checkpoints;
    std::int64_t time_limit_seconds = 0;  // time limit of the attempt; 0: no limit
    // maximum time of a step; 0: no limit, -1: the worker learns a limit
    std::int64_t hang_after_seconds = 0;
    // Secrets for the environment of the job's programs. They are never written to a file or log.
    std::map<std::string, std::string> secrets{};
    std::int64_t memory = 0;  // limit of the attempt on this node in bytes; 0: none
    int cpus = 0;             // CPUs that the attempt may use on this node; 0: no limit
    // Processes on each node if the job is a gang (docs/gangs.md); 0: the job is not a gang.
    int tasks_per_node = 0;
    std::vector<std::string> hosts{};  // names of the nodes of a gang, by node rank
    bool slurm_variables = false;      // the processes of the gang get Slurm's variables
    std::int64_t stop_step = 0;        // step at which a request ends the training; 0: no request
    // True if rolld adds up the processor times that the nodes report. If false, rolld is an older
    // version, so only the first node may report its processor time. Such a rolld takes every
    // report of a processor time for the progress of the whole job.
    bool adds_cpu_times = false;
    bool files = false;  // the document names files, which the worker must fetch before the start
    std::string refused{};  // reason why the worker must fail the attempt at once; empty: none
    friend bool operator==(const StartOrder&, const StartOrder&) = default;
};

struct StopOrder {
    AttemptKey attempt;
    std::string reason;
    bool checkpoint = false;  // save at the next step boundary before stopping
    // Time from the order until the worker kills the attempt; 0: the worker's default.
    std::int64_t grace_seconds = 0;
    friend bool operator==(const StopOrder&, const StopOrder&) = default;
};

// Requests a checkpoint now. rolld repeats the request until a recorded checkpoint answers it.
struct SaveOrder {
    AttemptKey attempt;
    std::uint64_t asked = 0;  // number of the request; it increases within an attempt
    friend bool operator==(const SaveOrder&, const SaveOrder&) = default;
};

// Passes a request on to a running training. rolld repeats the request until its answer is
// recorded.
struct TellOrder {
    AttemptKey attempt;
    TrainingRequest request;
    friend bool operator==(const TellOrder&, const TellOrder&) = default;
};

struct Recorded {
    AttemptKey attempt;
    std::vector<std::int64_t> steps;  // steps of the recorded checkpoints of this attempt
    bool exported = false;
    std::int64_t export_step = 0;  // highest step whose export is recorded; 0: none
    std::uint64_t answered = 0;    // highest number of an answered request; 0: none
    friend bool operator==(const Recorded&, const Recorded&) = default;
};

}  // namespace roll::protocol
