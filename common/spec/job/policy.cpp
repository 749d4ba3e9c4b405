#include "common/spec/job/policy.hpp"

#include <algorithm>

namespace roll::spec {
namespace {

std::optional<int> number(const Json& json, const char* key) {
    return json.contains(key) ? std::optional(json[key].get<int>()) : std::nullopt;
}

Json put_quota(const Quota& quota) {
    Json json = {{"borrow_slots", quota.borrow_slots}, {"borrow_gpus", quota.borrow_gpus}};
    if (quota.slots) json["slots"] = *quota.slots;
    if (quota.gpus) json["gpus"] = *quota.gpus;
    if (quota.gpu_hours) json["gpu_hours"] = *quota.gpu_hours;
    if (quota.jobs) json["jobs"] = *quota.jobs;
    return json;
}

}  // namespace

std::string default_account(const Policy& policy, const std::string& user) {
    for (const auto& [name, account] : policy.accounts) {
        if (std::ranges::count(account.users, user) > 0) return name;
    }
    return {};
}

const UserPolicy& policy_of(const Policy& policy, const std::string& user) {
    static const UserPolicy kNone;
    const auto named = policy.users.find(user);
    if (named != policy.users.end()) return named->second;
    const auto others = policy.users.find("*");
    return others == policy.users.end() ? kNone : others->second;
}

std::string to_json(const Policy& policy) {
    Json accounts = Json::object();
    for (const auto& [name, account] : policy.accounts) {
        accounts[name] = put_quota(account.quota);
        accounts[name].update(
            {{"parent", account.parent}, {"users", account.users}, {"share", account.share}});
    }
    Json users = Json::object();
    for (const auto& [name, user] : policy.users) {
        users[name] = put_quota(user.quota);
        users[name]["share"] = user.share;
    }
    Json json = {{"backfill", policy.backfill},
                 {"starve_after", policy.starve_after.count()},
                 {"half_life", policy.half_life.count()},
                 {"preempt", policy.preempt},
                 {"min_run", policy.min_run.count()},
                 {"bad_nodes",
                  {policy.bad_nodes.failures, policy.bad_nodes.within.count(),
                   policy.bad_nodes.exclude_for.count()}},
                 {"accounts", accounts},
                 {"users", users}};
    // An older rolld refuses a policy with this field, so the field is written only if it is set.
    if (policy.gang_slurm_variables) json["gang_slurm_variables"] = true;
    return json.dump();
}

Result<Policy> policy_from_json(std::string_view text) {
    ROLL_TRY(const Json json, parse_json(text));
    JsonReader reader(json, "policy");
    Policy policy;
    policy.backfill = reader.get<bool>("backfill");
    policy.starve_after = std::chrono::seconds(reader.get<std::int64_t>("starve_after"));
    policy.half_life = std::chrono::seconds(reader.get<std::int64_t>("half_life"));
    policy.preempt = reader.get<bool>("preempt");
    policy.min_run = std::chrono::seconds(reader.get<std::int64_t>("min_run"));
    // An older version wrote policies without bad_nodes. Such a policy excludes no machine.
    const BadNodes none{.failures = 0};
    const auto bad = reader.get_or<std::vector<std::int64_t>>(
        "bad_nodes", {none.failures, none.within.count(), none.exclude_for.count()});
    if (bad.size() == 3)
        policy.bad_nodes = {static_cast<int>(bad[0]), std::chrono::seconds(bad[1]),
                            std::chrono::seconds(bad[2])};
    policy.gang_slurm_variables = reader.get_or("gang_slurm_variables", false);
    const Json& accounts = reader.raw("accounts");
    const Json& users = reader.raw("users");
    ROLL_TRY_VOID(reader.finish());
    for (const auto& [name, account] : accounts.items())
        policy.accounts[name] = read_account(account);
    for (const auto& [name, user] : users.items())
        policy.users[name] = {user.value("share", 1), read_quota(user)};
    return policy;
}

Quota read_quota(const Json& json) {
    Quota quota{number(json, "slots"), number(json, "gpus"), number(json, "gpu_hours"),
                number(json, "jobs")};
    quota.borrow_slots = json.value("borrow_slots", 0);
    quota.borrow_gpus = json.value("borrow_gpus", 0);
    return quota;
}

Account read_account(const Json& json) {
    Account account;
    account.parent = json.value("parent", "");
    account.users = json.value("users", std::vector<std::string>{});
    account.share = json.value("share", 1);
    account.quota = read_quota(json);
    return account;
}

}  // namespace roll::spec
