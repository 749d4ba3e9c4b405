// Indexes that the rules iterate instead of all jobs, maintained by apply(). So a turn's cost
// depends on the open and changed jobs, not on all of State.
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
#include "common/spec/job.hpp"
#include "common/spec/resources.hpp"
#include "common/time.hpp"

namespace roll::core {

struct Job;
struct State;

// Queued jobs that are equal for placement: if the first of a group does not fit, none does.
struct Group {
    spec::Resources resources{};
    std::vector<spec::Resources> variants{};
    JobId array{};  // first job of its array; 0: none
    std::string account{};
    std::string user{};
    friend auto operator<=>(const Group&, const Group&) = default;
};

// Sort key: higher priority first, then the older job.
struct Turn {
    int priority = 0;
    JobId job;
    friend bool operator==(const Turn&, const Turn&) = default;
    friend auto operator<=>(const Turn& a, const Turn& b) {
        return std::pair(-std::int64_t{a.priority}, a.job) <=>
               std::pair(-std::int64_t{b.priority}, b.job);
    }
};

// The ready jobs of a group in both orders in which placement visits them.
struct Line {
    std::set<Turn> by_turn;
    std::set<std::pair<Time, JobId>> by_age;  // by time since which only capacity is missing
    friend bool operator==(const Line&, const Line&) = default;
};

// The state of a condition on all jobs of an array.
struct AllOf {
    int left = 0;               // number of jobs that have not decided it yet
    int failed = 0;             // number of jobs that can no longer meet it
    Time met{};                 // when the last job met it
    std::set<JobId> waiting{};  // jobs that depend on it
    friend bool operator==(const AllOf&, const AllOf&) = default;
};

struct Tasks {
    int count = 0;
    std::array<AllOf, spec::After::kConditions> conditions{};
    friend bool operator==(const Tasks&, const Tasks&) = default;
};

// Returns the jobs of an array whose counts depend on this job: itself, and the job that it
// exports.
std::vector<JobId> tasks_at(const State& state, JobId id);

struct Index {
    std::set<JobId> open;                        // jobs that have not ended
    std::set<JobId> running;                     // jobs that have an attempt
    std::map<Group, Line> ready;                 // jobs for which only capacity is missing
    std::set<std::pair<Time, JobId>> sleeping;   // jobs that are queued and not due, by due time
    std::set<std::pair<Time, JobId>> deadlines;  // jobs that have not ended, by next action time
    std::set<JobId> doomed;                      // queued jobs that are to be cancelled
    // Jobs that ended well and whose export is not queued yet.
    std::set<JobId> to_export;
    // Job that has not ended -> the jobs that wait for it.
    std::map<JobId, std::set<JobId>> dependents;
    std::map<JobId, std::set<JobId>> inside;     // open group -> its jobs that have not ended
    std::set<JobId> closed;                      // closed groups that have not ended
    std::map<JobId, int> array_running;          // number of running jobs, by the array's first job
    std::map<JobId, Tasks> arrays;               // by the array's first job
    std::map<std::string, WorkerId> by_session;  // all workers
    // Worker -> the jobs whose attempt holds resources of it.
    std::map<WorkerId, std::set<JobId>> by_worker;
    friend bool operator==(const Index&, const Index&) = default;
};

// Returns when a queued job may start: the later of its begin time and the end of its back-off.
Time due_at(const Job& job);

// Returns the time since which a ready job only lacks capacity: the latest of its submission, due
// time, requeueing and the end of its dependencies.
Time ready_since(const State& state, const Job& job, const Index& index);

// Remove a job from the index before a change of the job, and add it again afterwards.
void unfile(State& state, JobId id);
void file(State& state, JobId id);

// Remove and add the places of the job's attempt, around a change of the places that it holds. Not
// needed for changes of single members, which are many in a wide gang.
void unfile_places(State& state, JobId id);
void file_places(State& state, JobId id);

// Returns the jobs whose attempt holds resources of the worker, even for a member that has ended.
const std::set<JobId>& jobs_on(const State& state, WorkerId worker);
// True if a member that has not ended is on the worker.
bool is_busy(const State& state, WorkerId worker);

// Builds the index of all jobs from scratch. file() must always lead to the same index.
Index make_index(const State& state);

}  // namespace roll::core
