#include "common/io/compat.hpp"

#include <algorithm>
#include <array>
#include <filesystem>

#include <fmt/format.h>

#include "cli/commands/slurm.hpp"
#include "common/files.hpp"
#include "common/io/process.hpp"
#include "common/split.hpp"

namespace roll::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::array kWritten = {"sbatch", "squeue", "sacct", "scancel", "sinfo", "srun"};
// Programs of Slurm. A directory that contains one of them belongs to Slurm.
constexpr std::array kOfSlurm = {"sbatch", "squeue",   "sacct",  "scancel",   "sinfo",   "srun",
                                 "salloc", "scontrol", "slurmd", "slurmctld", "sacctmgr"};
constexpr const char* kCompatLine = "# Written by `rollctl compat`.";

bool is_of_compat(const fs::path& file) {
    const auto text = read_regular_file(file);
    return text && text->find(kCompatLine) != std::string::npos;
}

std::string compat_script(const Context& context, const std::string& name) {
    std::string text = fmt::format("#!/bin/sh\n{}\n", kCompatLine);
    if (name == "srun")
        return text +
               "[ -z \"$ROLL_STEPS\" ] || exec \"$ROLL_STEPS/bin/srun\" \"$@\"\n"
               "echo 'srun: tasks start only in a batch script of sbatch; rollctl submit -- "
               "PROGRAM submits a program' >&2\nexit 1\n";
    if (!context.directory.empty())
        text += fmt::format("export ROLL_DIR=\"${{ROLL_DIR:-{}}}\"\n",
                            fs::absolute(context.directory).string());
    return text + fmt::format("exec {} slurm {} \"$@\"\n", shell_quoted(io::own_program()), name);
}

}  // namespace

Result<int> run_compat(const Context& context, const std::string& directory) {
    for (const char* name : kOfSlurm) {
        const fs::path file = fs::path(directory) / name;
        std::error_code error;
        if (fs::symlink_status(file, error).type() == fs::file_type::not_found ||
            is_of_compat(file))
            continue;
        return fail(ErrorCode::Refused,
                    fmt::format("{} exists, and `rollctl compat` did not write it; nothing was "
                                "written",
                                file.string()),
                    "name a directory without Slurm's programs, such as ~/.local/share/roll/slurm");
    }
    ROLL_TRY_VOID(make_directories(directory));
    // When rolld searches for Slurm's own programs, it skips directories that contain this file.
    ROLL_TRY_VOID(write_file_atomically(fs::path(directory) / io::kCompatMark, ""));
    for (const char* name : kWritten) {
        const fs::path file = fs::path(directory) / name;
        ROLL_TRY_VOID(write_file_atomically(file, compat_script(context, name)));
        std::error_code error;
        fs::permissions(file, fs::perms(0755), error);
        if (error)
            return fail(ErrorCode::Refused, fmt::format("cannot make {} executable: {}",
                                                        file.string(), error.message()));
        if (!context.json) print(file.string() + "\n");
    }
    if (context.json)
        print_json({{"schema", "roll.compat/1"}, {"directory", directory}, {"programs", kWritten}});
    else
        say(fmt::format("to use these commands: export PATH={}:$PATH",
                        fs::absolute(directory).string()));
    return 0;
}

}  // namespace roll::cli
