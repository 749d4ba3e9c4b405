#include "daemon/core/placement/limits.hpp"

#include <algorithm>

#include "common/check.hpp"
#include "daemon/core/state/use.hpp"

namespace roll::core {
namespace {

// fair share charges running jobs for half_life / kLookAhead in advance
constexpr int kLookAhead = 16;

constexpr int kWhole = 100;  // hundredths of a whole GPU

constexpr const char* kWantLess = "reduce the job's `resources` and submit it again";

std::string used(const std::string& who, const std::string& now, const std::string& more,
                 const std::string& limit, const std::string& what) {
    return who + " uses " + now + " of " + limit + " " + what + (limit == "1" ? "" : "s") +
           ", and it needs " + more;
}
std::string used(const std::string& who, std::int64_t now, std::int64_t more, std::int64_t limit,
                 const std::string& what) {
    return used(who, std::to_string(now), std::to_string(more), std::to_string(limit), what);
}

}  // namespace

std::vector<std::string> account_path(const spec::Policy& policy, const std::string& account) {
    std::vector<std::string> path;
    for (auto at = policy.accounts.find(account); at != policy.accounts.end();
         at = policy.accounts.find(at->second.parent)) {
        // Stop if the parents form a cycle. rolld.yaml must not contain such a cycle.
        if (path.size() > policy.accounts.size()) break;
        path.push_back(at->first);
    }
    return path;
}

Limits::Limits(const State& state, Time now) : state_(state), arrays_(state.index.array_running) {
    for (const auto& [user, use] : state.use) {
        Sum own{use.slots, use.gpu_hundredths, use.gpu_ms + use.gpu_ms_due, use.gpu_ms,
                use_at(use, now, state.policy.half_life)};
        const auto join = [&](Sum& sum) {
            sum.slots += own.slots;
            sum.gpu_hundredths += own.gpu_hundredths;
            sum.gpu_ms += own.gpu_ms;
            sum.gpu_ms_spent += own.gpu_ms_spent;
            sum.used += own.used;
        };
        for (const std::string& account : account_path(state.policy, user.first))
            join(accounts_[account]);
        join(users_[user.second]);
        join(users_of_[user]);
    }
}

void Limits::add_to(Sum& sum, const spec::Resources& resources, int sign) const {
    sum.slots += sign * resources.slots();
    sum.gpu_hundredths += sign * resources.gpu_hundredths();
    sum.gpu_ms += sign * gpu_ms(resources, resources.time);
    ROLL_CHECK(sum.slots >= 0 && sum.gpu_hundredths >= 0 && sum.gpu_ms >= sum.gpu_ms_spent);
}

void Limits::add(const Job& job, const spec::Resources& resources, int sign) {
    if (job.spec.array) ROLL_CHECK((arrays_[job.array] += sign) >= 0);
    for (const std::string& account : account_path(state_.policy, job.spec.account))
        add_to(accounts_[account], resources, sign);
    add_to(users_[job.user], resources, sign);
    add_to(users_of_[{job.spec.account, job.user}], resources, sign);
}

namespace {

template <class Sum>
std::optional<Excess> over(const std::string& who, const std::string& path, const Sum& sum,
                           const spec::Quota& quota, const spec::Resources& wanted) {
    // Count in hundredths of a slot or GPU, because a job may use a share of a GPU.
    const auto check = [&](const std::optional<int>& most, int borrow, std::int64_t now,
                           std::int64_t more, const char* what,
                           const char* key) -> std::optional<Excess> {
        if (!most || more == 0) return std::nullopt;
        const std::int64_t limit = std::int64_t{kWhole} * (*most + borrow);
        if (now + more <= limit) return std::nullopt;
        return Excess{
            "quota",
            used(who, spec::gpus_text(now), spec::gpus_text(more), spec::gpus_text(limit), what),
            path + key, more > limit ? kWantLess : ""};
    };
    if (auto excess = check(quota.slots, quota.borrow_slots, std::int64_t{kWhole} * sum.slots,
                            std::int64_t{kWhole} * wanted.slots(), "slot", ".slots"))
        return excess;
    if (auto excess = check(quota.gpus, quota.borrow_gpus, sum.gpu_hundredths,
                            wanted.gpu_hundredths(), "GPU", ".gpus"))
        return excess;
    if (!quota.gpu_hours || wanted.gpus_per_node == 0) return std::nullopt;
    if (wanted.time.count() == 0)
        return Excess{"quota",
                      who + " has a limit of GPU-hours, but the job does not set resources.time",
                      "", "set resources.time and submit the job again"};
    constexpr std::int64_t kHour = 3'600'000;
    const std::int64_t more = gpu_ms(wanted, wanted.time);
    const std::int64_t limit = kHour * *quota.gpu_hours;
    if (sum.gpu_ms + more <= limit) return std::nullopt;
    return Excess{"quota",
                  used(who, sum.gpu_ms / kHour, more / kHour, *quota.gpu_hours, "GPU-hour"),
                  path + ".gpu_hours", sum.gpu_ms_spent + more > limit ? kWantLess : ""};
}

}  // namespace

std::optional<Excess> Limits::excess(const Job& job, const spec::Resources& wanted) const {
    const auto sum_of = [](const auto& sums, const auto& key) {
        const auto found = sums.find(key);
        return found == sums.end() ? Sum{} : found->second;
    };
    if (job.spec.array && job.spec.array->limit > 0) {
        const auto running = arrays_.find(job.array);
        const int count = running == arrays_.end() ? 0 : running->second;
        if (count >= job.spec.array->limit)
            return Excess{"array",
                          std::to_string(job.spec.array->limit) +
                              " of the array's jobs may run at a time; this limit is reached",
                          ""};
    }
    const spec::Policy& policy = state_.policy;
    for (const std::string& name : account_path(policy, job.spec.account)) {
        auto excess = over("account " + name, "accounts." + name, sum_of(accounts_, name),
                           policy.accounts.at(name).quota, wanted);
        if (excess) return excess;
    }
    const std::string key = policy.users.contains(job.user) ? job.user : "*";
    return over("user " + job.user, "users." + key, sum_of(users_, job.user),
                spec::policy_of(policy, job.user).quota, wanted);
}

// Returns the decayed use of an account or user, divided by its share. Adds the use that the
// running jobs will have over the next half_life / kLookAhead. A user whose jobs have just received
// many resources therefore waits.
std::int64_t Limits::score(const Sum& sum, int share) const {
    const std::chrono::milliseconds ahead =
        std::chrono::milliseconds(state_.policy.half_life) / kLookAhead;
    ROLL_CHECK(share > 0);
    return (sum.used + weight(sum.slots, sum.gpu_hundredths) * ahead.count()) / share;
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

// Returns whether an account of the job exceeds its own quota. Checks the quota of slots if the job
// wants slots, and the quota of GPUs if the job wants GPUs. If `started` is false, the current use
// does not include the job, so `wanted` is added.
bool Limits::is_over(const Job& job, const spec::Resources& wanted, bool started) const {
    const int slots = wanted.slots(), gpus = wanted.gpu_hundredths();
    for (const std::string& name : account_path(state_.policy, job.spec.account)) {
        const spec::Quota& quota = state_.policy.accounts.at(name).quota;
        Sum sum;
        if (const auto found = accounts_.find(name); found != accounts_.end()) sum = found->second;
        if (!started) add_to(sum, wanted, 1);
        if (quota.slots && slots > 0 && sum.slots > *quota.slots) return true;
        if (quota.gpus && gpus > 0 && sum.gpu_hundredths > kWhole * *quota.gpus) return true;
    }
    return false;
}

bool Limits::borrows(const Job& job) const { return is_over(job, job.resources(), true); }

bool Limits::would_borrow(const Job& job) const {
    if (state_.policy.accounts.empty()) return false;
    bool may_start = false;
    for (int i = 0; i < job.spec.shapes(); ++i) {
        const spec::Resources& wanted = job.spec.shape(i);
        if (excess(job, wanted)) continue;
        if (!is_over(job, wanted, false)) return false;
        may_start = true;
    }
    return may_start;
}

bool Limits::owns(const Job& job) const {
    bool limited = false;
    for (const std::string& name : account_path(state_.policy, job.spec.account)) {
        const spec::Quota& quota = state_.policy.accounts.at(name).quota;
        Sum sum;
        if (const auto found = accounts_.find(name); found != accounts_.end()) sum = found->second;
        add_to(sum, job.resources(), 1);
        if (quota.slots && sum.slots > *quota.slots) return limited;
        if (quota.gpus && sum.gpu_hundredths > kWhole * *quota.gpus) return limited;
        limited = limited || quota.slots || quota.gpus;
    }
    return limited;
}

std::vector<int> allowed_variants(const Job& job, const Limits& limits, Time now) {
    std::vector<int> shapes;
    for (int i = 0; i < job.spec.shapes(); ++i) {
        const spec::Resources& wanted = job.spec.shape(i);
        const bool late = job.spec.deadline && now + wanted.time > *job.spec.deadline;
        if (!late && !limits.excess(job, wanted)) shapes.push_back(i);
    }
    return shapes;
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
            return Excess{"quota", used("account " + name, accounts[name], count, *limit, "job"),
                          "accounts." + name + ".jobs"};
    }
    const auto& limit = spec::policy_of(state.policy, user.second).quota.jobs;
    if (!limit || own + count <= *limit) return std::nullopt;
    const std::string key = state.policy.users.contains(user.second) ? user.second : "*";
    return Excess{"quota", used("user " + user.second, own, count, *limit, "job"),
                  "users." + key + ".jobs"};
}

}  // namespace roll::core
