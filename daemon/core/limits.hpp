// Quotas and fair shares of the policy, and arrays' limits, applied to running jobs and those
// started in this turn.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "daemon/core/state.hpp"

namespace roll::core {

// A limit that a job would exceed if it started now.
struct Excess {
    std::string rule;     // "array" or "quota"
    std::string why;      // one sentence
    std::string setting;  // "accounts.lab.gpus" in rolld.yaml; empty if raising it does not help
    // What to change if the job exceeds the limit even with nothing else running; empty if the end
    // of other jobs suffices.
    std::string remedy{};
};

class Limits {
  public:
    Limits(const State& state, Time now);

    // Returns the limit that this job would exceed with `wanted`, one of its variants; nullopt if
    // it may start.
    std::optional<Excess> excess(const Job& job, const spec::Resources& wanted) const;
    // Counts the job with `wanted`; `sign` = -1 removes it.
    void add(const Job& job, const spec::Resources& wanted, int sign = 1);

    // Returns the job's fair-share key, smaller first: per level from the top, use of the account
    // or user divided by its share. Empty without fair share.
    std::vector<std::int64_t> rank(const Job& job) const;

    // Returns whether an account of the job borrows, that is, uses more than its own quota.
    bool borrows(const Job& job) const;
    // Returns whether an account of the job would borrow if the job started in any allowed variant.
    bool would_borrow(const Job& job) const;
    // Returns whether the job would stay within its accounts' own quotas.
    bool owns(const Job& job) const;

  private:
    struct Sum {
        int slots = 0;
        int gpu_hundredths = 0;
        std::int64_t gpu_ms = 0;
        std::int64_t gpu_ms_spent = 0;  // part of `gpu_ms` by ended attempts
        std::int64_t used = 0;          // decayed use
    };
    void add_to(Sum& sum, const spec::Resources& resources, int sign) const;
    bool is_over(const Job& job, const spec::Resources& wanted, bool started) const;
    std::int64_t score(const Sum& sum, int share) const;

    const State& state_;
    std::map<std::string, Sum> accounts_{};
    std::map<std::string, Sum> users_{};
    std::map<User, Sum> users_of_{};  // sums of users, per account
    std::map<JobId, int> arrays_{};
};

// Returns the variants that the job may start with now: within the limits and finished before its
// deadline.
std::vector<int> allowed_shapes(const Job& job, const Limits& limits, Time now);

// Returns the limit on jobs that a submission of `count` jobs by this user would exceed; nullopt
// if none.
std::optional<Excess> too_many_jobs(const State& state, const User& user, int count);

// Returns a job's account and its ancestors, up to the topmost.
std::vector<std::string> account_path(const spec::Policy& policy, const std::string& account);

}  // namespace roll::core
