#include "daemon/core/limits.hpp"

#include <algorithm>

#include "daemon/core/use.hpp"

namespace roll::core {
namespace {

constexpr int kLookAhead = 16;  // of a half-life: what runs counts as if it ran on so long

std::string used(const std::string& who, std::int64_t now, std::int64_t more, std::int64_t limit,
                 const std::string& what) {
    return who + " uses " + std::to_string(now) + " of " + std::to_string(limit) + " " + what +
           ", and it needs " + std::to_string(more);
}

int slots_of(const spec::Resources& r) { return r.nodes * r.slots_per_node; }
int gpus_of(const spec::Resources& r) { return r.nodes * r.gpus_per_node; }

}  // namespace

std::vector<std::string> account_path(const spec::Policy& policy, const std::string& account) {
    std::vector<std::string> path;
    for (auto at = policy.accounts.find(account); at != policy.accounts.end();
         at = policy.accounts.find(at->second.parent)) {
        if (path.size() > policy.accounts.size()) break;  // a circle, which rolld.yaml may not hold
        path.push_back(at->first);
    }
    return path;
}

Limits::Limits(const State& state, Time now) : state_(state), arrays_(state.index.array_running) {
    for (const auto& [user, use] : state.use) {
        Sum own{use.slots, use.gpus, use.gpu_ms + use.gpu_ms_due,
                use_at(use, now, state.policy.half_life)};
        const auto join = [&](Sum& sum) {
            sum.slots += own.slots;
            sum.gpus += own.gpus;
            sum.gpu_ms += own.gpu_ms;
            sum.used += own.used;
        };
        for (const std::string& account : account_path(state.policy, user.first))
            join(accounts_[account]);
        join(users_[user.second]);
        join(users_of_[user]);
    }
}

void Limits::add_to(Sum& sum, const spec::Resources& resources, int sign) const {
    sum.slots += sign * slots_of(resources);
    sum.gpus += sign * gpus_of(resources);
    sum.gpu_ms += sign * gpu_ms(resources, resources.time);
}

void Limits::add(const Job& job, int sign) {
    if (job.spec.array) arrays_[job.array] += sign;
    const spec::Resources& resources = job.spec.resources;
    for (const std::string& account : account_path(state_.policy, job.spec.account))
        add_to(accounts_[account], resources, sign);
    add_to(users_[job.user], resources, sign);
    add_to(users_of_[{job.spec.account, job.user}], resources, sign);
}

namespace {

template <class Sum>
std::optional<Excess> over(const std::string& who, const std::string& path, const Sum& sum,
                           const spec::Quota& quota, const spec::Resources& wanted) {
    const auto check = [&](const std::optional<int>& limit, int borrow, int now, int more,
                           const char* what, const char* key) -> std::optional<Excess> {
        if (!limit || more == 0 || now + more <= *limit + borrow) return std::nullopt;
        return Excess{"quota", used(who, now, more, *limit + borrow, what), path + key};
    };
    if (auto excess =
            check(quota.slots, quota.borrow_slots, sum.slots, slots_of(wanted), "slots", ".slots"))
        return excess;
    if (auto excess =
            check(quota.gpus, quota.borrow_gpus, sum.gpus, gpus_of(wanted), "GPUs", ".gpus"))
        return excess;
    if (!quota.gpu_hours || gpus_of(wanted) == 0) return std::nullopt;
    if (wanted.time.count() == 0)
        return Excess{"quota", who + " has a limit of GPU-hours, and the job has no resources.time",
                      path + ".gpu_hours"};
    constexpr std::int64_t kHour = 3'600'000;
    if (sum.gpu_ms + gpu_ms(wanted, wanted.time) <= kHour * *quota.gpu_hours) return std::nullopt;
    return Excess{"quota",
                  used(who, sum.gpu_ms / kHour, gpu_ms(wanted, wanted.time) / kHour,
                       *quota.gpu_hours, "GPU-hours"),
                  path + ".gpu_hours"};
}

}  // namespace

std::optional<Excess> Limits::excess(const Job& job) const {
    const auto sum_of = [](const auto& sums, const auto& key) {
        const auto found = sums.find(key);
        return found == sums.end() ? Sum{} : found->second;
    };
    if (job.spec.array && job.spec.array->limit > 0) {
        const auto running = arrays_.find(job.array);
        const int count = running == arrays_.end() ? 0 : running->second;
        if (count >= job.spec.array->limit)
            return Excess{"array", std::to_string(count) + " jobs of its array run, as many as may",
                          ""};
    }
    const spec::Policy& policy = state_.policy;
    const spec::Resources& wanted = job.spec.resources;
    for (const std::string& name : account_path(policy, job.spec.account)) {
        auto excess = over("account " + name, "accounts." + name, sum_of(accounts_, name),
                           policy.accounts.at(name).quota, wanted);
        if (excess) return excess;
    }
    const std::string key = policy.users.contains(job.user) ? job.user : "*";
    return over("user " + job.user, "users." + key, sum_of(users_, job.user),
                spec::policy_of(policy, job.user).quota, wanted);
}

// What runs counts as if it ran on for a while, so that who has just been given much waits.
std::int64_t Limits::score(const Sum& sum, int share) const {
    const std::chrono::milliseconds ahead =
        std::chrono::milliseconds(state_.policy.half_life) / kLookAhead;
    return (sum.used + weight(sum.slots, sum.gpus) * ahead.count()) / share;
}

std::vector<std::int64_t> Limits::rank(const Job& job) const {
    std::vector<std::int64_t> scores;
    if (state_.policy.half_life.count() == 0) return scores;
    auto path = account_path(state_.policy, job.spec.account);
    std::ranges::reverse(path);
    for (const std::string& name : path) {
        const auto sum = accounts_.find(name);
        const int share = state_.policy.accounts.at(name).share;
        scores.push_back(sum == accounts_.end() ? 0 : score(sum->second, share));
    }
    const auto sum = users_of_.find({job.spec.account, job.user});
    const int share = spec::policy_of(state_.policy, job.user).share;
    scores.push_back(sum == users_of_.end() ? 0 : score(sum->second, share));
    return scores;
}

// Whether an account has more than is its own of something that the job takes; with it, if it has
// not started.
bool Limits::is_over(const Job& job, bool started) const {
    const int slots = slots_of(job.spec.resources);
    const int gpus = gpus_of(job.spec.resources);
    for (const std::string& name : account_path(state_.policy, job.spec.account)) {
        const spec::Quota& quota = state_.policy.accounts.at(name).quota;
        Sum sum;
        if (const auto found = accounts_.find(name); found != accounts_.end()) sum = found->second;
        if (!started) add_to(sum, job.spec.resources, 1);
        if (quota.slots && slots > 0 && sum.slots > *quota.slots) return true;
        if (quota.gpus && gpus > 0 && sum.gpus > *quota.gpus) return true;
    }
    return false;
}

bool Limits::borrows(const Job& job) const { return is_over(job, true); }
bool Limits::would_borrow(const Job& job) const { return is_over(job, false); }

bool Limits::owns(const Job& job) const {
    bool limited = false;
    for (const std::string& name : account_path(state_.policy, job.spec.account)) {
        const spec::Quota& quota = state_.policy.accounts.at(name).quota;
        Sum sum;
        if (const auto found = accounts_.find(name); found != accounts_.end()) sum = found->second;
        const spec::Resources& wanted = job.spec.resources;
        if (quota.slots && sum.slots + slots_of(wanted) > *quota.slots) return limited;
        if (quota.gpus && sum.gpus + gpus_of(wanted) > *quota.gpus) return limited;
        limited = limited || quota.slots || quota.gpus;
    }
    return limited;
}

std::optional<Excess> too_many_jobs(const State& state, const User& user, int count) {
    std::map<std::string, int> accounts;
    int own = 0;
    for (const auto& [other, use] : state.use) {
        if (other.second == user.second) own += use.jobs;
        for (const std::string& name : account_path(state.policy, other.first))
            accounts[name] += use.jobs;
    }
    for (const std::string& name : account_path(state.policy, user.first)) {
        const auto& limit = state.policy.accounts.at(name).quota.jobs;
        if (limit && accounts[name] + count > *limit)
            return Excess{"quota", used("account " + name, accounts[name], count, *limit, "jobs"),
                          "accounts." + name + ".jobs"};
    }
    const auto& limit = spec::policy_of(state.policy, user.second).quota.jobs;
    if (!limit || own + count <= *limit) return std::nullopt;
    const std::string key = state.policy.users.contains(user.second) ? user.second : "*";
    return Excess{"quota", used("user " + user.second, own, count, *limit, "jobs"),
                  "users." + key + ".jobs"};
}

}  // namespace roll::core
