#include "common/trials.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>

#include <fmt/format.h>

namespace roll {
namespace {

// Returns the share of a trial's steps that are done; 1 if the trial has ended.
double done_part(const Json& job) {
    const std::string state = job.value("state", "");
    if (state != "queued" && state != "running") return 1;
    Json progress = job.value("progress", Json());
    if (progress.is_string()) progress = Json::parse(progress.get<std::string>(), nullptr, false);
    if (!progress.is_object()) return 0;
    const Json step = progress.value("step", Json()), steps = progress.value("steps", Json());
    if (!step.is_number() || !steps.is_number() || steps <= 0) return 0;
    return std::min(step.get<double>() / steps.get<double>(), 1.0);
}

}  // namespace

void TrialMetric::add(const Json& row, const std::string& metric, bool maximize) {
    if (!row.is_object()) return;
    const Json at = row.value("step", Json());
    if (at.is_number()) step = at;
    const Json value = row.value(metric, Json());
    if (!value.is_number()) return;
    last = value;
    const double now = value.get<double>();
    const bool better =
        best.is_null() || (maximize ? now > best.get<double>() : now < best.get<double>());
    if (!std::isfinite(now) || !better) return;
    best = value;
    best_step = step;
}

std::size_t trials_of(const Json& first) {
    const Json spec = first.value("spec", Json());
    const Json sweep = spec.is_object() ? spec.value("sweep", Json()) : Json();
    const Json trials = sweep.is_object() ? sweep.value("trials", Json()) : Json();
    return trials.is_array() ? trials.size() : 0;
}

Result<Json> sweep_json(const Json& first, const Json& jobs, const ReadTrial& read_trial) {
    const std::uint64_t id = first.value("id", std::uint64_t{0});
    if (trials_of(first) == 0)
        return fail(ErrorCode::InvalidArgument, fmt::format("job {} is not part of a sweep", id),
                    "rollctl sweep FILE submits a job file with the key `sweep`");
    const Json sweep = first["spec"]["sweep"];
    const auto metric = sweep.value("metric", std::string("loss"));
    const auto mode = sweep.value("mode", std::string("min"));
    Json trials = Json::array(), best;
    double done = 0;
    for (const Json& job : jobs) {
        const Json array = job.value("array", Json());
        if (!array.is_object() || array.value("job", std::uint64_t{0}) != id) continue;
        const auto number = array.value("index", std::size_t{0});
        if (number >= sweep["trials"].size()) continue;
        const TrialMetric seen = read_trial(job.value("output", ""), metric, mode == "max");
        done += done_part(job);
        trials.push_back({{"id", job["id"]},
                          {"trial", number},
                          {"parameters", sweep["trials"][number]},
                          {"state", job.value("state", "")},
                          {"reason", job.value("reason", "")},
                          {"output", job.value("output", "")},
                          {"step", seen.step},
                          {"last", seen.last},
                          {"best", seen.best},
                          {"best_step", seen.best_step}});
        if (seen.best.is_null()) continue;
        const bool better =
            best.is_null() || (mode == "max" ? seen.best > best["best"] : seen.best < best["best"]);
        if (better) best = trials.back();
    }
    const double percent = 100 * done / static_cast<double>(sweep["trials"].size());
    Json reply = {{"schema", "roll.sweep/1"},
                  {"id", id},
                  {"name", first.value("name", "")},
                  {"metric", metric},
                  {"mode", mode},
                  {"percent", std::round(percent * 10) / 10},
                  {"best", best.is_null() ? Json() : best["id"]},
                  {"trials", std::move(trials)}};
    if (sweep.contains("halving")) reply["halving"] = sweep["halving"];
    return reply;
}

}  // namespace roll
