// The resources that a job requests.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "common/json.hpp"
#include "common/json_text.hpp"

namespace roll::spec {

// Returns the number of ranks of a training job on a node. With GPUs, a node has one rank per GPU.
// Without GPUs, it has one rank per `slots_per_rank` slots. Every layout of ranks starts from this
// number. Requires that `slots_per_rank` is at least 1.
int ranks_on_node(int gpus, int slots, int slots_per_rank);
// Like ranks_on_node() above, but reads the keys of `resources` of a job file. Keys may be missing.
int ranks_on_node(const Json& resources);

// Resources of an attempt. A training job has ranks_per_node() ranks on each of its nodes.
struct Resources {
    int nodes = 1;
    int slots_per_node = 1;
    int gpus_per_node = 0;
    std::chrono::seconds time{0};  // time limit per attempt; 0: no limit
    int gpu_percent = 100;  // share of each GPU in percent; below 100 only if gpus_per_node is 1
    int segment = 0;  // number of consecutive nodes that must be in one segment; 0: no requirement
    int spares = 0;   // additional nodes, held to replace nodes that fail
    // Number of processes of a command on each node. The processes on all nodes form a gang: they
    // get environment variables such as their rank and the world size. 0: there is one process per
    // node, without these variables.
    int tasks_per_node = 0;
    // Limits of the attempt's processes on each node. 0: the job requests no limit, and no memory
    // or CPUs are reserved for the job
    std::int64_t memory = 0;  // memory in bytes
    int cpus = 0;
    int slots_per_rank = 1;  // slots per rank, for training jobs without GPUs
    friend auto operator<=>(const Resources&, const Resources&) = default;

    int ranks_per_node() const {
        return ranks_on_node(gpus_per_node, slots_per_node, slots_per_rank);
    }
    int world_size() const { return nodes * ranks_per_node(); }
    // Return the number of nodes, slots and hundredths of GPUs that an attempt holds in total,
    // including its spare nodes.
    int workers() const { return nodes + spares; }
    int slots() const { return workers() * slots_per_node; }
    int gpu_hundredths() const { return workers() * gpus_per_node * gpu_percent; }
};

// Read the `resources` of a job file, and the variants in it. Require that the defaults of missing
// keys are filled in. If a variant lacks a key, the key has the same value as in `resources`
// itself.
Resources read_resources(const Json& resources);
std::vector<Resources> read_variants(const Json& resources);

// Returns the job file with its `resources` replaced by variant `index` (1, 2, ...). Index 0
// returns the file unchanged.
Json with_variant(Json document, int index);

// Returns hundredths of GPUs as a number of GPUs: 200 is 2, 50 is 0.5.
Json gpus_number(std::int64_t hundredths);
std::string gpus_text(std::int64_t hundredths);

// Encode and decode resources for the ledger and for messages.
JsonText text_of(const Resources& resources);
Result<Resources> resources_of(const Json& json);

}  // namespace roll::spec
