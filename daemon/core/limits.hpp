// The policy's quotas and shares, and arrays' limits, over what runs now and what this turn starts.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "daemon/core/state.hpp"

namespace roll::core {

// One limit that a job would pass if it started now.
struct Excess {
    std::string rule;     // array, quota
    std::string why;      // one sentence
    std::string setting;  // "accounts.lab.gpus" of rolld.yaml; empty: a higher one does not help
    // What to do where it would not start though all others ended; empty: they let it in.
    std::string remedy{};
};

class Limits {
  public:
    Limits(const State& state, Time now);

    // What would be passed if this job started with `wanted`, one of its shapes; none: it may.
    std::optional<Excess> excess(const Job& job, const spec::Resources& wanted) const;
    // It starts so; -1: it leaves.
    void add(const Job& job, const spec::Resources& wanted, int sign = 1);

    // Fair share, smaller is earlier: for each level from the top, what the account or user has
    // used of its share. Empty without fair share.
    std::vector<std::int64_t> rank(const Job& job) const;

    // Whether an account of the job has more than is its own, having borrowed it.
    bool borrows(const Job& job) const;
    // Whether an account of the job would, if it started in any shape that the limits allow.
    bool would_borrow(const Job& job) const;
    // Whether the job would stay within what is its own accounts'.
    bool owns(const Job& job) const;

  private:
    struct Sum {
        int slots = 0;
        int gpu_hundredths = 0;
        std::int64_t gpu_ms = 0;
        std::int64_t gpu_ms_spent = 0;  // of these, by attempts that have ended
        std::int64_t used = 0;          // decayed
    };
    void add_to(Sum& sum, const spec::Resources& resources, int sign) const;
    bool is_over(const Job& job, const spec::Resources& wanted, bool started) const;
    std::int64_t score(const Sum& sum, int share) const;

    const State& state_;
    std::map<std::string, Sum> accounts_{};
    std::map<std::string, Sum> users_{};
    std::map<User, Sum> users_of_{};  // of an account
    std::map<JobId, int> arrays_{};
};

// The shapes that the job may start with now: within the limits, and over before its deadline.
std::vector<int> allowed_shapes(const Job& job, const Limits& limits, Time now);

// A submission of `count` jobs by this user would pass a limit on jobs; empty: it does not.
std::optional<Excess> too_many_jobs(const State& state, const User& user, int count);

// The accounts of a job from its own to the topmost.
std::vector<std::string> account_path(const spec::Policy& policy, const std::string& account);

}  // namespace roll::core
