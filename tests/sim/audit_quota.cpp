// The auditor's model of quotas: sums over all jobs, computed anew from rolld.yaml.
#include <algorithm>

#include "common/check.hpp"
#include "tests/sim/auditor.hpp"

namespace roll::sim {
namespace {

bool is_within(const spec::Policy& policy, const std::string& account, const std::string& other) {
    for (std::string at = account; !at.empty();) {
        if (at == other) return true;
        const auto found = policy.accounts.find(at);
        at = found == policy.accounts.end() ? "" : found->second.parent;
    }
    return false;
}

}  // namespace

// Returns the sum over the jobs that are `mine`: those of a user, or of an account and the accounts
// below it. The jobs in `more` count as running. Without `stopping_too`, attempts that are stopping
// do not count.
template <class Mine>
Auditor::Sum Auditor::sum(const Mine& mine, bool stopping_too, const Some& more) const {
    Sum sum;
    for (const auto& [id, j] : jobs_) {
        if (!mine(j)) continue;
        sum.jobs += !j.over;
        sum.gpu_ms += j.gpu_ms;
        const bool runs = j.run && (!j.run->stopping || stopping_too);
        const auto starts = more.find(&j);
        if (!runs && starts == more.end()) continue;
        const spec::Resources& given = runs ? j.run->given : starts->second;
        sum.slots += given.slots();
        sum.gpus += given.gpu_hundredths();
        sum.gpu_ms += given.gpu_hundredths() * std::chrono::milliseconds(given.time).count() / 100;
    }
    return sum;
}

bool Auditor::within(const spec::Quota& quota, const Sum& sum) {
    return (!quota.slots || sum.slots <= *quota.slots + quota.borrow_slots) &&
           (!quota.gpus || sum.gpus <= 100 * (*quota.gpus + quota.borrow_gpus)) &&
           (!quota.jobs || sum.jobs <= *quota.jobs) &&
           (!quota.gpu_hours || sum.gpu_ms <= std::int64_t{3'600'000} * *quota.gpu_hours);
}

bool Auditor::quotas_hold(const Some& more) const {
    for (const auto& [name, account] : policy_.accounts) {
        const auto mine = [&](const Job& j) { return is_within(policy_, j.spec.account, name); };
        if (!within(account.quota, sum(mine, true, more))) return false;
    }
    if (policy_.users.empty()) return true;
    std::set<std::string> users;
    for (const auto& [id, j] : jobs_) users.insert(j.user);
    return std::ranges::all_of(users, [&](const std::string& user) {
        const auto mine = [&](const Job& j) { return j.user == user; };
        return within(spec::policy_of(policy_, user).quota, sum(mine, true, more));
    });
}

// Returns whether the quotas still hold if the job starts with `wanted`, and the jobs in `promised`
// start, too.
bool Auditor::quota_allows(const Job& job, const spec::Resources& wanted,
                           const Some& promised) const {
    Some more = promised;
    more[&job] = wanted;
    if (!quotas_hold(more)) return false;
    if (wanted.gpus_per_node == 0 || wanted.time.count() > 0) return true;
    const bool account = std::ranges::any_of(policy_.accounts, [&](const auto& item) {
        return item.second.quota.gpu_hours && is_within(policy_, job.spec.account, item.first);
    });
    return !account && !spec::policy_of(policy_, job.user).quota.gpu_hours;
}

// Returns whether the nearest account with a quota has room for the job within its own quota.
bool Auditor::owns(const Job& job) const {
    bool limited = false;
    for (std::string at = job.spec.account; !at.empty();) {
        const auto account = policy_.accounts.find(at);
        if (account == policy_.accounts.end()) break;
        const auto mine = [&](const Job& j) { return is_within(policy_, j.spec.account, at); };
        const Sum with = sum(mine, true, {{&job, job.spec.resources}});
        const spec::Quota& quota = account->second.quota;
        const bool over = (quota.slots && with.slots > *quota.slots) ||
                          (quota.gpus && with.gpus > 100 * *quota.gpus);
        if (over) return limited;
        limited = limited || quota.slots || quota.gpus;
        at = account->second.parent;
    }
    return limited;
}

// Returns whether an account of the job uses more than its own quota. Attempts that are stopping do
// not count.
bool Auditor::borrows(const Job& job) const {
    return std::ranges::any_of(policy_.accounts, [&](const auto& item) {
        const spec::Quota& quota = item.second.quota;
        if (!is_within(policy_, job.spec.account, item.first)) return false;
        const auto mine = [&](const Job& j) {
            return is_within(policy_, j.spec.account, item.first);
        };
        const Sum now = sum(mine, false, {});
        return (quota.slots && now.slots > *quota.slots) ||
               (quota.gpus && now.gpus > 100 * *quota.gpus);
    });
}

}  // namespace roll::sim
