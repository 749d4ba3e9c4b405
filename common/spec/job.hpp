// A job's specification: the part of a job file that the scheduler uses. `document` is the whole
// file, which the program that runs the job gets unchanged (see spec/train.hpp).
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
#include "common/spec/resources.hpp"
#include "common/spec/retry.hpp"
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

// An array submits one job per index at once. `output` and the document may contain "{index}".
struct Array {
    std::string indices;  // text of the indices, such as "0-15", "1,4-9" or "0-100:20"
    int limit = 0;        // maximum number of tasks that run at once; 0: no limit
    int index = -1;       // index of this task; -1 in the spec of the whole array
    friend bool operator==(const Array&, const Array&) = default;
};
constexpr int kArrayTasksMax = 10'000;
constexpr std::size_t kSecretsMax = 32;  // maximum number of secrets per job

// Returns the indices in a text such as "1,4-9,0-100:20", ascending and distinct. The text must not
// contain a limit of running tasks ("%4").
Result<std::vector<int>> array_indices(std::string_view text);
// Parses a text such as "0-15%4" (at most 4 tasks run at once).
Result<Array> parse_array(std::string_view text);
struct JobSpec;
// Returns the spec of the task `index` of `array`: a copy with each "{index}" replaced.
JobSpec array_task(const JobSpec& array, int index);
// Returns the specs of the tasks `indices`. The tasks of a sweep have the documents of the sweep's
// trials (sweep.hpp).
std::vector<JobSpec> array_tasks(const JobSpec& array, const std::vector<int>& indices);

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
    // Cron schedule (cron.hpp); at each of its times, a copy of this job is queued
    std::string cron{};
    // Maximum time of a step before the attempt counts as hung; 0: no limit; nullopt: the worker
    // learns a limit from the earlier steps.
    std::optional<std::chrono::seconds> hang_after{};
    std::string account{};  // account to charge; empty: the user's default account
    // Absolute path of the directory to which the job writes. "{id}" in the path becomes the job's
    // id.
    std::string output;
    // This job starts from the newest recorded checkpoint of the source job. Set for resume jobs
    // and for automatic exports.
    std::optional<JobId> source_job;
    // The document of the convert job that exports the model if this job succeeds; empty: no
    // automatic export.
    std::string export_document;
    // The whole job file as canonical JSON with absolute paths, for the worker and the ranks.
    SharedText document;
    // If true, this is a job group (`rollctl open`). A group runs no program. It takes jobs until
    // it is closed, and ends when its last job ends.
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
    // Returns the number of alternatives. Alternative 0 is `resources`; 1, 2, ... are `variants`.
    int shapes() const { return 1 + static_cast<int>(variants.size()); }
    const Resources& shape(int index) const {
        return index == 0 ? resources : variants.at(static_cast<std::size_t>(index - 1));
    }
    std::chrono::seconds shortest_time() const;  // shortest time limit of all alternatives
};

// The result of parsing a job file: the job, or all problems of the file.
struct ParsedJob {
    JobSpec spec;
    std::vector<Problem> problems;
    bool ok() const { return problems.empty(); }
};

// Parses a job document (JSON; the CLI converts YAML) and checks it against
// schemas/job.schema.json. Relative paths are relative to `base_directory`, which must be absolute.
ParsedJob parse_job(std::string_view json_document, const std::string& base_directory);

const char* name_of(JobKind kind);
const char* name_of(After::Condition condition);  // returns "ok", "any", "failed" or "exported"
std::optional<After::Condition> parse_condition(std::string_view name);
std::optional<JobKind> parse_kind(std::string_view name);

// Encode and decode a spec for the ledger and for messages.
std::string to_json(const JobSpec& spec);
Result<JobSpec> job_spec_from_json(std::string_view json);

}  // namespace roll::spec
