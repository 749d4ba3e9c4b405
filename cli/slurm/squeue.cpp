#include <algorithm>
#include <array>
#include <map>

#include <fmt/format.h>

#include "cli/client/daemon.hpp"
#include "cli/slurm/arguments.hpp"
#include "cli/slurm/jobs.hpp"
#include "cli/slurm/programs.hpp"
#include "cli/slurm/values.hpp"
#include "cli/text/render.hpp"

namespace roll::cli {
namespace {

using std::chrono::seconds;

constexpr std::array kSqueueFlags = {
    SlurmFlag{'h', "noheader"},
    SlurmFlag{'u', "user", true},
    SlurmFlag{0, "users", true},
    SlurmFlag{0, "me"},
    SlurmFlag{'j', "jobs", true},
    SlurmFlag{'t', "states", true},
    SlurmFlag{0, "state", true},
    SlurmFlag{'n', "name", true},
    SlurmFlag{'o', "format", true},
    SlurmFlag{'l', "long"},
    SlurmFlag{0, "start"},
    SlurmFlag{'a', "all", false, true},
    SlurmFlag{'r', "array", false, true},
    SlurmFlag{'p', "partition", true, true},
};
constexpr const char* kSqueueUsual = "%.18i %.9P %.8j %.8u %.2t %.10M %.6D %R";
constexpr const char* kSqueueLong = "%.18i %.9P %.8j %.8u %.8T %.10M %.9l %.6D %R";
constexpr const char* kSqueueStart = "%.18i %.9P %.8j %.8u %.2t %.19S %.6D %20Y %R";

struct QueueRow {
    const Json& job;
    Time now;
    Daemon& daemon;

