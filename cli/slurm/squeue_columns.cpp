#include "cli/slurm/squeue_columns.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <optional>
#include <string_view>

#include <fmt/format.h>

#include "cli/slurm/values.hpp"
#include "cli/text/render.hpp"
#include "common/number.hpp"

namespace roll::cli {
namespace {

using std::chrono::seconds;

std::string or_null(const std::string& text) { return text.empty() ? "(null)" : text; }

// Returns the start of the job. For a queued job, returns the start that rolld expects.
std::string start_text(const QueueRow& row) {
    return slurm_time_text(row.job.value(row.pending() ? "starts_at" : "started_at", Json()));
}

std::string gpus_of(const Json& job) {
    const Json resources = job.value("resources", Json::object());
    const std::string gpus = field_text(resources, "gpus_per_node");
    return gpus.empty() || gpus == "0" ? "N/A" : "gres:gpu:" + gpus;
}

using Columns = std::map<char, QueueColumn>;

// Returns the columns that say what the job is.
Columns job_columns() {
    return {
        {'i', {"JobArrayID", "JOBID", [](const QueueRow& r) { return slurm_job_id(r.job); }}},
        {'A', {"JobID", "JOBID", [](const QueueRow& r) { return field_text(r.job, "id"); }}},
        {'F',
         {"ArrayJobID", "ARRAY_JOB_ID",
          [](const QueueRow& r) {
              const std::string id = slurm_job_id(r.job);
              return id.substr(0, id.find('_'));
          }}},
        {'K',
         {"ArrayTaskID", "ARRAY_TASK_ID",
          [](const QueueRow& r) {
              const Json array = r.job.value("array", Json());
              return array.is_object() ? field_text(array, "index") : "N/A";
          }}},
        {'P', {"Partition", "PARTITION", [](const QueueRow&) { return std::string("roll"); }}},
        {'j', {"Name", "NAME", [](const QueueRow& r) { return field_text(r.job, "name"); }}},
        {'u', {"UserName", "USER", [](const QueueRow& r) { return field_text(r.job, "user"); }}},
        {'a',
         {"Account", "ACCOUNT",
          [](const QueueRow& r) { return or_null(field_text(r.job, "account")); }}},
        {'t',
         {"StateCompact", "ST",
          [](const QueueRow& r) { return std::string(slurm_state(r.job).brief); }}},
        {'T',
         {"State", "STATE",
          [](const QueueRow& r) { return std::string(slurm_state(r.job).name); }}},
    };
}

// Returns the columns that say when and where the job runs, and what it needs.
Columns run_columns() {
    return {
        {'M',
         {"TimeUsed", "TIME",
          [](const QueueRow& r) { return slurm_duration_text(run_time(r.job, r.now)); }}},
        {'l',
         {"TimeLimit", "TIME_LIMIT",
          [](const QueueRow& r) {
              return r.limit().count() == 0 ? "UNLIMITED" : slurm_duration_text(r.limit());
          }}},
        {'L',
         {"TimeLeft", "TIME_LEFT",
          [](const QueueRow& r) {
              if (r.limit().count() == 0) return std::string("UNLIMITED");
              const seconds left = r.limit() - run_time(r.job, r.now);
              return slurm_duration_text(std::max(left, seconds(0)));
          }}},
        {'D',
         {"NumNodes", "NODES", [](const QueueRow& r) { return std::to_string(job_nodes(r.job)); }}},
        {'C',
         {"NumCPUs", "CPUS", [](const QueueRow& r) { return std::to_string(job_cpus(r.job)); }}},
        {'b', {"tres-per-node", "TRES_PER_NODE", [](const QueueRow& r) { return gpus_of(r.job); }}},
        {'N', {"NodeList", "NODELIST", [](const QueueRow& r) { return slurm_nodes(r.job); }}},
        {'B',
         {"BatchHost", "EXEC_HOST",
          [](const QueueRow& r) {
              const std::string nodes = slurm_nodes(r.job);
              return nodes.empty() ? "n/a" : nodes.substr(0, nodes.find(','));
          }}},
        {'r', {"Reason", "REASON", [](const QueueRow& r) { return slurm_reason(r.job, r.now); }}},
        {'R',
         {"ReasonList", "NODELIST(REASON)",
          [](const QueueRow& r) {
              return r.pending() ? "(" + slurm_reason(r.job, r.now) + ")" : slurm_nodes(r.job);
          }}},
        {'Q',
         {"PriorityLong", "PRIORITY",
          [](const QueueRow& r) { return field_text(r.job, "priority"); }}},
        {'p',
         {"Priority", "PRIORITY", [](const QueueRow& r) { return field_text(r.job, "priority"); }}},
        {'V',
         {"SubmitTime", "SUBMIT_TIME",
          [](const QueueRow& r) { return slurm_time_text(r.job["submitted_at"]); }}},
        {'S', {"StartTime", "START_TIME", start_text}},
        {'e',
         {"EndTime", "END_TIME",
          [](const QueueRow& r) { return slurm_time_text(r.job["ended_at"]); }}},
        {'Z', {"WorkDir", "WORK_DIR", [](const QueueRow& r) { return r.key("/workdir"); }}},
        {'k',
         {"Comment", "COMMENT",
          [](const QueueRow& r) { return or_null(r.key("/sbatch/comment")); }}},
        {'o', {"Command", "COMMAND", [](const QueueRow& r) { return r.key("/command/0"); }}},
        {'Y', {"SchedNodes", "SCHEDNODES", [](const QueueRow&) { return std::string("(null)"); }}},
        {'q', {"QOS", "QOS", [](const QueueRow&) { return std::string("(null)"); }}},
        {'E',
         {"Dependency", "DEPENDENCY",
          [](const QueueRow& r) { return or_null(r.key("/sbatch/dependency")); }}},
        {'%', {"", "%", [](const QueueRow&) { return std::string("%"); }}},
    };
}

tl::unexpected<Error> no_column(const std::string& what) {
    std::string known;
    for (const auto& [letter, column] : queue_columns())
        if (letter != '%') known += fmt::format(" %{}", letter);
    return fail(
        ErrorCode::InvalidArgument,
        fmt::format("squeue: the field {} has no meaning in Roll; allowed:{}", what, known));
}

bool same_type(std::string_view a, std::string_view b) {
    const auto lower = [](unsigned char c) { return std::tolower(c); };
    return std::ranges::equal(a, b, {}, lower, lower);
}

// Returns the number by which Slurm sorts the column; nullopt if it sorts the column by its text.
std::optional<std::int64_t> sort_number(char letter, const QueueRow& row) {
    constexpr auto kForever = std::numeric_limits<std::int64_t>::max();
    const bool limited = row.limit().count() > 0;
    if (letter == 'M') return run_time(row.job, row.now).count();
    if (letter == 'l') return limited ? row.limit().count() : kForever;
    if (letter == 'L')
        return limited ? (row.limit() - run_time(row.job, row.now)).count() : kForever;
    if (letter == 'i') letter = 'A';
    if (letter == 't' || letter == 'T') {
        constexpr std::array kInOrder = {"PENDING",   "RUNNING", "COMPLETING", "COMPLETED",
                                         "CANCELLED", "FAILED",  "TIMEOUT",    "OUT_OF_MEMORY"};
        const std::string_view state = slurm_state(row.job).name;
        return std::ranges::find(kInOrder, state) - kInOrder.begin();
    }
    return parse_number<std::int64_t>(queue_columns().at(letter).value(row));
}

struct SortKey {
    std::optional<std::int64_t> number;
    std::string text;
    auto operator<=>(const SortKey&) const = default;
};

// Returns the time in seconds since 1970; 0 if there is none.
std::int64_t unix_time(const Json& time) {
    const auto parsed = parse_time(time);
    return parsed ? std::chrono::floor<seconds>(*parsed).time_since_epoch().count() : 0;
}

}  // namespace

seconds QueueRow::limit() const {
    const Json resources = job.value("resources", Json::object());
    return seconds(resources.value("time_seconds", std::int64_t{0}));
}

std::string QueueRow::key(const char* pointer) const {
    const auto shown = daemon.show(job.value("id", std::uint64_t{0}));
    const Json::json_pointer at(std::string("/spec") + pointer);
    const bool has = shown && shown->contains(at) && (*shown)[at].is_string();
    return has ? (*shown)[at].get<std::string>() : "";
}

bool QueueRow::pending() const { return field_text(job, "state") == "queued"; }

const std::map<char, QueueColumn>& queue_columns() {
    static const Columns kQueueColumns = [] {
        Columns all = job_columns();
        all.merge(run_columns());
        return all;
    }();
    return kQueueColumns;
}

Result<std::vector<SlurmColumn>> read_queue_format(const std::string& format) {
    std::vector<SlurmColumn> columns = read_columns(format);
    for (const SlurmColumn& column : columns)
        if (column.field != 0 && !queue_columns().contains(column.field))
            return no_column(fmt::format("%{}", column.field));
    return columns;
}

Result<std::vector<SlurmColumn>> read_queue_types(const std::string& types) {
    constexpr std::size_t kUsualWidth = 20;
    std::vector<SlurmColumn> columns;
    std::string before;
    for (const std::string& part : split_at(types, ',')) {
        const std::size_t colon = std::min(part.find(':'), part.size());
        const std::string type = part.substr(0, colon);
        const auto found = std::ranges::find_if(queue_columns(), [&](const auto& one) {
            return !type.empty() && same_type(one.second.type, type);
        });
        if (found == queue_columns().end()) return no_column(type);
        // After the colon come a size and a text. The size is written as in -o, without the field's
        // letter, such as ".10".
        std::string size = colon < part.size() ? part.substr(colon + 1) : "";
        const std::size_t end = std::min(size.find_first_not_of(".0123456789"), size.size());
        SlurmColumn column = read_columns("%" + size.substr(0, end) + found->first).front();
        if (column.width == 0) column.width = kUsualWidth;
        column.text = before;
        before = size.substr(end);
        columns.push_back(std::move(column));
    }
    if (!before.empty()) columns.push_back({.text = before});
    return columns;
}

Result<void> sort_queue(std::vector<Json>& jobs, const std::string& fields, Daemon& daemon,
                        Time now) {
    // A stable sort begins with the last field, because the last field is the least significant
    // one.
    for (std::size_t at = fields.size(); at-- > 0;) {
        const char letter = fields[at];
        if (std::string_view(",+-").find(letter) != std::string_view::npos) continue;
        if (letter == '%' || !queue_columns().contains(letter))
            return no_column(std::string(1, letter));
        const bool reverse = at > 0 && fields[at - 1] == '-';
        std::vector<std::pair<SortKey, Json>> keyed;
        for (Json& job : jobs) {
            const QueueRow row{job, now, daemon};
            SortKey key{sort_number(letter, row), ""};
            if (!key.number) key.text = queue_columns().at(letter).value(row);
            keyed.emplace_back(std::move(key), std::move(job));
        }
        std::ranges::stable_sort(keyed, [reverse](const auto& a, const auto& b) {
            return reverse ? b.first < a.first : a.first < b.first;
        });
        std::ranges::transform(keyed, jobs.begin(),
                               [](auto& one) { return std::move(one.second); });
    }
    return {};
}

Json queue_json(const std::vector<Json>& jobs, Daemon& daemon, Time now) {
    Json rows = Json::array();
    for (const Json& job : jobs) {
        const QueueRow row{job, now, daemon};
        const Json array = job.value("array", Json());
        const bool task = array.is_object();
        const auto limit = row.limit().count() / 60;
        rows.push_back({{"job_id", job.value("id", Json())},
                        {"array_job_id", task ? array.value("job", Json()) : Json(0)},
                        {"array_task_id", task ? array.value("index", Json()) : Json()},
                        {"name", field_text(job, "name")},
                        {"user_name", field_text(job, "user")},
                        {"account", field_text(job, "account")},
                        {"partition", "roll"},
                        {"job_state", slurm_state(job).name},
                        {"state_reason", slurm_reason(job, now)},
                        {"priority", job.value("priority", Json())},
                        {"nodes", slurm_nodes(job)},
                        {"node_count", job_nodes(job)},
                        {"cpus", job_cpus(job)},
                        {"time_limit", limit > 0 ? Json(limit) : Json()},
                        {"submit_time", unix_time(job.value("submitted_at", Json()))},
                        {"start_time",
                         unix_time(job.value(row.pending() ? "starts_at" : "started_at", Json()))},
                        {"end_time", unix_time(job.value("ended_at", Json()))},
                        {"exit_code", job.value("exit_code", Json())}});
    }
    return {{"meta", {{"plugin", {{"type", "roll/queue"}, {"name", "Roll"}}}}},
            {"errors", Json::array()},
            {"jobs", std::move(rows)}};
}

}  // namespace roll::cli
