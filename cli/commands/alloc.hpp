// `rollctl alloc`: manages allocation queues, from which rolld requests Slurm allocations.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cli/client/context.hpp"
#include "common/error.hpp"

namespace CLI {
class App;
}

namespace roll::cli {

struct AllocOptions {
    std::string name;
    std::string partition;
    std::string account;
    std::string qos;
    std::string constraint;
    int nodes = 1;
    std::optional<int> slots;
    int gpus = 0;
    std::string memory;
    std::string time;
    std::string idle = "5m";
    std::string handover = "2m";
    int max_nodes = 0;
    int max_jobs = 10;
    int max_gpu_hours = 0;
    int backlog = 4;
    double min_utilization = 0;
    std::vector<std::string> sbatch_args;
    std::vector<std::string> setup;
    bool dry_run = false;
};
Result<int> run_alloc_add(const Context& context, const AllocOptions& options);
Result<int> run_alloc_list(const Context& context, const std::string& format);
// A command that changes or describes one allocation queue or one allocation.
struct AllocVerb {
    const char* name;
    const char* argument;  // name of the argument: "QUEUE" or "ALLOCATION"
    const char* what;      // help text
    // Returns the help text of the argument.
    const char* argument_help() const;
};
std::span<const AllocVerb> alloc_verbs();
// Applies the verb to the queue `name`, or to the allocation with this number.
Result<int> run_alloc_steer(const Context& context, const std::string& verb,
                            const std::string& name);
void add_alloc_options(CLI::App& sub, AllocOptions& options);

}  // namespace roll::cli
