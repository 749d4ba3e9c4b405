// The scheduling policy: the file rolld.yaml (docs/scheduling.md).
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/error.hpp"
#include "common/json.hpp"

namespace roll::spec {

// Limits of the jobs of an account or a user; nullopt: no limit.
struct Quota {
    std::optional<int> slots{};  // maximum number of slots of running jobs
    std::optional<int> gpus{};   // maximum number of GPUs of running jobs
    // maximum number of GPU-hours in total; a running job counts with its full time limit
    std::optional<int> gpu_hours{};
    std::optional<int> jobs{};  // maximum number of queued and running jobs
    // slots beyond `slots` that may be used while no other account needs these slots
    int borrow_slots = 0;
    // GPUs beyond `gpus` that may be used while no other account needs these GPUs
    int borrow_gpus = 0;
    friend bool operator==(const Quota&, const Quota&) = default;
};

struct Account {
    std::string parent{};  // parent account; empty if there is none
    // Users who may charge this account. By default, a user's jobs are charged to the first
    // account, by name, that lists the user.
    std::vector<std::string> users{};
    int share = 1;  // weight in fair share among the accounts with the same parent
    Quota quota{};
    friend bool operator==(const Account&, const Account&) = default;
};

struct UserPolicy {
    int share = 1;  // weight in fair share among the users of an account
    Quota quota{};
    friend bool operator==(const UserPolicy&, const UserPolicy&) = default;
};

// Excludes a machine for the time `exclude_for` after `failures` infra failures (retry.hpp) within
// the time `within`. The failures must come from at least two different jobs.
struct BadNodes {
    int failures = 3;  // number of infra failures; 0: machines are never excluded
    std::chrono::seconds within{3600};
    std::chrono::seconds exclude_for{24 * 3600};
    friend bool operator==(const BadNodes&, const BadNodes&) = default;
};

struct Policy {
    bool backfill = true;
    // a job that has waited for this time goes to the front of the queue
    std::chrono::seconds starve_after{48 * 3600};
    std::chrono::seconds half_life{0};  // half-life of past use in fair share; 0: no decay
    bool preempt = false;
    // Minimum time for which an attempt runs before it may be preempted.
    std::chrono::seconds min_run{600};
    BadNodes bad_nodes{};
    bool gang_slurm_variables = false;  // processes of gangs get Slurm's variables
    std::map<std::string, Account> accounts{};
    std::map<std::string, UserPolicy> users{};  // policy by user name; "*" is for all other users
    friend bool operator==(const Policy&, const Policy&) = default;
};

// Reads a quota in rolld.yaml, or in a policy in the ledger.
Quota read_quota(const Json& json);

// Reads an account in rolld.yaml, or in a policy in the ledger.
Account read_account(const Json& json);

// Returns the account to charge for a user's job that names no account; empty if there is none.
std::string default_account(const Policy& policy, const std::string& user);
// Returns the policy of the user: the entry with that name, else the entry "*", else the default.
const UserPolicy& policy_of(const Policy& policy, const std::string& user);

// Encode and decode a policy for the ledger. The JSON has all fields.
std::string to_json(const Policy& policy);
Result<Policy> policy_from_json(std::string_view json);

}  // namespace roll::spec
