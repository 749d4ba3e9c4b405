// The properties of this node on which the plan of a launch depends.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace roll::agent {

// Properties of this node that affect a launch.
struct LaunchSite {
    std::string programs;  // directory that contains roll-rank and roll-convert
    int cores = 1;         // number of CPUs, which determines the number of threads
    int slots = 1;
    int gpus = 0;
    // Value of ROLL_WORKER, the variable that marks this roll-worker's processes
    std::string session;
    std::string node{};  // name of this node
    // Address of this node for other nodes; empty if unknown
    std::string address{};
    // CUDA's names of the worker's GPUs (indices, UUIDs or MIG instances); empty: indices from 0
    std::vector<std::string> gpu_names{};
    // Memory in use on each GPU when this worker started, in bytes
    std::vector<std::int64_t> gpu_used_bytes{};
    // CPUs to which the programs of each slot are bound; empty: no binding
    std::vector<std::vector<int>> slot_cpus{};
    std::string files{};  // directory with the files of each attempt (files_directory())
    std::vector<std::string> environment;  // roll-worker's environment, "NAME=value"
    // Command of the check that the site runs before every attempt; empty: none
    std::vector<std::string> check{};
    int check_seconds = 60;
    std::vector<std::string> links{};  // network links that were up when this worker started
    bool allow_faults = false;         // true if jobs may have the key train.faults
    // Path of each container runtime of this node, by the runtime's name
    std::map<std::string, std::string> container_runtimes{};
    bool is_root = false;       // true if roll-worker runs as root
    int gpu_wait_seconds = 50;  // longest wait for the GPUs' memory to become free; 0: do not wait
};

}  // namespace roll::agent
