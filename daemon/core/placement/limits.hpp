// Checks the quotas of the policy and the limits of arrays, and computes the sort keys of fair
// share. Counts the running jobs, including the jobs started in this turn.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "daemon/core/state/state.hpp"

namespace roll::core {

// A limit that a job would exceed if it started now.
struct Excess {
    std::string rule;  // kind of limit: "array" or "quota"
    std::string why;   // one sentence about the excess
    // Setting in rolld.yaml, e.g. "accounts.lab.gpus"; empty if raising the setting does not help.
    std::string setting;
    // Change that would let the job start, if the job exceeds the limit even when no other job
    // runs. Empty if the job can start once other jobs have ended.
    std::string remedy{};
};

class Limits {
  public:
    Limits(const State& state, Time now);

    // Returns the limit that the job would exceed if it ran with `wanted`, one of its variants;
    // nullopt if it may start.
    std::optional<Excess> excess(const Job& job, const spec::Resources& wanted) const;
    // Adds the job to the sums as if it ran with `wanted`. If `sign` is -1, removes the job again.
    void add(const Job& job, const spec::Resources& wanted, int sign = 1);

    // Returns the job's sort key for fair share; a smaller key comes first. The key has one number
    // for each account from the topmost to the job's own, then one for the user. Each number is the
    // use of this account or user divided by its share. Empty without fair share.
    std::vector<std::int64_t> rank(const Job& job) const;

    // Returns whether an account of the running job borrows, that is, uses more than its own quota.
    bool borrows(const Job& job) const;
    // Returns whether the job can start now only if it borrows: in each variant that may start now,
    // one of the job's accounts would exceed its own quota. False if no variant may start now.
    bool would_borrow(const Job& job) const;
    // Returns whether the job fits, without borrowing, into the quota of the nearest account that
    // has a quota. Searches the job's account, then its parent, and so on. False if none has a
    // quota.
    bool owns(const Job& job) const;

  private:
    struct Sum {
        int slots = 0;
        int gpu_hundredths = 0;
        std::int64_t gpu_ms = 0;
        std::int64_t gpu_ms_spent = 0;  // part of `gpu_ms` from ended attempts
        std::int64_t used = 0;          // fair-share use, decayed
    };
    void add_to(Sum& sum, const spec::Resources& resources, int sign) const;
    bool is_over(const Job& job, const spec::Resources& wanted, bool started) const;
    std::int64_t score(const Sum& sum, int share) const;

    const State& state_;
    std::map<std::string, Sum> accounts_{};
    std::map<std::string, Sum> users_{};
    std::map<User, Sum> users_of_{};  // sums by account and user
    std::map<JobId, int> arrays_{};
};

// Returns the indices of the variants in which the job may start now: the limits allow the variant,
// and the job can end before its deadline.
std::vector<int> allowed_variants(const Job& job, const Limits& limits, Time now);

// Returns the limit on the number of jobs that would be exceeded if the user had `count` more jobs;
// nullopt if no limit would be exceeded.
std::optional<Excess> too_many_jobs(const State& state, const User& user, int count);

// Returns `account` and its ancestors, the topmost last.
std::vector<std::string> account_path(const spec::Policy& policy, const std::string& account);

}  // namespace roll::core