    seconds limit() const {
        const Json resources = job.value("resources", Json::object());
        return seconds(resources.value("time_seconds", std::int64_t{0}));
    }
    // Returns the value of a key of the job file. Only the reply to `show` contains the job file.
    // Returns "" if the value cannot be read.
    std::string key(const char* pointer) const {
        const auto shown = daemon.show(job.value("id", std::uint64_t{0}));
        const Json::json_pointer at(std::string("/spec") + pointer);
        const bool has = shown && shown->contains(at) && (*shown)[at].is_string();
        return has ? (*shown)[at].get<std::string>() : "";
    }
    bool pending() const { return field_text(job, "state") == "queued"; }
};

struct QueueColumn {
    const char* title;
    std::string (*value)(const QueueRow&);
};

std::string or_null(const std::string& text) { return text.empty() ? "(null)" : text; }

// Returns the job's start; of a queued job, the start that rolld expects.
std::string start_text(const QueueRow& row) {
    return slurm_time_text(row.job.value(row.pending() ? "starts_at" : "started_at", Json()));
}

std::string gpus_of(const Json& job) {
    const Json resources = job.value("resources", Json::object());
    const std::string gpus = field_text(resources, "gpus_per_node");
    return gpus.empty() || gpus == "0" ? "N/A" : "gres:gpu:" + gpus;
}

const std::map<char, QueueColumn>& queue_columns() {
    static const std::map<char, QueueColumn> kQueueColumns = {
        {'i', {"JOBID", [](const QueueRow& r) { return slurm_job_id(r.job); }}},
        {'A', {"JOBID", [](const QueueRow& r) { return field_text(r.job, "id"); }}},
        {'F',
         {"ARRAY_JOB_ID",
          [](const QueueRow& r) {
              const std::string id = slurm_job_id(r.job);
              return id.substr(0, id.find('_'));
          }}},
        {'K',
         {"ARRAY_TASK_ID",
          [](const QueueRow& r) {
              const Json array = r.job.value("array", Json());
              return array.is_object() ? field_text(array, "index") : "N/A";
          }}},
        {'P', {"PARTITION", [](const QueueRow&) { return std::string("roll"); }}},
        {'j', {"NAME", [](const QueueRow& r) { return field_text(r.job, "name"); }}},
        {'u', {"USER", [](const QueueRow& r) { return field_text(r.job, "user"); }}},
        {'a', {"ACCOUNT", [](const QueueRow& r) { return or_null(r.key("/account")); }}},
        {'t', {"ST", [](const QueueRow& r) { return std::string(slurm_state(r.job).brief); }}},
        {'T', {"STATE", [](const QueueRow& r) { return std::string(slurm_state(r.job).name); }}},
        {'M',
         {"TIME", [](const QueueRow& r) { return slurm_duration_text(run_time(r.job, r.now)); }}},
        {'l',
         {"TIME_LIMIT",
          [](const QueueRow& r) {
              return r.limit().count() == 0 ? "UNLIMITED" : slurm_duration_text(r.limit());
          }}},
        {'L',
         {"TIME_LEFT",
          [](const QueueRow& r) {
              if (r.limit().count() == 0) return std::string("UNLIMITED");
              const seconds left = r.limit() - run_time(r.job, r.now);
              return slurm_duration_text(std::max(left, seconds(0)));
          }}},
        {'D', {"NODES", [](const QueueRow& r) { return std::to_string(job_nodes(r.job)); }}},
        {'C', {"CPUS", [](const QueueRow& r) { return std::to_string(job_cpus(r.job)); }}},
        {'b', {"TRES_PER_NODE", [](const QueueRow& r) { return gpus_of(r.job); }}},
        {'N', {"NODELIST", [](const QueueRow& r) { return slurm_nodes(r.job); }}},
        {'B',
         {"EXEC_HOST",
          [](const QueueRow& r) {
              const std::string nodes = slurm_nodes(r.job);
              return nodes.empty() ? "n/a" : nodes.substr(0, nodes.find(','));
          }}},
        {'r', {"REASON", [](const QueueRow& r) { return slurm_reason(r.job, r.now); }}},
        {'R',
         {"NODELIST(REASON)",
          [](const QueueRow& r) {
              return r.pending() ? "(" + slurm_reason(r.job, r.now) + ")" : slurm_nodes(r.job);
          }}},
        {'Q', {"PRIORITY", [](const QueueRow& r) { return field_text(r.job, "priority"); }}},
        {'p', {"PRIORITY", [](const QueueRow& r) { return field_text(r.job, "priority"); }}},
        {'V',
         {"SUBMIT_TIME", [](const QueueRow& r) { return slurm_time_text(r.job["submitted_at"]); }}},
        {'S', {"START_TIME", start_text}},
        {'e', {"END_TIME", [](const QueueRow& r) { return slurm_time_text(r.job["ended_at"]); }}},
        {'Z', {"WORK_DIR", [](const QueueRow& r) { return r.key("/workdir"); }}},
        {'k', {"COMMENT", [](const QueueRow& r) { return or_null(r.key("/sbatch/comment")); }}},
        {'o', {"COMMAND", [](const QueueRow& r) { return r.key("/command/0"); }}},
        {'Y', {"SCHEDNODES", [](const QueueRow&) { return std::string("(null)"); }}},
        {'q', {"QOS", [](const QueueRow&) { return std::string("(null)"); }}},
        {'E',
         {"DEPENDENCY", [](const QueueRow& r) { return or_null(r.key("/sbatch/dependency")); }}},
        {'%', {"%", [](const QueueRow&) { return std::string("%"); }}},
    };
    return kQueueColumns;
}

Result<void> check_queue_columns(const std::vector<SlurmColumn>& wanted) {
    for (const SlurmColumn& column : wanted) {
        if (column.field == 0 || queue_columns().contains(column.field)) continue;
        std::string known;
        for (const auto& [field, one] : queue_columns())
            if (field != '%') known += fmt::format(" %{}", field);
        return fail(ErrorCode::InvalidArgument,
                    fmt::format("squeue: the field %{} has no meaning in Roll; allowed:{}",
                                column.field, known));
    }
    return {};
}

bool queue_wants(const Json& job, const SlurmArguments& arguments) {
    const auto any = [&](const char* name, const auto& matches) {
        const auto list = arguments.list(name);
        return list.empty() || std::ranges::any_of(list, matches);
    };
    const auto state = [&](const std::string& one) { return has_state(job, one); };
    const auto user = [&](const std::string& one) { return field_text(job, "user") == one; };
    const auto ids = split_ids(arguments.value("jobs"));
    const auto meant = [&](const std::string& one) { return is_meant(job, one); };
    return (ids.empty() || std::ranges::any_of(ids, meant)) &&
           (!arguments.has("start") || field_text(job, "state") == "queued") &&
           any("name", [&](const std::string& one) { return field_text(job, "name") == one; }) &&
           any("states", state) && any("state", state) && any("user", user) && any("users", user) &&
           (!arguments.has("me") || user(user_name()));
}

}  // namespace

Result<int> run_squeue(const Context& context, const std::vector<std::string>& words) {
    ROLL_TRY(const SlurmArguments arguments, read_slurm_arguments("squeue", words, kSqueueFlags));
    if (!arguments.rest.empty())
        return fail(ErrorCode::InvalidArgument,
                    fmt::format("squeue: {} is not an option", arguments.rest[0]),
                    "rollctl slurm squeue --help");
    std::string format = arguments.has("start")  ? kSqueueStart
                         : arguments.has("long") ? kSqueueLong
                                                 : kSqueueUsual;
    if (arguments.has("format")) format = arguments.value("format");
    const std::vector<SlurmColumn> wanted = read_columns(format);
    ROLL_TRY_VOID(check_queue_columns(wanted));
    for (const char* option : {"states", "state"})
        ROLL_TRY_VOID(check_states("squeue", arguments.list(option)));
    ROLL_TRY(Daemon daemon, Daemon::connect(context));
    const bool ended = arguments.has("states") || arguments.has("state");
    ROLL_TRY(const Json reply, daemon.jobs({.all = ended}));
    std::vector<Json> jobs;
    for (const Json& job : reply.value("jobs", Json::array()))
        if (queue_wants(job, arguments)) jobs.push_back(job);
    std::ranges::stable_sort(jobs, [](const Json& a, const Json& b) {
        const auto key = [](const Json& job) {
            return std::pair(field_text(job, "state") != "queued", -job.value("priority", 0));
        };
        return key(a) < key(b);
    });
    std::string text;
    const Time now = wall_clock_now();
    if (!arguments.has("noheader"))
        text += columns_line(wanted, [&](const SlurmColumn& c) {
            return std::string(queue_columns().at(c.field).title);
        });
    for (const Json& job : jobs)
        text += columns_line(wanted, [&](const SlurmColumn& c) {
            return queue_columns().at(c.field).value({job, now, daemon});
        });
    print(text);
    return 0;
}

}  // namespace roll::cli
