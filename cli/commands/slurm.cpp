#include "cli/commands/slurm.hpp"

#include <algorithm>
#include <array>
#include <string_view>

#include <fmt/format.h>

#include "cli/foreign/table.hpp"
#include "cli/slurm/programs.hpp"

namespace roll::cli {
namespace {

// Texts of --help. The text for sbatch is not here, because help_text() makes that text from the
// table of sbatch's options.
struct SlurmHelp {
    std::string_view name;
    const char* text;
};
constexpr std::array kSlurmHelp = {
    SlurmHelp{"--help",
              "Usage: rollctl slurm COMMAND [OPTION]...\n\n"
              "Runs a command of Slurm on Roll's queue: sbatch, squeue, sacct, scancel, sinfo.\n"
              "`rollctl slurm COMMAND --help` lists the options of a command.\n"},
    SlurmHelp{"compat",
              "Usage: rollctl compat DIR\n\n"
              "Writes the programs sbatch, squeue, sacct, scancel, sinfo and srun to DIR. They\n"
              "do the same as Slurm's programs, but on Roll's queue. Writes nothing to a\n"
              "directory that has a program of Slurm.\n"},
    SlurmHelp{"squeue",
              "Usage: squeue [OPTION]...\n\n"
              "Lists queued and running jobs. Options as in Slurm: -u USERS, --me, -j JOBS,\n"
              "-t STATES, -n NAMES, -l, -h, --start, -o FORMAT, -O FIELDS, -S FIELDS, --json\n"
              "(docs/from-slurm.md lists the fields).\n"},
    SlurmHelp{"sacct",
              "Usage: sacct [OPTION]...\n\n"
              "Lists jobs, also ended ones. Options as in Slurm: -j JOBS, -u USERS, -s STATES,\n"
              "-S TIME, -E TIME, -n, -p, -P, -o FIELDS, --name NAMES.\n"},
    SlurmHelp{"scancel",
              "Usage: scancel [OPTION]... [JOB]...\n\n"
              "Cancels jobs: 12, or 12_3 or 12_[0-2,7] for tasks of an array. Options as in\n"
              "Slurm: -u USER, --me, -n NAME, -t STATE, -Q.\n"},
    SlurmHelp{"sinfo",
              "Usage: sinfo [OPTION]...\n\n"
              "Lists nodes. Options as in Slurm: -N, -l, -h, -n NODES, -t STATES, -o FORMAT\n"
              "(docs/from-slurm.md lists the fields).\n"}};

// Returns the help that the words ask for; empty if they ask for none.
std::string asked_help(const std::vector<std::string>& words) {
    const std::string_view name = words[0] == "compat" ? words[0]
                                  : words.size() < 2   ? std::string_view()
                                                       : words[1];
    const bool asked = std::ranges::find(words, "--help") != words.end();
    const auto found = std::ranges::find(kSlurmHelp, name, &SlurmHelp::name);
    return asked && found != kSlurmHelp.end() ? found->text : "";
}

// Returns the text for `sbatch --help`, with a list of its options.
std::string help_text() {
    std::string text = "Usage: sbatch [OPTION]... SCRIPT [ARGUMENT]...\n\n";
    for (const auto& [name, entry] : sbatch_table()["options"].items()) {
        const std::string letter = entry.value("short", "");
        const std::string argument = entry.value("argument", "");
        const char* const key = entry.contains("sets")        ? "reads"
                                : entry.contains("no_effect") ? "no_effect"
                                                              : "refused";
        const std::string kind = entry.contains("sets")        ? ""
                                 : entry.contains("no_effect") ? "no effect: "
                                                               : "refused: ";
        text += fmt::format("  {}{}{}\n      {}{}\n", letter.empty() ? "" : "-" + letter + ", ",
                            "--" + name, argument.empty() ? "" : "=" + argument, kind,
                            entry[key].get<std::string>());
    }
    return text;
}

Result<int> run_sbatch(const Context& context, const std::vector<std::string>& words) {
    ROLL_TRY(SbatchJob job, read_sbatch_command(words));
    if (job.version) return run_version(context);
    if (job.help || job.usage) {
        print(job.help ? help_text() : "Usage: sbatch [OPTION]... SCRIPT [ARGUMENT]...\n");
        return 0;
    }
    SubmitOptions options;
    options.as_sbatch = true;
    return submit_batch(context, options, std::move(job));
}

// Runs "compat DIR [--json]".
Result<int> run_compat_words(const Context& context, std::vector<std::string> words) {
    Context own = context;
    own.json |= std::erase(words, "--json") > 0;
    if (words.size() == 2 && !words[1].starts_with('-')) return run_compat(own, words[1]);
    return fail(ErrorCode::InvalidArgument,
                "compat needs a directory in which to write sbatch, squeue, sacct, scancel, "
                "sinfo and srun",
                "rollctl compat ~/.local/share/roll/slurm");
}

}  // namespace

std::string command_for(std::string_view program) {
    for (const std::string_view known : {"sbatch", "squeue", "sacct", "scancel", "sinfo"})
        if (program == known) return fmt::format("rollctl slurm {}", program);
    if (program == "srun") return "rollctl submit --follow -- PROGRAM ARGUMENT...";
    if (program == "salloc") return "rollctl shell";
    if (program == "scontrol") return "docs/from-slurm.md lists the commands of rollctl to use";
    return "";
}

Result<int> run_slurm(const Context& context, const std::vector<std::string>& words) {
    if (const std::string help = asked_help(words); !help.empty()) {
        print(help);
        return 0;
    }
    if (words[0] == "compat") return run_compat_words(context, words);
    const std::string program = words.size() < 2 ? "" : words[1];
    const std::vector<std::string> rest(
        words.begin() + std::min<std::ptrdiff_t>(2, std::ssize(words)), words.end());
    if (program == "sbatch") return run_sbatch(context, rest);
    if (program == "squeue") return run_squeue(context, rest);
    if (program == "sacct") return run_sacct(context, rest);
    if (program == "scancel") return run_scancel(context, rest);
    if (program == "sinfo") return run_sinfo(context, rest);
    const std::string problem = program.empty()
                                    ? "slurm needs the name of a command"
                                    : fmt::format("Roll has no Slurm command `{}`", program);
    const std::string instead = command_for(program);
    return fail(ErrorCode::InvalidArgument,
                problem + "; allowed: sbatch, squeue, sacct, scancel, sinfo",
                instead.empty() ? "rollctl slurm squeue" : instead);
}

}  // namespace roll::cli
