#include "cli/job_view.hpp"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cli/render.hpp"
#include "common/spec/nearest.hpp"

namespace roll::cli {
namespace {

double seconds_between(Time from, Time to) {
    return std::chrono::duration<double>(to - from).count();
}

// Waiting since it was queued, running since it was started, or as long as it took.
std::string time_text(const Json& job, Time now) {
    const auto submitted = parse_time(job.value("submitted_at", Json()));
    const auto started = parse_time(job.value("started_at", Json()));
    const auto ended = parse_time(job.value("ended_at", Json()));
    const auto from = started ? started : submitted;
    if (!from || (ended && !started)) return "";
    return duration_text(seconds_between(*from, ended.value_or(now)));
}

std::string info_text(const Json& job) {
    const std::string state = field_text(job, "state");
    if (state == "queued") return field_text(job, "waiting");
    if (state == "running") return progress_text(job);
    std::string text = field_text(job, "reason");
    if (!field_text(job, "export_job").empty()) {
        text += (text.empty() ? "" : "; ") + ("export: job " + field_text(job, "export_job"));
    }
    return text;
}

// The progress object, whether it came as one or as its text.
Json progress_of(const Json& job) {
    const Json progress = job.value("progress", Json());
    if (!progress.is_string()) return progress;
    return Json::parse(progress.get<std::string>(), nullptr, false);
}

std::string attempts_text(const Json& attempts, Time now, bool color) {
    std::vector<std::vector<std::string>> rows;
    for (const Json& attempt : attempts) {
        std::string state = field_text(attempt, "outcome");
        if (state.empty()) state = field_text(attempt, "state");
        const auto started = parse_time(attempt.value("started_at", Json()));
        const auto ended = parse_time(attempt.value("ended_at", Json()));
        const std::string took =
            started ? duration_text(seconds_between(*started, ended.value_or(now))) : "";
        rows.push_back({field_text(attempt, "attempt"), field_text(attempt, "token"), state, took,
                        field_text(attempt, "nodes"), field_text(attempt, "exit_code"),
                        field_text(attempt, "reason")});
    }
    return table({{"ATTEMPT", true},
                  {"TOKEN"},
                  {"STATE"},
                  {"TIME", true},
                  {"NODES"},
                  {"EXIT", true},
                  {"REASON"}},
                 rows, color);
}

std::string checkpoints_text(const Json& checkpoints) {
    std::vector<std::vector<std::string>> rows;
    for (const Json& one : checkpoints) {
        rows.push_back(
            {field_text(one, "step"), field_text(one, "token"), field_text(one, "directory")});
    }
    return table({{"STEP", true}, {"TOKEN"}, {"CHECKPOINT"}}, rows, false);
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
    std::size_t from = 0;
    while (from < text.size()) {
        const std::size_t end = std::min(text.find('\n', from), text.size());
        out += "  " + text.substr(from, end - from) + "\n";
        from = end + 1;
    }
    return out;
}

}  // namespace

bool is_over(const Json& job) {
    const std::string state = field_text(job, "state");
    return state == "done" || state == "failed" || state == "cancelled";
}

int exit_status(const Json& job) {
    if (field_text(job, "state") == "done") return 0;
    const Json code = job.value("exit_code", Json());
    const int status = code.is_number_integer() ? code.get<int>() : 0;
    return status == 0 ? 1 : status;
}

std::string progress_text(const Json& job) {
    const Json progress = progress_of(job);
    if (!progress.is_object()) return "";
    std::vector<std::string> parts;
    const std::string steps = field_text(progress, "steps");
    if (progress.contains("step")) {
        parts.push_back(fmt::format("step {}{}", field_text(progress, "step"),
                                    steps.empty() ? "" : "/" + steps));
    }
    const auto real = [&](const char* key) {
        const Json value = progress.value(key, Json());
        return value.is_number() ? std::optional(value.get<double>()) : std::nullopt;
    };
    if (const auto total = real("bytes_total"); total && *total > 0) {
        const double done = real("bytes").value_or(0);
        parts.push_back(fmt::format("{:.0f} % of {}B", 100 * done / *total, amount_text(*total)));
    }
    if (const auto loss = real("loss")) parts.push_back(fmt::format("loss {:.4f}", *loss));
    if (const auto speed = real("tokens_per_second")) {
        parts.push_back(amount_text(*speed) + " tokens/s");
    }
    if (const auto left = real("eta_s")) parts.push_back(duration_text(*left) + " left");
    const std::string phase = field_text(progress, "phase");
    if (!phase.empty() && phase != "train" && phase != "training") parts.push_back(phase);
    std::string text;
    for (const std::string& part : parts) text += (text.empty() ? "" : "  ") + part;
    return text;
}

Result<std::vector<std::string>> job_keys(const std::string& list) {
    static const std::vector<std::string> kKnown = {
        "id",         "name",     "kind",      "user",         "state",      "held",
        "cancelling", "priority", "reason",    "submitted_at", "started_at", "ended_at",
        "exit_code",  "waiting",  "output",    "attempt",      "nodes",      "source_job",
        "export_job", "after",    "resources", "labels",       "progress"};
    std::vector<std::string> keys;
    for (std::size_t from = 0; !list.empty() && from <= list.size();) {
        const std::size_t end = std::min(list.find(',', from), list.size());
        keys.push_back(list.substr(from, end - from));
        from = end + 1;
        if (std::ranges::find(kKnown, keys.back()) != kKnown.end()) continue;
        const auto near = spec::nearest(keys.back(), kKnown);
        return fail(ErrorCode::InvalidArgument,
                    fmt::format("-o {}: a job has no {}{}", list, keys.back(),
                                near ? "; did you mean " + *near + "?" : ""),
                    fmt::format("allowed, with commas between: {}", fmt::join(kKnown, ", ")));
    }
    return keys;
}

std::vector<std::string> job_fields(const std::vector<std::string>& keys) {
    if (!keys.empty()) return keys;
    return {"id",       "name",  "kind",    "state",    "submitted_at", "started_at",
            "ended_at", "nodes", "waiting", "progress", "reason",       "export_job"};
}

std::string jobs_text(const Json& jobs, const std::vector<std::string>& keys, Time now,
                      bool color) {
    std::vector<Column> columns = {{"ID", true},   {"NAME"},  {"KIND"}, {"STATE"},
                                   {"TIME", true}, {"NODES"}, {"INFO"}};
    if (!keys.empty()) columns.clear();
    for (const std::string& key : keys) columns.push_back({key, false});
    std::vector<std::vector<std::string>> rows;
    for (const Json& job : jobs) {
        std::vector<std::string> row;
        for (const std::string& key : keys) row.push_back(field_text(job, key));
        if (keys.empty()) {
            row = {field_text(job, "id"),   field_text(job, "name"),
                   field_text(job, "kind"), field_text(job, "state"),
                   time_text(job, now),     field_text(job, "nodes"),
                   info_text(job)};
        }
        rows.push_back(std::move(row));
    }
    return table(columns, rows, color);
}

std::string job_text(const Json& job, Time now, bool color) {
    std::string text =
        fmt::format("job {} {} ({}): {}", field_text(job, "id"), field_text(job, "name"),
                    field_text(job, "kind"), paint_state(field_text(job, "state"), color));
    const std::string info = info_text(job);
    text += info.empty() ? "\n" : fmt::format(" - {}\n", info);
    for (const auto& [key, title] :
         std::vector<std::pair<std::string, std::string>>{{"user", "user"},
                                                          {"submitted_at", "submitted"},
                                                          {"started_at", "started"},
                                                          {"ended_at", "ended"},
                                                          {"exit_code", "exit code"},
                                                          {"priority", "priority"},
                                                          {"labels", "labels"},
                                                          {"output", "output"},
                                                          {"source_job", "starts from job"},
                                                          {"export_job", "export job"},
                                                          {"exported", "export"}}) {
        const std::string value = field_text(job, key);
        if (!value.empty()) text += fmt::format("  {:<16}{}\n", title, value);
    }
    const Json attempts = job.value("attempts", Json::array());
    if (!attempts.empty()) text += "\n" + indent(attempts_text(attempts, now, color));
    const Json ranks = job.value("ranks", Json::array());
    if (!ranks.empty()) text += "\n" + indent(ranks_text(ranks));
    const Json checkpoints = job.value("checkpoints", Json::array());
    if (!checkpoints.empty()) text += "\n" + indent(checkpoints_text(checkpoints));
    return text;
}

static std::string node_state(const Json& node) {
    if (node.value("draining", Json()) == true) return "draining";
    const Json excluded = node.value("excluded", Json());
    if (!excluded.is_object()) return "up";
    return "excluded until " + field_text(excluded, "until").substr(0, 16) +
           "Z: " + field_text(excluded, "reason");
}

std::string nodes_text(const Json& nodes) {
    std::vector<std::vector<std::string>> rows;
    for (const Json& node : nodes) {
        const auto share = [&](const char* all, const char* free) {
            const std::string total = field_text(node, all);
            return total == "0" ? "" : field_text(node, free) + "/" + total;
        };
        const Json heard = node.value("heard_ms_ago", Json());
        const std::string ago =
            heard.is_number() ? duration_text(heard.get<double>() / 1000) + " ago" : "";
        rows.push_back({field_text(node, "node"), share("slots", "slots_free"),
                        share("gpus", "gpus_free"), node_state(node), field_text(node, "jobs"),
                        ago});
    }
    return table(
        {{"NODE"}, {"SLOTS FREE", true}, {"GPUS FREE", true}, {"STATE"}, {"JOBS"}, {"HEARD", true}},
        rows, false);
}

std::string event_text(const Json& event) {
    std::string at = field_text(event, "at");
    if (at.size() > 19) at = at.substr(0, 19) + "Z";
    const std::string job = field_text(event, "job");
    return fmt::format("{}  {:<10}{:<22}{}\n", at, job.empty() ? "" : "job " + job,
                       field_text(event, "kind"), field_text(event, "text"));
}

}  // namespace roll::cli
