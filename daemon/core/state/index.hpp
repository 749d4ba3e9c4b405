// Indexes over State, maintained by apply() (indexing.hpp). The rules look up jobs in the indexes
// instead of visiting all jobs. The cost of a turn therefore depends on the number of open and
// changed jobs, not on the size of State.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "common/ids.hpp"
#include "common/spec/job/job.hpp"
#include "common/spec/job/resources.hpp"
#include "common/time.hpp"

namespace roll::core {

// Key of queued jobs that are equal for placement: if one job of a group does not fit, no job of
// the group fits.
struct Group {
    spec::Resources resources{};
    std::vector<spec::Resources> variants{};
    JobId array{};  // first job of the array that contains all jobs of the group; 0: no array
    std::string account{};
    std::string user{};
    friend auto operator<=>(const Group&, const Group&) = default;
};

// Sort key of ready jobs: higher priority first, then the older job.
struct QueueKey {
    int priority = 0;
    JobId job;
    friend bool operator==(const QueueKey&, const QueueKey&) = default;
    friend auto operator<=>(const QueueKey& a, const QueueKey& b) {
        return std::pair(-std::int64_t{a.priority}, a.job) <=>
               std::pair(-std::int64_t{b.priority}, b.job);
    }
};

// The ready jobs of one group, in the two orders in which placement visits them.
struct ReadyJobs {
    std::set<QueueKey> by_priority;
    // the same jobs by the time of ready_since(): the job that has been ready for the longest time
    // first
    std::set<std::pair<Time, JobId>> by_age;
    friend bool operator==(const ReadyJobs&, const ReadyJobs&) = default;
};

// How far the jobs of an array meet the condition of a dependency on the array.
struct AllOf {
    int left = 0;    // number of jobs that must still end before the condition is decided
    int failed = 0;  // number of jobs that can no longer meet the condition
    Time met{};      // latest time at which a job met the condition
    std::set<JobId> waiting{};  // jobs that depend on this condition
    friend bool operator==(const AllOf&, const AllOf&) = default;
};

struct Tasks {
    int count = 0;
    std::array<AllOf, spec::After::kConditions> conditions{};
    friend bool operator==(const Tasks&, const Tasks&) = default;
};

struct Index {
    std::set<JobId> open;                       // jobs that have not ended
    std::set<JobId> running;                    // jobs that have an attempt
    std::map<Group, ReadyJobs> ready;           // jobs that wait only for capacity
    std::set<std::pair<Time, JobId>> sleeping;  // jobs that are queued and not due, by due time
    // Jobs that have not ended, by the time of their deadline.
    std::set<std::pair<Time, JobId>> deadlines;
    // queued jobs that were cancelled, or that have a dependency that can no longer be met
    std::set<JobId> doomed;
    // Jobs that ended well and whose export is not queued yet.
    std::set<JobId> to_export;
    // maps a job that has not ended to the jobs that wait for it
    std::map<JobId, std::set<JobId>> dependents;
    // Maps an open group to its jobs that have not ended.
    std::map<JobId, std::set<JobId>> inside;
    std::set<JobId> closed;              // closed groups that have not ended
    std::map<JobId, int> array_running;  // number of running jobs, by the array's first job
    // counts of an array's tasks, by the array's first job
    std::map<JobId, Tasks> arrays;
    std::map<std::string, WorkerId> by_session;  // all workers, by session
    // Maps a worker to the jobs whose attempt holds resources of the worker.
    std::map<WorkerId, std::set<JobId>> by_worker;
    friend bool operator==(const Index&, const Index&) = default;
};

}  // namespace roll::core
