#include "cli/slurm/sbatch.hpp"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include "cli/job/options.hpp"
#include "cli/slurm/directives.hpp"
#include "cli/slurm/rules.hpp"
#include "common/files.hpp"
#include "common/io/process.hpp"

namespace roll::cli {
namespace {

// Returns all options, in ascending order of precedence: a later option overrides an earlier one.
Result<std::vector<SbatchOption>> all_options(const std::string& text, const std::string& file,
                                              const std::vector<SbatchOption>& given) {
    ROLL_TRY(const std::vector<DirectiveWord> lines, directive_words(text, file));
    std::vector<SourceWord> words;
    for (const DirectiveWord& word : lines)
        words.push_back({word.text, fmt::format("{}:{}: ", file, word.line)});
    ROLL_TRY(SbatchWords read, read_sbatch_words(words));
    if (!read.rest.empty())
        return fail(ErrorCode::InvalidArgument,
                    fmt::format("{}\"{}\" is not an option; #SBATCH lines accept only options",
                                read.rest[0].place, read.rest[0].text),
                    "docs/from-slurm.md lists the options of sbatch");
    std::vector<SbatchOption> options = std::move(read.options);
    std::ranges::copy(sbatch_variables(io::current_environment()), std::back_inserter(options));
    std::ranges::copy(given, std::back_inserter(options));
    return options;
}

std::vector<std::string> notes_of_reading(const std::string& file, SbatchReading& reading) {
    std::vector<std::string> notes;
    if (reading.read.empty()) return notes;
    notes.push_back(
        fmt::format("{} is a batch script of Slurm; Roll reads its options as "
                    "follows (docs/from-slurm.md):",
                    file));
    std::ranges::move(reading.read, std::back_inserter(notes));
    return notes;
}

void set_submission(const std::vector<std::string>& names, SbatchJob& job) {
    const auto has = [&](const char* name) {
        return std::ranges::find(names, name) != names.end();
    };
    job.parsable = has("parsable");
    job.wait = has("wait");
    job.quiet = has("quiet");
    job.test_only = has("test-only");
    job.help = has("help");
    job.usage = has("usage");
    job.version = has("version");
}

std::string host_name() {
    char name[256] = "";
    ::gethostname(name, sizeof name - 1);
    return name;
}

const SbatchOption* find_option(const std::vector<SbatchOption>& options, const std::string& name) {
    const auto found = std::ranges::find(options, name, &SbatchOption::name);
    return found == options.end() ? nullptr : &*found;
}

// Turns a batch script that runs in a container into a plain command, because the container does
// not have the node's programs, such as srun. Replaces the key `sbatch` by variables in `env`:
// those of Slurm's variables that describe the job.
void leave_srun(Json& document) {
    const Json batch = document["sbatch"];
    const Json resources = document.value("resources", Json::object());
    Json& env = document["env"];
    const auto add = [&](const char* name, const Json& value) {
        if (value.is_null() || env.contains(name)) return;
        env[name] = value.is_string() ? value.get<std::string>() : value.dump();
    };
    add("SLURM_JOB_NAME", batch.value("name", document.value("name", Json())));
    add("SLURM_SUBMIT_DIR", batch.value("submit_dir", Json()));
    add("SLURM_SUBMIT_HOST", batch.value("submit_host", Json()));
    add("SLURM_JOB_NUM_NODES", 1);
    add("SLURM_NNODES", 1);
    add("SLURM_CPUS_ON_NODE", resources.value("slots_per_node", Json()));
    add("SLURM_GPUS_ON_NODE", resources.value("gpus_per_node", Json()));
    add("SLURM_NTASKS", batch.value("ntasks", batch.value("ntasks_per_node", Json())));
    add("SLURM_CPUS_PER_TASK", batch.value("cpus_per_task", Json()));
    // Set these variables when the job starts, because the ids of the job and of the array's task
    // are not known before.
    document["setup"] =
        "export SLURM_JOB_ID=\"$ROLL_JOB\" SLURM_JOBID=\"$ROLL_JOB\"\n"
        "[ -z \"$ROLL_ARRAY_INDEX\" ] || export SLURM_ARRAY_TASK_ID=\"$ROLL_ARRAY_INDEX\"\n" +
        document.value("setup", std::string());
    document.erase("sbatch");
}

}  // namespace

Result<SbatchJob> read_batch_script(const std::string& text, const std::string& file,
                                    const std::vector<SbatchOption>& given,
                                    const std::vector<std::string>& arguments) {
    if (!text.starts_with("#!"))
        return fail(ErrorCode::InvalidArgument,
                    fmt::format("{} does not start with #! and the path of an interpreter, so it "
                                "is not a batch script",
                                file),
                    "add a first line such as #!/bin/sh");
    ROLL_TRY(const auto options, all_options(text, file, given));
    std::vector<std::string> command = {file};
    command.insert(command.end(), arguments.begin(), arguments.end());
    SbatchJob job;
    ROLL_TRY(job.source, command_source(command));
    Json document = std::move(job.source.document);
    document["script"] = text;
    SbatchReading reading = translate_sbatch(options, std::move(document), wall_clock_now());
    if (!reading.problems.empty())
        return fail(
            ErrorCode::InvalidArgument,
            fmt::format("{} cannot be queued:\n  {}", file, fmt::join(reading.problems, "\n  ")),
            "docs/from-slurm.md lists the options of sbatch");
    job.source.label = file;
    job.source.document = std::move(reading.document);
    job.source.document["sbatch"]["submit_dir"] = job.source.base;
    job.source.document["sbatch"]["submit_host"] = host_name();
    ROLL_TRY(const JobOptions own, read_directives(text, file));
    ROLL_TRY_VOID(apply_options(own, job.source.document));
    if (find_option(options, "container-image") != nullptr) leave_srun(job.source.document);
    set_submission(reading.submission, job);
    job.source.notes = notes_of_reading(file, reading);
    return job;
}

Result<SbatchJob> read_sbatch_command(const std::vector<std::string>& words) {
    std::vector<SourceWord> all;
    for (const std::string& word : words) all.push_back({word, ""});
    ROLL_TRY(const SbatchWords read, read_sbatch_words(all));
    std::vector<std::string> rest;
    for (const SourceWord& word : read.rest) rest.push_back(word.text);
    if (std::ranges::find(rest, ":") != rest.end())
        return fail(ErrorCode::InvalidArgument, "Roll has no heterogeneous jobs (`:`)",
                    "submit one job for each part; --into puts them into one job group");
    SbatchJob job;
    const SbatchOption* const wrap = find_option(read.options, "wrap");
    for (const char* name : {"help", "usage", "version"}) {
        if (find_option(read.options, name) == nullptr) continue;
        set_submission({name}, job);
        return job;
    }
    if (wrap != nullptr && !rest.empty())
        return fail(ErrorCode::InvalidArgument,
                    fmt::format("--wrap and the script {} are both given; give only one of the two",
                                rest[0]));
    if (wrap != nullptr)
        return read_batch_script(
            "#!/bin/sh\n# This script was created by sbatch --wrap.\n\n" + wrap->value + "\n",
            "wrap", read.options, {});
    const std::string file = rest.empty() ? "/dev/stdin" : rest[0];
    ROLL_TRY(const std::string text, read_file(file));
    if (!rest.empty()) rest.erase(rest.begin());
    return read_batch_script(text, file == "/dev/stdin" ? "sbatch" : file, read.options, rest);
}

}  // namespace roll::cli
