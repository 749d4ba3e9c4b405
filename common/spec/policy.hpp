// How the scheduler is to share what there is: the file rolld.yaml (docs/scheduling.md).
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/error.hpp"
#include "common/spec/job.hpp"

namespace roll::spec {

// Limits of all that an account or a user runs and queues; none: no limit.
struct Quota {
    std::optional<int> slots{};      // of running jobs, at the same time
    std::optional<int> gpus{};       // the same
    std::optional<int> gpu_hours{};  // in all; a job counts its whole time limit while it runs
    std::optional<int> jobs{};       // queued and running
    int borrow_slots = 0;            // beyond `slots`, as long as nobody else wants them
    int borrow_gpus = 0;
    friend bool operator==(const Quota&, const Quota&) = default;
};

struct Account {
    std::string parent{};              // empty: none
    std::vector<std::string> users{};  // who may use it; it is the default of these
    int share = 1;                     // of its siblings' sum
    Quota quota{};
    friend bool operator==(const Account&, const Account&) = default;
};

struct UserPolicy {
    int share = 1;  // of those in the same account
    Quota quota{};
    friend bool operator==(const UserPolicy&, const UserPolicy&) = default;
};

// When a machine is left out: after so many infra failures, of two jobs at least, in that time.
struct BadNodes {
    int failures = 3;  // 0: never
    std::chrono::seconds within{3600};
    std::chrono::seconds exclude_for{24 * 3600};
    friend bool operator==(const BadNodes&, const BadNodes&) = default;
};

struct Policy {
    bool backfill = true;
    std::chrono::seconds starve_after{48 * 3600};  // then a job goes before all that waited less
    std::chrono::seconds half_life{0};             // of past use in fair share; 0: no fair share
    bool preempt = false;
    std::chrono::seconds min_run{600};  // an attempt is not preempted earlier
    BadNodes bad_nodes{};
    std::map<std::string, Account> accounts{};
    std::map<std::string, UserPolicy> users{};  // "*": who is not named
    friend bool operator==(const Policy&, const Policy&) = default;
};

// Either a policy or every problem of its document at once.
struct ParsedPolicy {
    Policy policy;
    std::vector<Problem> problems;
};

// Reads rolld.yaml's document against schemas/rolld.schema.json.
ParsedPolicy parse_policy(std::string_view json_document);

// The account that a user's jobs belong to if they name none; empty: none.
std::string default_account(const Policy& policy, const std::string& user);
const UserPolicy& policy_of(const Policy& policy, const std::string& user);

// The codec of the ledger: every field.
std::string to_json(const Policy& policy);
Result<Policy> policy_from_json(std::string_view json);

}  // namespace roll::spec
