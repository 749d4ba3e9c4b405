// The findings of `rollctl doctor`. Each finding is printed on one line.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cli/client/context.hpp"

namespace roll::cli {

struct Finding {
    std::string what;
    bool good = true;
    std::string detail;
    std::string remedy;  // advice, or a command to run; not empty if `good` is false
};

// Returns the name of the network file system with this type (statfs), or an empty string. On a
// network file system, the locks and the shared memory of SQLite are not reliable, so the ledger
// must be on a local disk.
std::string network_file_system(std::uint64_t type);

std::vector<Finding> slurm_findings(const Context& context);

}  // namespace roll::cli
