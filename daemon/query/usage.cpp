// Builds the reply to `usage`: the resource use and the limits of a user and of the user's
// accounts. Also lists the user's waiting jobs in the order of the queue.
#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "daemon/core/placement/limits.hpp"
#include "daemon/core/placement/queue.hpp"
#include "daemon/core/state/use.hpp"
#include "daemon/query/query.hpp"
#include "daemon/query/starts.hpp"

namespace roll::query {
namespace {

// Number of jobs at the head of the queue that get a position. The number is limited because rolld
// serves no other client during a turn.
constexpr int kPositionsMax = 10'000;
constexpr std::size_t kWaitingMax = 20;  // maximum number of waiting jobs in the reply

struct UseSum {
    std::int64_t slots = 0, gpu_hundredths = 0, jobs = 0, gpu_ms = 0, recent = 0;
    void add(const core::Use& use, std::int64_t use_now) {
        slots += use.slots;
        gpu_hundredths += use.gpu_hundredths;
        jobs += use.jobs;
        gpu_ms += use.gpu_ms;
        recent += use_now;
    }
};

Json limit_json(const std::optional<int>& value) { return value ? Json(*value) : Json(nullptr); }

Json row_of(const char* scope, const std::string& name, int share, const spec::Quota& quota,
            const UseSum& sum, std::int64_t recent_of_all) {
    constexpr double kHour = 3'600'000;
    const double percent = recent_of_all > 0 ? 100.0 * static_cast<double>(sum.recent) /
                                                   static_cast<double>(recent_of_all)
                                             : 0.0;
    return {{"scope", scope},
            {"name", name},
            {"share", share},
            {"recent_percent", percent},
            {"slots", sum.slots},
            {"gpus", spec::gpus_number(sum.gpu_hundredths)},
            {"jobs", sum.jobs},
            {"gpu_hours", static_cast<double>(sum.gpu_ms) / kHour},
            {"limits",
             {{"slots", limit_json(quota.slots)},
              {"gpus", limit_json(quota.gpus)},
              {"jobs", limit_json(quota.jobs)},
              {"gpu_hours", limit_json(quota.gpu_hours)}}}};
}

// Returns a row for the user, and then a row for each account that the user's jobs are charged to.
Json rows_of(const core::State& state, const std::string& user, Time now) {
    UseSum own, all;
    std::map<std::string, UseSum> accounts;
    std::set<std::string> charged;
    for (const auto& [account, name] : state.policy.accounts)
        if (std::ranges::find(name.users, user) != name.users.end()) charged.insert(account);
    for (const auto& [key, use] : state.use) {
        const std::int64_t recent = core::use_at(use, now, state.policy.half_life);
        const auto path = core::account_path(state.policy, key.first);
        all.add(use, recent);
        for (const std::string& account : path) accounts[account].add(use, recent);
        if (key.second != user) continue;
        own.add(use, recent);
        charged.insert(path.begin(), path.end());
    }
    const spec::UserPolicy& policy = spec::policy_of(state.policy, user);
    Json rows = Json::array();
    rows.push_back(row_of("user", user, policy.share, policy.quota, own, all.recent));
    for (const std::string& account : charged) {
        const spec::Account& of = state.policy.accounts.at(account);
        rows.push_back(
            row_of("account", account, of.share, of.quota, accounts[account], all.recent));
    }
    return rows;
}

// Lists waiting jobs. An array is one row. The row shows the first job and the number of waiting
// tasks.
class WaitingList {
  public:
    WaitingList(const core::State& state, Time now)
        : state_(state),
          now_(now),
          starts_(known_starts(state, now)) {}

    bool is_full() const { return list_.size() >= kWaitingMax; }
    void add(JobId id, const core::Job& job, const Json& position) {
        const JobId first = job.spec.array ? job.array : id;
        const auto [row, fresh] = rows_.try_emplace(first, list_.size());
        if (!fresh) {
            Json& tasks = list_[row->second]["tasks"];
            tasks = tasks.get<int>() + 1;
            return;
        }
        const auto start = starts_.find(id);
        const bool known = start != starts_.end();
        list_.push_back({{"id", id.value},
                         {"name", job.spec.name},
                         {"tasks", 1},
                         {"position", position},
                         {"starts_at", known ? Json(to_iso8601(start->second)) : Json(nullptr)},
                         {"waiting", waiting(state_, id, now_)}});
    }
    Json take() { return std::move(list_); }

  private:
    const core::State& state_;
    Time now_;
    std::map<JobId, Time> starts_;  // predicted starts
    Json list_ = Json::array();
    // maps a job, or the first job of an array, to its index in list_
    std::map<JobId, std::size_t> rows_{};
};

// Returns the user's waiting jobs: first the ready jobs in the order of the queue, and then the
// jobs that are not ready, such as held jobs.
Json waiting_of(const core::State& state, const std::string& user, Time now) {
    WaitingList list(state, now);
    std::set<JobId> seen;
    const core::Limits limits(state, now);
    core::Queue queue(state, now, limits);
    for (int position = 1; position <= kPositionsMax && !list.is_full(); ++position) {
        const auto id = queue.next();
        if (!id) break;
        const core::Job& job = state.jobs.at(*id);
        if (job.user != user) continue;
        seen.insert(*id);
        list.add(*id, job, position);
    }
    int looks = 0;
    for (const JobId id : state.index.open) {
        if (list.is_full() || ++looks > kPositionsMax) break;
        const core::Job& job = state.jobs.at(id);
        if (job.user == user && !job.attempt && !seen.contains(id)) list.add(id, job, nullptr);
    }
    return list.take();
}

}  // namespace

Json usage(const core::State& state, const protocol::UsageArgs& args, Time now) {
    const std::string& user = args.user;
    std::int64_t open = 0;
    for (const auto& [key, use] : state.use) open += key.second == user ? use.jobs : 0;
    const auto running = std::ranges::count_if(
        state.index.running, [&](JobId id) { return state.jobs.at(id).user == user; });
    return Json{{"schema", "roll.usage/1"},
                {"user", user},
                {"running", running},
                {"queued", open - running},
                {"usage", rows_of(state, user, now)},
                {"waiting", waiting_of(state, user, now)}};
}

bool knows_user(const core::State& state, const std::string& user) {
    const spec::Policy& policy = state.policy;
    if (policy.users.contains(user)) return true;
    for (const auto& [name, account] : policy.accounts)
        if (std::ranges::find(account.users, user) != account.users.end()) return true;
    return std::ranges::any_of(state.jobs,
                               [&](const auto& one) { return one.second.user == user; });
}

}  // namespace roll::query
