#include "cli/slurm/jobs.hpp"

#include <algorithm>
#include <cctype>
#include <ctime>

#include <fmt/format.h>

#include "cli/slurm/values.hpp"
#include "cli/text/render.hpp"
#include "common/spec/schema/array.hpp"

namespace roll::cli {
namespace {

using std::chrono::seconds;

int number_at(const Json& json, const char* pointer, int fallback) {
    const Json::json_pointer at(pointer);
    return json.contains(at) && json[at].is_number() ? json[at].get<int>() : fallback;
}

std::string to_upper(std::string text) {
    std::ranges::transform(text, text.begin(),
                           [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
    return text;
}

// Returns a value padded or cut to the column's width.
std::string column_value(const SlurmColumn& column, const std::string& value) {
    if (column.width == 0) return value;
    std::string text = value.substr(0, column.width);
    const std::string blanks(column.width - text.size(), ' ');
    return column.right ? blanks + text : text + blanks;
}

}  // namespace

std::string slurm_job_id(const Json& job) {
    const Json array = job.value("array", Json());
    if (!array.is_object()) return field_text(job, "id");
    return field_text(array, "job") + "_" + field_text(array, "index");
}

std::vector<std::string> split_ids(std::string_view text) {
    std::vector<std::string> ids;
    std::string id;
    bool in_brackets = false;
    for (const char c : text) {
        in_brackets = c == '[' || (in_brackets && c != ']');
        if (c != ',' || in_brackets)
            id += c;
        else if (!id.empty())
            ids.push_back(std::exchange(id, {}));
    }
    if (!id.empty()) ids.push_back(id);
    return ids;
}

bool is_meant(const Json& job, const std::string& id) {
    if (id == field_text(job, "id") || id == slurm_job_id(job)) return true;
    const Json array = job.value("array", Json());
    if (!array.is_object()) return false;
    const std::string first = field_text(array, "job");
    if (id == first) return true;
    if (!id.starts_with(first + "_[") || !id.ends_with(']')) return false;
    const std::size_t begin = first.size() + 2;
    const auto indices =
        spec::array_indices(std::string_view(id).substr(begin, id.size() - begin - 1));
    return indices && std::ranges::find(*indices, array.value("index", -1)) != indices->end();
}

SlurmState slurm_state(const Json& job) {
    const std::string state = field_text(job, "state");
    if (state == "queued") return {"PENDING", "PD"};
    if (state == "running")
        return job.value("cancelling", false) ? SlurmState{"COMPLETING", "CG"}
                                              : SlurmState{"RUNNING", "R"};
    if (state == "done") return {"COMPLETED", "CD"};
    if (state == "cancelled") return {"CANCELLED", "CA"};
    const std::string reason = field_text(job, "reason");
    if (reason.find("time limit") != std::string::npos) return {"TIMEOUT", "TO"};
    if (reason.find("out of memory") != std::string::npos) return {"OUT_OF_MEMORY", "OOM"};
    return {"FAILED", "F"};
}

bool has_state(const Json& job, const std::string& name) {
    const SlurmState state = slurm_state(job);
    const std::string wanted = to_upper(name);
    return wanted == "ALL" || wanted == state.name || wanted == state.brief;
}

Result<void> check_states(const std::string& program, const std::vector<std::string>& names) {
    // Roll's jobs never have the state BOOT_FAIL or a state after it in this list.
    static const std::vector<std::string> kStates = split_at(
        "ALL PENDING PD RUNNING R COMPLETING CG COMPLETED CD CANCELLED CA TIMEOUT TO FAILED F "
        "OUT_OF_MEMORY OOM BOOT_FAIL BF CONFIGURING CF DEADLINE DL NODE_FAIL NF PREEMPTED PR "
        "REQUEUED RQ RESIZING RS REVOKED RV SUSPENDED S STOPPED ST SPECIAL_EXIT SE STAGE_OUT SO "
        "SIGNALING SI REQUEUE_FED RF REQUEUE_HOLD RH RESV_DEL_HOLD RD LAUNCH_FAILED RECONFIG_FAIL "
        "POWER_UP_NODE UPDATE_DB",
        ' ');
    for (const std::string& name : names) {
        if (std::ranges::find(kStates, to_upper(name)) != kStates.end()) continue;
        return fail(ErrorCode::InvalidArgument,
                    fmt::format("{}: {} is not a state; allowed: all, PENDING, RUNNING, "
                                "COMPLETING, COMPLETED, CANCELLED, TIMEOUT, OUT_OF_MEMORY, FAILED",
                                program, name));
    }
    return {};
}

namespace {

// Returns true if the job waits for another job: `waits for CONDITION:JOB`, such as `ok:5`. A job
// that waits for resources has the words `waits for free resources`, or the name of an allocation.
bool has_dependency(std::string_view waiting) {
    constexpr std::string_view kBegin = "waits for ";
    if (!waiting.starts_with(kBegin)) return false;
    waiting.remove_prefix(kBegin.size());
    return waiting.substr(0, waiting.find(' ')).find(':') != std::string_view::npos;
}

}  // namespace

std::string slurm_reason(const Json& job, Time now) {
    if (field_text(job, "state") != "queued") return "None";
    if (job.value("held", false)) return "JobHeldUser";
    const auto begin = parse_time(job.value("times", Json::object()).value("begin", Json()));
    if (begin && *begin > now) return "BeginTime";
    const std::string waiting = field_text(job, "waiting");
    if (has_dependency(waiting)) return "Dependency";
    if (waiting.starts_with("backs off")) return "BeginTime";
    return "Resources";
}

std::string slurm_node(const std::string& node) {
    const std::size_t end = node.rfind(".a");
    const bool pilot = end != std::string::npos && end + 2 < node.size() &&
                       node.find_first_not_of("0123456789", end + 2) == std::string::npos;
    return pilot ? node.substr(0, end) : node;
}

std::string slurm_nodes(const Json& job) {
    std::string text;
    for (const Json& node : job.value("nodes", Json::array()))
        if (node.is_string())
            text += (text.empty() ? "" : ",") + slurm_node(node.get<std::string>());
    return text;
}

std::string slurm_time_text(const Json& time, const char* none) {
    const auto parsed = parse_time(time);
    if (!parsed) return none;
    const std::time_t unix = std::chrono::floor<seconds>(*parsed).time_since_epoch().count();
    std::tm parts{};
    ::localtime_r(&unix, &parts);
    char text[32];
    return std::string(text, std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &parts));
}

seconds run_time(const Json& job, Time now) {
    const auto started = parse_time(job.value("started_at", Json()));
    if (!started) return seconds(0);
    const auto ended = parse_time(job.value("ended_at", Json()));
    return std::max(std::chrono::floor<seconds>(ended.value_or(now) - *started), seconds(0));
}

std::string slurm_exit_code(const Json& job) {
    const Json code = job.value("exit_code", Json());
    const bool has_run = job.value("started_at", Json()).is_string();
    const int status = has_run && code.is_number_integer() ? code.get<int>() : 0;
    return status > 128 ? fmt::format("0:{}", status - 128) : fmt::format("{}:0", status);
}

int job_nodes(const Json& job) { return number_at(job, "/resources/nodes", 1); }

int job_cpus(const Json& job) {
    return job_nodes(job) * number_at(job, "/resources/slots_per_node", 1);
}

std::vector<SlurmColumn> read_columns(std::string_view format) {
    std::vector<SlurmColumn> columns;
    SlurmColumn column;
    for (std::size_t i = 0; i < format.size(); ++i) {
        if (format[i] != '%' || i + 1 == format.size()) {
            column.text += format[i];
            continue;
        }
        ++i;
        if (format[i] == '.') column.right = true, ++i;
        for (; i < format.size() && std::isdigit(static_cast<unsigned char>(format[i])) != 0; ++i)
            column.width = std::min<std::size_t>(column.width * 10 + (format[i] - '0'), 1000);
        column.field = i < format.size() ? format[i] : '%';
        columns.push_back(std::exchange(column, {}));
    }
    if (!column.text.empty()) columns.push_back(column);
    return columns;
}

std::string columns_line(const std::vector<SlurmColumn>& columns,
                         const std::function<std::string(const SlurmColumn&)>& value) {
    std::string line;
    for (const SlurmColumn& column : columns)
        line += column.text + (column.field == 0 ? "" : column_value(column, value(column)));
    return line + "\n";
}

}  // namespace roll::cli
