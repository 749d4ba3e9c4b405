// Reads batch scripts of Slurm, and command lines of sbatch, as jobs of kind `command`.
#pragma once

#include <string>
#include <vector>

#include "cli/job/source.hpp"
#include "cli/slurm/options.hpp"
#include "common/error.hpp"

namespace roll::cli {

// A job made from a batch script, and the options of sbatch that concern the submission itself.
struct SbatchJob {
    Source source;
    bool parsable = false;
    bool wait = false;
    bool quiet = false;
    bool test_only = false;
    bool help = false;
    bool usage = false;
    bool version = false;
};

// Makes a job from a script's text. `given` are the options of a command line. These options
// override the options in SBATCH_* variables, which override #SBATCH lines. `arguments` are the
// script's arguments. Fails with one InvalidArgument that lists all problems.
Result<SbatchJob> read_batch_script(const std::string& text, const std::string& file,
                                    const std::vector<SbatchOption>& given,
                                    const std::vector<std::string>& arguments);

// Reads a command line of sbatch: the options, the script and the script's arguments. Reads the
// script from stdin if the command line names no script.
Result<SbatchJob> read_sbatch_command(const std::vector<std::string>& words);

}  // namespace roll::cli
