#include "cli/commands/slurm.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "cli/foreign_table.hpp"
#include "cli/slurm/programs.hpp"

namespace roll::cli {
namespace {

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
                "compat needs the directory to which it writes sbatch, squeue, sacct, scancel, "
                "sinfo and srun",
                "rollctl compat ~/.local/share/roll/slurm");
}

}  // namespace

Result<int> run_slurm(const Context& context, const std::vector<std::string>& words) {
    if (words[0] == "compat") return run_compat_words(context, words);
    const std::string program = words.size() < 2 ? "" : words[1];
    const std::vector<std::string> rest(
        words.begin() + std::min<std::ptrdiff_t>(2, std::ssize(words)), words.end());
    if (program == "sbatch") return run_sbatch(context, rest);
    if (program == "squeue") return run_squeue(context, rest);
    if (program == "sacct") return run_sacct(context, rest);
    if (program == "scancel") return run_scancel(context, rest);
    if (program == "sinfo") return run_sinfo(context, rest);
    const std::string problem =
        program.empty() ? "slurm needs the name of a command"
                        : fmt::format("`{}` is not a command of Slurm that Roll has", program);
    return fail(ErrorCode::InvalidArgument,
                problem + "; allowed: sbatch, squeue, sacct, scancel, sinfo",
                "rollctl slurm squeue");
}

}  // namespace roll::cli
