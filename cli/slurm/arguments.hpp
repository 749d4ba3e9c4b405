// The command lines of squeue, sacct, scancel and sinfo.
#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "common/error.hpp"

namespace roll::cli {

struct SlurmFlag {
    char letter;  // 0: none
    const char* name;
    bool value = false;    // the option has a value
    bool ignored = false;  // accepted without effect
};

struct SlurmArguments {
    std::map<std::string, std::string> given;  // long names and values
    std::vector<std::string> rest;

    bool has(const std::string& name) const { return given.contains(name); }
    std::string value(const std::string& name) const {
        const auto found = given.find(name);
        return found == given.end() ? "" : found->second;
    }
    // Returns the parts of a value with commas.
    std::vector<std::string> list(const std::string& name) const;
};

// Reads options anywhere among the words. Fails with InvalidArgument and the name of an option
// that Roll's version of the program does not have.
Result<SlurmArguments> read_slurm_arguments(const std::string& program,
                                            const std::vector<std::string>& words,
                                            std::span<const SlurmFlag> flags);

}  // namespace roll::cli
