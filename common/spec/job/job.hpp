// A job's specification: the part of a job file that the scheduler uses. `document` is the whole
// file, which the program that runs the job gets unchanged (see common/spec/train/train.hpp).
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/error.hpp"
#include "common/ids.hpp"
#include "common/shared_text.hpp"
#include "common/spec/job/resources.hpp"
#include "common/spec/job/retry.hpp"
#include "common/spec/schema/array.hpp"
#include "common/time.hpp"

namespace roll::spec {

enum class JobKind { Train, Resume, Tokenize, Convert, Merge, Command };

// A dependency on the job `job`. A job starts only when all its dependencies are met:
//
// Ok: `job` succeeded. Failed: `job` ended without success. Any: `job` ended. Exported: `job`
// succeeded, and so did its automatic export if there is one.
struct After {
    enum class Condition { Ok, Any, Failed, Exported };
    static constexpr std::size_t kConditions = 4;
    Condition condition = Condition::Ok;
    JobId job;
    bool array = false;  // `job` is the first task of an array; all tasks must meet the condition
    friend bool operator==(const After&, const After&) = default;
};
constexpr std::size_t kSecretsMax = 32;  // maximum number of secrets per job

struct JobSpec {
    std::string name;
    JobKind kind = JobKind::Command;
    Resources resources;
    std::vector<Resources> variants{};  // alternatives to `resources`, tried in this order
    std::vector<After> after;
    Retry retry;
    int priority = 0;
    bool hold = false;
    std::optional<Time> begin{};     // earliest time at which the job may start
    std::optional<Time> deadline{};  // time at which the job is cancelled if it has not ended
    std::optional<Array> array{};
    // Cron schedule (cron.hpp). At each time of the schedule, a copy of this job is queued
    std::string cron{};
    // Maximum time of a step before the attempt counts as hung; 0: no limit; nullopt: the worker
    // learns a limit from the earlier steps.
    std::optional<std::chrono::seconds> hang_after{};
    std::string account{};  // account to charge; empty: the user's default account
    // Absolute path of the directory to which the job writes. "{id}" in the path becomes the job's
    // id.
    std::string output;
    // This job starts from the newest recorded checkpoint of the job `source_job`. Set for resume
    // jobs and for automatic exports.
    std::optional<JobId> source_job;
    // The document of the convert job that exports the model if this job succeeds; empty: no
    // automatic export.
    std::string export_document;
    // The whole job file as canonical JSON with absolute paths, for the worker and the ranks.
    SharedText document;
    // If true, this is a job group (`rollctl open`). A group runs no program. Jobs can be added to
    // the group until it is closed. The group ends when its last job ends.
    bool open = false;
    std::optional<JobId> into{};  // the job group to which this job belongs
    // Names of the user's secrets to put into the environment of the job's programs
    // (docs/operations.md).
    std::vector<std::string> secrets{};
    // Features (features.hpp) that a worker must have to run this job
    std::vector<std::string> needs{};
    std::vector<JobSpec> then{};  // later jobs of the chain, submitted with this one (chain.hpp)
    friend bool operator==(const JobSpec&, const JobSpec&) = default;

    bool trains() const { return kind == JobKind::Train || kind == JobKind::Resume; }
    // Returns the number of alternative resources. Alternative 0 is `resources`; 1, 2, ... are
    // `variants`.
    int shapes() const { return 1 + static_cast<int>(variants.size()); }
    const Resources& shape(int index) const {
        return index == 0 ? resources : variants.at(static_cast<std::size_t>(index - 1));
    }
    std::chrono::seconds shortest_time() const;  // shortest time limit of all alternative resources
};

const char* name_of(JobKind kind);
const char* name_of(After::Condition condition);  // returns "ok", "any", "failed" or "exported"
std::optional<After::Condition> parse_condition(std::string_view name);
std::optional<JobKind> parse_kind(std::string_view name);

// Encode and decode a spec for the ledger and for messages.
std::string to_json(const JobSpec& spec);
Result<JobSpec> job_spec_from_json(std::string_view json);

}  // namespace roll::spec
