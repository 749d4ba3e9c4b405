// Builds the reply to `totals`: counts for monitoring.
#include <algorithm>
#include <array>
#include <map>
#include <string>

#include "daemon/core/facts/lookups.hpp"
#include "daemon/query/query.hpp"

namespace roll::query {
namespace {

struct UserTotals {
    std::int64_t queued = 0, running = 0, slots = 0, gpu_hundredths = 0;
};

std::map<std::string, UserTotals> totals_of_users(const core::State& state) {
    std::map<std::string, UserTotals> users;
    for (const JobId id : state.index.open) {
        const core::Job& job = state.jobs.at(id);
        UserTotals& user = users[job.user];
        if (!job.attempt) {
            ++user.queued;
            continue;
        }
        ++user.running;
        for (const core::Place& place : job.attempt->places) {
            user.slots += static_cast<std::int64_t>(place.slots.size());
            user.gpu_hundredths += static_cast<std::int64_t>(place.gpus.size()) * place.gpu_percent;
        }
    }
    return users;
}

// Returns the number of jobs in each phase, and the number of queued jobs that are held.
Json jobs_json(const core::State& state) {
    std::array<std::int64_t, core::kJobPhases.size()> counts{};
    std::int64_t held = 0;
    for (const auto& [id, job] : state.jobs) {
        ++counts.at(static_cast<std::size_t>(job.phase));
        held += job.held && job.phase == core::JobPhase::Queued ? 1 : 0;
    }
    Json json = Json::object();
    for (std::size_t phase = 0; phase < counts.size(); ++phase)
        json[core::kJobPhases.at(phase)] = counts.at(phase);
    json["held"] = held;
    return json;
}

// Returns the longest time, in seconds, for which a job has waited only for capacity; 0 if there is
// no such job.
double longest_wait(const core::State& state, Time now) {
    Time oldest = now;
    for (const auto& [group, ready] : state.index.ready)
        if (!ready.by_age.empty()) oldest = std::min(oldest, ready.by_age.begin()->first);
    return std::chrono::duration<double>(now - oldest).count();
}

Json nodes_json(const core::State& state) {
    const auto count = [&](auto&& is) {
        return std::ranges::count_if(state.workers,
                                     [&](const auto& one) { return is(one.second); });
    };
    return {{"connected", state.workers.size()},
            {"silent", count([](const core::Worker& worker) { return worker.quiet; })},
            {"draining", count([](const core::Worker& worker) { return worker.draining; })},
            {"excluded", std::ranges::count_if(state.machines, [](const auto& machine) {
                 return machine.second.excluded_until.has_value();
             })}};
}

Json allocations_json(const core::State& state) {
    static constexpr std::array kPhases = {"ordered", "pending", "granted"};
    std::array<std::int64_t, kPhases.size()> counts{};
    for (const auto& [id, allocation] : state.allocations)
        ++counts.at(static_cast<std::size_t>(allocation.phase));
    Json json = Json::object();
    for (std::size_t phase = 0; phase < counts.size(); ++phase)
        json[kPhases.at(phase)] = counts.at(phase);
    return json;
}

}  // namespace

Json totals(const core::State& state, Time now) {
    Json users = Json::array();
    for (const auto& [name, user] : totals_of_users(state))
        users.push_back({{"user", name},
                         {"queued", user.queued},
                         {"running", user.running},
                         {"slots", user.slots},
                         {"gpus", spec::gpus_number(user.gpu_hundredths)}});
    return {{"schema", "roll.totals/1"},
            {"incarnation", state.incarnation},
            {"submitted", state.next_job - 1},
            {"jobs", jobs_json(state)},
            {"longest_wait_seconds", longest_wait(state, now)},
            {"ettr", ettr_of_open(state, now)},
            {"users", std::move(users)},
            {"nodes", nodes_json(state)},
            {"capacity", nodes(state, {}, 0)["all"]},
            {"stopped", state.stopped.has_value()},
            {"allocations", allocations_json(state)}};
}

}  // namespace roll::query
