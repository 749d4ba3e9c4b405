// Parses the command lines of squeue, sacct, scancel and sinfo.
#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "common/error.hpp"

namespace roll::cli {

struct SlurmFlag {
    char letter;  // letter of the option; 0: the option has no letter
    const char* name;
    bool value = false;    // the option takes a value
    bool ignored = false;  // the option is accepted but has no effect
};

struct SlurmArguments {
    std::map<std::string, std::string> given;  // maps the long name of an option to its value
    std::vector<std::string> rest;

    bool has(const std::string& name) const { return given.contains(name); }
    std::string value(const std::string& name) const {
        const auto found = given.find(name);
        return found == given.end() ? "" : found->second;
    }
    // Returns the parts of an option's value. Commas separate the parts.
    std::vector<std::string> list(const std::string& name) const;
};

// Reads the options. They may be anywhere among the words. Fails with InvalidArgument if Roll's
// version of the program does not have an option. The message names this option.
Result<SlurmArguments> read_slurm_arguments(const std::string& program,
                                            const std::vector<std::string>& words,
                                            std::span<const SlurmFlag> flags);

}  // namespace roll::cli
