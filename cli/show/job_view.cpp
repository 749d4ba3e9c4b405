#include "cli/show/job_view.hpp"

#include <algorithm>
#include <cmath>
#include <set>

#include <fmt/format.h>

#include "cli/job/git.hpp"
#include "cli/show/layout_view.hpp"
#include "cli/text/render.hpp"
#include "cli/text/text_width.hpp"
#include "common/counted.hpp"
#include "common/spec/schema/units.hpp"

namespace roll::cli {
namespace {

double seconds_between(Time from, Time to) {
    return std::chrono::duration<double>(to - from).count();
}

// Returns one value of `usage` of an attempt or a job as text. `key` is "memory_peak", "disk" or
// the key of a duration. "disk" is the sum of the bytes read and the bytes written. Returns "" if
// the value is unknown.
std::string usage_text(const Json& row, const std::string& key) {
    const Json usage = row.value("usage", Json());
    if (!usage.is_object()) return "";
    if (key == "disk" && usage.contains("disk_read"))
        return spec::size_text(usage.value("disk_read", std::int64_t{0}) +
                               usage.value("disk_written", std::int64_t{0}));
    const Json value = usage.value(key, Json());
    if (!value.is_number()) return "";
    if (key == "memory_peak") return spec::size_text(value.get<std::int64_t>());
    const double seconds = value.get<double>();
    return seconds < 60 ? fmt::format("{:.1f}s", seconds) : duration_text(seconds);
}

std::string attempts_text(const Json& attempts, const Look& look) {
    std::vector<std::vector<std::string>> rows;
    for (const Json& attempt : attempts) {
        std::string state = field_text(attempt, "outcome");
        if (state.empty()) state = field_text(attempt, "state");
        const auto started = parse_time(attempt.value("started_at", Json()));
        const auto ended = parse_time(attempt.value("ended_at", Json()));
        const std::string took =
            started ? duration_text(seconds_between(*started, ended.value_or(look.now))) : "";
        rows.push_back({field_text(attempt, "attempt"), field_text(attempt, "token"), state, took,
                        usage_text(attempt, "cpu_seconds"), usage_text(attempt, "gpu_seconds"),
                        usage_text(attempt, "memory_peak"), usage_text(attempt, "disk"),
                        field_text(attempt, "nodes"), field_text(attempt, "exit_code"),
                        field_text(attempt, "reason")});
    }
    return table({{"ATTEMPT", true},
                  {"TOKEN"},
                  {"STATE"},
                  {"TIME", true},
                  {"CPU", true},
                  {"GPU", true},
                  {"MEMORY", true},
                  {"DISK", true},
                  {"NODES"},
                  {"EXIT", true},
                  {"REASON"}},
                 rows, look.color);
}

std::string checkpoints_text(const Json& checkpoints) {
    std::vector<std::vector<std::string>> rows;
    for (const Json& one : checkpoints) {
        rows.push_back(
            {field_text(one, "step"), field_text(one, "token"), field_text(one, "directory")});
    }
    return table({{"STEP", true}, {"TOKEN"}, {"CHECKPOINT"}}, rows, false);
}

std::string exports_text(const Json& exports) {
    std::vector<std::vector<std::string>> rows;
    for (const Json& one : exports)
        rows.push_back({field_text(one, "step"), field_text(one, "directory")});
    return table({{"STEP", true}, {"EXPORT"}}, rows, false);
}

// Returns a table of the requests to the training, such as `evaluate`, with their answers. The
// table has the requests of all attempts of a job. Empty if there were no requests.
std::string requests_text(const Json& attempts) {
    std::vector<std::vector<std::string>> rows;
    for (const Json& attempt : attempts) {
        for (const Json& one : attempt.value("requests", Json::array())) {
            const std::string value = field_text(one, "value");
            rows.push_back({field_text(attempt, "attempt"),
                            field_text(one, "what") + (value == "0" ? "" : " " + value),
                            field_text(one, "by"), field_text(one, "step"),
                            one.value("answered", false) ? field_text(one, "answer") : "waiting"});
        }
    }
    if (rows.empty()) return "";
    return table({{"ATTEMPT", true}, {"REQUEST"}, {"BY"}, {"STEP", true}, {"ANSWER"}}, rows, false);
}

std::string ranks_text(const Json& ranks) {
    std::vector<std::vector<std::string>> rows;
    for (const Json& rank : ranks) {
        const Json score = rank.value("score", Json());
        rows.push_back({field_text(rank, "rank"), field_text(rank, "node"),
                        field_text(rank, "step"), field_text(rank, "own_ms"),
                        score.is_number() ? fmt::format("{:.2f}", score.get<double>()) : ""});
    }
    return table({{"RANK", true}, {"NODE"}, {"STEP", true}, {"OWN MS", true}, {"SCORE", true}},
                 rows, false);
}

std::string indent(const std::string& text) {
    std::string out;
    for (const std::string& line : lines_of(text)) out += "  " + line + "\n";
    return out;
}

}  // namespace

std::string id_text(const Json& job) {
    const Json fold = job.value("fold", Json());
    if (!fold.is_object()) return field_text(job, "id");
    return fmt::format("{}[{}]", field_text(job, "id"), field_text(fold, "indices"));
}

std::string info_text(const Json& job) {
    if (const Json fold = job.value("fold", Json()); fold.is_object()) {
        std::string text;
        const Json states = fold.value("states", Json::object());
        for (const auto& [state, word] : {std::pair{"done", "done"},
                                          {"failed", "failed"},
                                          {"cancelled", "cancelled"},
                                          {"running", "running"},
                                          {"queued", "waiting"}}) {
            if (!states.contains(state)) continue;
            text += fmt::format("{}{} {}", text.empty() ? "" : ", ", states[state].dump(), word);
        }
        const std::string waiting = field_text(job, "waiting");
        return waiting.empty() ? text : text + ": " + waiting;
    }
    const std::string state = field_text(job, "state");
    if (state == "queued") return field_text(job, "waiting");
    if (state == "running") return progress_text(job);
    std::string text = field_text(job, "reason");
    if (!field_text(job, "export_job").empty()) {
        text += (text.empty() ? "" : "; ") + ("export: job " + field_text(job, "export_job"));
    }
    return text;
}

std::string time_text(const Json& job, Time now) {
    const auto submitted = parse_time(job.value("submitted_at", Json()));
    const auto started = parse_time(job.value("started_at", Json()));
    const auto ended = parse_time(job.value("ended_at", Json()));
    const auto from = started ? started : submitted;
    if (!from || (ended && !started)) return "";
    return duration_text(seconds_between(*from, ended.value_or(now)));
}

bool is_over(const Json& job) {
    const std::string state = field_text(job, "state");
    return state == "done" || state == "failed" || state == "cancelled";
}

int exit_status(const Json& job) {
    if (field_text(job, "state") == "done" || job.value("halved", Json()) == true) return 0;
    const Json code = job.value("exit_code", Json());
    const int status = code.is_number_integer() ? code.get<int>() : 0;
    return status == 0 ? 1 : status;
}

std::string progress_text(const Json& job) {
    const Json progress = progress_of(job);
    if (!progress.is_object()) return "";
    std::vector<std::string> parts;
    const std::string steps = field_text(progress, "steps");
    if (progress.contains("step"))
        parts.push_back(fmt::format("step {}{}", field_text(progress, "step"),
                                    steps.empty() ? "" : "/" + steps));
    const auto real = [&](const char* key) {
        const Json value = progress.value(key, Json());
        return value.is_number() ? std::optional(value.get<double>()) : std::nullopt;
    };
    if (const auto total = real("bytes_total"); total && *total > 0) {
        const double done = real("bytes").value_or(0);
        parts.push_back(fmt::format("{:.0f} % of {}B", 100 * done / *total, amount_text(*total)));
    }
    if (const auto loss = real("loss")) parts.push_back(fmt::format("loss {:.4f}", *loss));
    if (const auto scale = real("loss_scale"))
        parts.push_back(
            fmt::format("scale {:g}, {:.0f} overflows", *scale, real("overflows").value_or(0)));
    if (const auto skipped = real("skipped_steps"))
        parts.push_back(fmt::format("{:.0f} skipped", *skipped));
    if (const auto samples = real("left_out_samples"))
        parts.push_back(counted(std::llround(*samples), "sample") + " left out");
    if (const auto speed = real("tokens_per_second"))
        parts.push_back(amount_text(*speed) + " tokens/s");
    if (const auto use = real("gpu_percent")) parts.push_back(fmt::format("GPU {:.0f} %", *use));
    if (const auto left = real("eta_s")) parts.push_back(duration_text(*left) + " left");
    if (progress.contains("checkpoint_postponed")) parts.emplace_back("checkpoint postponed");
    const std::string phase = field_text(progress, "phase");
    if (!phase.empty() && phase != "train" && phase != "training") parts.push_back(phase);
    std::string text;
    for (const std::string& part : parts) text += (text.empty() ? "" : "  ") + part;
    return text;
}

namespace {

// Returns a progress bar such as "[########------------]  40 %"; empty if the share is unknown.
std::string bar_text(const Json& progress, std::size_t cells) {
    if (!progress.is_object()) return "";
    for (const auto& [done, all] : {std::pair{"step", "steps"}, {"bytes", "bytes_total"}}) {
        const Json part = progress.value(done, Json()), whole = progress.value(all, Json());
        if (!part.is_number() || !whole.is_number() || whole <= 0) continue;
        const double share = std::clamp(part.get<double>() / whole.get<double>(), 0.0, 1.0);
        const auto full = static_cast<std::size_t>(share * static_cast<double>(cells));
        return fmt::format("[{}{}] {:3.0f} %", std::string(full, '#'),
                           std::string(cells - full, '-'), std::floor(100 * share));
    }
    return "";
}

// Cuts UTF-8 text to at most `bytes` bytes without splitting a character.
std::string cut(std::string text, std::size_t bytes) {
    if (text.size() <= bytes) return text;
    while (bytes > 0 && (static_cast<unsigned char>(text[bytes]) & 0xC0U) == 0x80U) --bytes;
    text.resize(bytes);
    return text;
}

}  // namespace

std::string job_line(const Json& job, std::size_t width, bool color) {
    const std::string state = field_text(job, "state");
    const Json progress = progress_of(job);
    std::string info = progress_text(job);
    const Json tokens = progress.is_object() ? progress.value("tokens", Json()) : Json();
    if (tokens.is_number()) info += "  " + amount_text(tokens.get<double>()) + " tokens";
    if (state == "queued") info = field_text(job, "waiting");
    if (is_over(job)) info = field_text(job, "reason");
    const std::string head = "job " + field_text(job, "id") + " " + field_text(job, "name") + "  ";
    std::string rest = info.empty() ? "" : "  " + info;
    if (width > 0 && !is_over(job)) {
        const std::size_t room = width - std::min(width, head.size() + state.size() + 1);
        for (const std::size_t cells : {20, 10}) {
            const std::string bar = state == "running" ? bar_text(progress, cells) : "";
            if (bar.empty() || bar.size() + 2 + rest.size() > room) continue;
            rest = "  " + bar + rest;
            break;
        }
        rest = cut(rest, room);
    }
    return head + paint_state(state, color) + rest;
}

const Fields& job_fields() {
    static const Fields kFields = {
        "a job", "jobs", {"id",         "name",       "kind",        "user",       "state",
                          "held",       "cancelling", "priority",    "reason",     "submitted_at",
                          "started_at", "ended_at",   "exit_code",   "waiting",    "output",
                          "attempt",    "nodes",      "source_job",  "export_job", "after",
                          "resources",  "labels",     "progress",    "time",       "info",
                          "usage",      "cpu_time",   "memory_peak", "gpu_time",   "disk",
                          "halved",     "starts_at"}};
    return kFields;
}

std::vector<std::string> asked_fields(const Format& format) {
    static const std::vector<std::string> kTime = {"submitted_at", "started_at", "ended_at"};
    static const std::vector<std::string> kInfo = {"state", "waiting", "progress", "reason",
                                                   "export_job"};
    const std::vector<std::string> own = {"id", "name", "kind", "state", "time", "nodes", "info"};
    static const std::set<std::string> kUsage = {"cpu_time", "memory_peak", "gpu_time", "disk"};
    std::set<std::string> asked;
    for (const std::string& field : format.fields.empty() ? own : format.fields) {
        if (field == "time")
            asked.insert(kTime.begin(), kTime.end());
        else if (field == "info")
            asked.insert(kInfo.begin(), kInfo.end());
        else if (kUsage.contains(field))
            asked.insert("usage");
        else
            asked.insert(field.substr(0, field.find('.')));
    }
    return {asked.begin(), asked.end()};
}

static std::string job_cell(const Json& job, const std::string& field, const Look& look) {
    if (field == "id") return id_text(job);
    if (field == "time") return time_text(job, look.now);
    if (field == "info") return info_text(job);
    if (field == "cpu_time") return usage_text(job, "cpu_seconds");
    if (field == "gpu_time") return usage_text(job, "gpu_seconds");
    if (field == "memory_peak" || field == "disk") return usage_text(job, field);
    if (field.ends_with("_at")) return time_field_text(job, field, look.local);
    if (field.starts_with("progress."))
        return deep_field_text({{"progress", progress_of(job)}}, field);
    return deep_field_text(job, field);
}

std::string jobs_text(const Json& jobs, const Format& format, const Look& look) {
    const auto cell = [&look](const Json& job, const std::string& field) {
        return job_cell(job, field, look);
    };
    if (!format.fields.empty()) return rows_text(format, jobs, look.color, cell);
    static const std::vector<Column> kColumns = {
        {.title = "ID", .right = true, .shrinks = 4, .least = 10},
        {.title = "NAME", .shrinks = 3, .least = 12},
        {.title = "KIND", .drops = 1},
        {.title = "STATE"},
        {.title = "TIME", .right = true, .drops = 3},
        {.title = "NODES", .shrinks = 2, .least = 8, .drops = 2},
        {.title = "INFO", .shrinks = 1, .least = 24}};
    std::vector<std::vector<std::string>> rows;
    for (const Json& job : jobs) {
        auto& row = rows.emplace_back();
        for (const char* field : {"id", "name", "kind", "state", "time", "nodes", "info"})
            row.push_back(cell(job, field));
    }
    return table(kColumns, rows, look.color, look.width);
}

// Returns the job's limits of memory and CPUs per node, and how the nodes of the job's attempt
// enforce these limits; "" if the job requests no limits.
static std::string asked_limits_text(const Json& job) {
    const Json resources = job.value("resources", Json());
    if (!resources.is_object()) return "";
    std::string text, how;
    const Json nodes = job.value("limits", Json::object());
    for (const auto& [node, enforced] : nodes.items())
        how += (how.empty() ? " (" : ", ") + node + ": " + field_text(nodes, node);
    const auto memory = resources.value("memory", std::int64_t{0});
    const int cpus = resources.value("cpus", 0);
    if (memory > 0) text = spec::size_text(memory) + " of memory";
    if (cpus > 0)
        text += fmt::format("{}{} CPU{}", text.empty() ? "" : ", ", cpus, cpus == 1 ? "" : "s");
    return text.empty() ? "" : text + " on each node" + how + (how.empty() ? "" : ")");
}

std::string job_text(const Json& job, const Look& look) {
    std::string text =
        fmt::format("job {} {} ({}): {}", field_text(job, "id"), field_text(job, "name"),
                    field_text(job, "kind"), paint_state(field_text(job, "state"), look.color));
    const std::string info = info_text(job);
    text += info.empty() ? "\n" : fmt::format(" - {}\n", info);
    const auto add = [&](const char* title, const std::string& value) {
        if (!value.empty()) text += fmt::format("  {:<16}{}\n", title, value);
    };
    for (const auto& [key, title] :
         std::vector<std::pair<std::string, const char*>>{{"user", "user"},
                                                          {"submitted_at", "submitted"},
                                                          {"starts_at", "starts by"},
                                                          {"started_at", "started"},
                                                          {"ended_at", "ended"},
                                                          {"exit_code", "exit code"},
                                                          {"priority", "priority"},
                                                          {"labels", "labels"},
                                                          {"output", "output"},
                                                          {"source_job", "starts from job"},
                                                          {"export_job", "export job"},
                                                          {"exported", "export"}})
        add(title,
            key.ends_with("_at") ? time_field_text(job, key, look.local) : field_text(job, key));
    const Json spec = job.value("spec", Json());
    const Json layout = job.contains("layout") ? job["layout"] : layout_of(job);
    if (!layout.is_null()) add("layout", layout_text(layout));
    if (spec.is_object()) add("git", git_text(spec.value("git", Json())));
    add("limits", asked_limits_text(job));
    const Json progress = job.value("progress", Json());
    if (progress.is_object() && progress.contains("checkpoint_postponed"))
        add("postponed", field_text(progress, "checkpoint_postponed"));
    const Json memory = progress.is_object() ? progress.value("memory", Json()) : Json();
    if (memory.is_number_integer())
        add("memory", spec::size_text(memory.get<std::int64_t>()) + " in use");
    const Json cpu = progress.is_object() ? progress.value("cpu_seconds", Json()) : Json();
    if (cpu.is_number())
        add("CPU", duration_text(cpu.get<double>()) + " of processor time in this attempt");
    if (const Json ettr = job.value("ettr", Json()); ettr.is_number())
        add("trained (ETTR)",
            fmt::format("{:.1f} % of the time since the first start", 100 * ettr.get<double>()));
    const auto add_table = [&](const char* key, const auto& text_of) {
        const Json rows = job.value(key, Json::array());
        const std::string table = rows.empty() ? "" : text_of(rows);
        if (!table.empty()) text += "\n" + indent(table);
    };
    add_table("attempts", [&](const Json& rows) { return attempts_text(rows, look); });
    add_table("attempts", requests_text);
    add_table("ranks", ranks_text);
    add_table("checkpoints", checkpoints_text);
    add_table("exports", exports_text);
    return text;
}

// Returns the node's state for people. A node with 0 slots is a reaper: a process that sends the
// last report of a killed roll-worker.
std::string node_state(const Json& node) {
    if (node.value("slots", Json()) == 0) return "ended";
    if (node.value("silent", Json()) == true) return "silent";
    if (node.value("draining", Json()) == true) return "draining";
    const Json excluded = node.value("excluded", Json());
    if (!excluded.is_object()) return "up";
    return "excluded until " + field_text(excluded, "until").substr(0, 16) +
           "Z: " + field_text(excluded, "reason");
}

const Fields& node_fields() {
    static const Fields kFields = {
        "a node", "nodes", {"node",         "state",      "slots",     "slots_free", "gpus",
                            "gpus_free",    "cpus",       "cpus_free", "memory",     "memory_free",
                            "limits",       "segment",    "wall",      "draining",   "silent",
                            "excluded",     "allocation", "jobs",      "joined_at",  "process",
                            "heard_ms_ago", "heard"}};
    return kFields;
}

std::string node_heard(const Json& node) {
    const Json heard = node.value("heard_ms_ago", Json());
    return heard.is_number() ? duration_text(heard.get<double>() / 1000) + " ago" : "";
}

// Returns the free memory and the total memory that a node offers; "" if the node does not report
// them.
static std::string node_memory(const Json& node) {
    const Json memory = node.value("memory", Json()), free = node.value("memory_free", Json());
    if (!memory.is_number_integer() || !free.is_number_integer() || memory == 0) return "";
    return spec::size_text(free.get<std::int64_t>()) + "/" +
           spec::size_text(memory.get<std::int64_t>());
}

static std::string node_cell(const Json& node, const std::string& field, const Look& look) {
    if (field == "state") return node_state(node);
    if (field == "joined_at") return time_field_text(node, field, look.local);
    return field == "heard" ? node_heard(node) : deep_field_text(node, field);
}

std::string nodes_text(const Json& nodes, const Format& format, const Look& look) {
    const auto cell = [&look](const Json& node, const std::string& field) {
        return node_cell(node, field, look);
    };
    if (!format.fields.empty()) return rows_text(format, nodes, false, cell);
    std::vector<std::vector<std::string>> rows;
    for (const Json& node : nodes) {
        const auto share = [&](const char* all, const char* free) {
            const std::string total = field_text(node, all);
            return total.empty() || total == "0" ? "" : field_text(node, free) + "/" + total;
        };
        rows.push_back({field_text(node, "node"), share("slots", "slots_free"),
                        share("gpus", "gpus_free"), share("cpus", "cpus_free"), node_memory(node),
                        node_state(node), field_text(node, "jobs"), field_text(node, "wall"),
                        field_text(node, "limits"), cell(node, "heard")});
    }
    static const std::vector<Column> kColumns = {
        {.title = "NODE", .shrinks = 3, .least = 12},
        {.title = "SLOTS FREE", .right = true},
        {.title = "GPUS FREE", .right = true},
        {.title = "CPUS FREE", .right = true, .drops = 5},
        {.title = "MEMORY FREE", .right = true, .drops = 4},
        {.title = "STATE", .shrinks = 2, .least = 10},
        {.title = "JOBS", .shrinks = 1, .least = 8},
        {.title = "WALL", .drops = 1},
        {.title = "LIMITS", .drops = 2},
        {.title = "HEARD", .right = true, .drops = 3}};
    return table(kColumns, rows, false, look.width);
}

std::string event_text(const Json& event, bool local) {
    std::string at = time_field_text(event, "at", local);
    if (!local && at.size() > 19) at = at.substr(0, 19) + "Z";
    const std::string job = field_text(event, "job");
    return fmt::format("{}  {:<10}{:<22}{}\n", at, job.empty() ? "" : "job " + job,
                       field_text(event, "kind"), field_text(event, "text"));
}

}  // namespace roll::cli
