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
    std::set<std::pair<Time, JobId>> by_age;  // time since which only capacity is missing
    friend bool operator==(const Line&, const Line&) = default;
};

// Counts of a condition on all jobs of an array.
struct AllOf {
    int left = 0;               // undecided
    int failed = 0;             // can no longer meet it
    Time met{};                 // when the last one met it
    std::set<JobId> waiting{};  // dependents
    friend bool operator==(const AllOf&, const AllOf&) = default;
};

struct Tasks {
    int count = 0;
    std::array<AllOf, spec::After::kConditions> conditions{};
    friend bool operator==(const Tasks&, const Tasks&) = default;
};

// The jobs of an array that this job's phase says something of: itself, and the one whose
// export it is.
std::vector<JobId> tasks_at(const State& state, JobId id);

struct Index {
    std::set<JobId> open;                         // not over
    std::set<JobId> running;                      // have an attempt
    std::map<Group, Line> ready;                  // nothing but room keeps them from starting
    std::set<std::pair<Time, JobId>> sleeping;    // queued and not due: when they will be
    std::set<std::pair<Time, JobId>> deadlines;   // of jobs that are not over: when it must act
    std::set<JobId> doomed;                       // queued and to be cancelled
    std::set<JobId> to_export;                    // ended well, and their export is not queued
    std::map<JobId, std::set<JobId>> dependents;  // of a job that is not over: who waits for it
    std::map<JobId, std::set<JobId>> inside;  // of an open job: those of its jobs that are not over
    std::set<JobId> closed;                   // open jobs that are closed and not over
    std::map<JobId, int> array_running;       // by the array's first job
    std::map<JobId, Tasks> arrays;            // by the same
    std::map<std::string, WorkerId> by_session;     // the workers
    std::map<WorkerId, std::set<JobId>> by_worker;  // whose attempt holds something of it
    friend bool operator==(const Index&, const Index&) = default;
};

// When a queued job may start: its begin time and its back-off are over.
Time due_at(const Job& job);

// Since when a ready job waits for nothing but room: it was submitted, due, put back into the
// queue, and what it waits for had ended.
Time ready_since(const State& state, const Job& job, const Index& index);

// Takes the job out of the index, and puts it where it belongs: around each change of a job.
void unfile(State& state, JobId id);
void file(State& state, JobId id);

// Around each change of what the job's attempt holds: not with each of its members, of which a wide
// gang has many.
void unfile_places(State& state, JobId id);
void file_places(State& state, JobId id);

// The jobs whose attempt holds something of the worker, be it of a member that has ended.
const std::set<JobId>& jobs_on(const State& state, WorkerId worker);
// Whether a member that has not ended is there.
bool is_busy(const State& state, WorkerId worker);

// The index of all jobs, from nothing: what file() must have led to.
Index make_index(const State& state);

}  // namespace roll::core
