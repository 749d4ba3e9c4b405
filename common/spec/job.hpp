// What a user may ask for: the part of a job file that the scheduler acts on. The rest of the file
// travels in `document`, untouched, to the program that runs the job (see spec/train.hpp).
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
#include "common/spec/resources.hpp"
#include "common/spec/retry.hpp"
#include "common/time.hpp"

namespace roll::spec {

enum class JobKind { Train, Resume, Tokenize, Convert, Merge, Command };

// A job starts once each of its `after` holds: Ok = ended well, Failed = ended and not well, Any =
// ended, Exported = ended well and its automatic export, if it has one, too.
struct After {
    enum class Condition { Ok, Any, Failed, Exported };
    static constexpr std::size_t kConditions = 4;
    Condition condition = Condition::Ok;
    JobId job;
    bool array = false;  // `job` is the first of an array, and stands for all of its jobs
    friend bool operator==(const After&, const After&) = default;
};

// One job for each index, as one submission: "{index}" stands for it in `output` and the document.
struct Array {
    std::string indices;  // "0-15", "1,4-9", "0-100:20"
    int limit = 0;        // tasks that run at the same time; 0 is all
    int index = -1;       // of this task; -1 until the tasks are made
    friend bool operator==(const Array&, const Array&) = default;
};
constexpr int kArrayTasksMax = 10'000;
constexpr std::size_t kSecretsMax = 32;  // of a job

// The indices of "1,4-9,0-100:20%4" without its "%4", each once and ascending.
Result<std::vector<int>> array_indices(std::string_view text);
// "0-15%4".
Result<Array> parse_array(std::string_view text);
// Task `index` of an array job: what the array's spec becomes for it.
struct JobSpec;
JobSpec array_task(const JobSpec& array, int index);

struct JobSpec {
    std::string name;
    JobKind kind = JobKind::Command;
    Resources resources;
    std::vector<Resources> variants{};  // that do as well, tried in this order after those
    std::vector<After> after;
    Retry retry;
    int priority = 0;
    bool hold = false;
    std::optional<Time> begin{};     // not started earlier
    std::optional<Time> deadline{};  // ended if it is not over by then
    std::optional<Array> array{};
    std::string
        cron{};  // a job comes of it at each of these times (cron.hpp); it never runs itself
    // The longest that a step may take before the attempt counts as hung; 0: any, none: learned.
    std::optional<std::chrono::seconds> hang_after{};
    std::string account{};  // whose quota and share it uses; empty: the user's default
    // Absolute directory that the job writes to. "{id}" stands for the job's number until it is
    // known.
    std::string output;
    // The job whose newest recorded checkpoint this one starts from: resume, and the automatic
    // export.
    std::optional<JobId> source_job;
    // The automatic export: ends well => a convert job with this document follows (empty: none).
    std::string export_document;
    // The whole job file as canonical JSON, paths made absolute. What the worker and the ranks
    // read.
    std::string document;
    // Runs nothing: other jobs are put into it until it is closed, and it ends with the last of
    // them.
    bool open = false;
    std::optional<JobId> into{};  // the open job that this one belongs to
    // Names of its user's secrets, which its programs find in their environment
    // (docs/operations.md).
    std::vector<std::string> secrets{};
    std::vector<JobSpec> then{};  // queued with it, each after the one before (chain.hpp)
    friend bool operator==(const JobSpec&, const JobSpec&) = default;

    bool trains() const { return kind == JobKind::Train || kind == JobKind::Resume; }
    // 0: `resources`; 1, 2, ...: of `variants`.
    int shapes() const { return 1 + static_cast<int>(variants.size()); }
    const Resources& shape(int index) const {
        return index == 0 ? resources : variants.at(static_cast<std::size_t>(index - 1));
    }
    std::chrono::seconds shortest_time() const;  // of all shapes
};

// One thing wrong with a job file: where ("parallel.tp"), what was found, what is allowed.
struct Problem {
    std::string path;
    std::string message;
};

// Either a job or every problem of its file at once.
struct ParsedJob {
    JobSpec spec;
    std::vector<Problem> problems;
    bool ok() const { return problems.empty(); }
};

// Reads a job document (JSON; the CLI turns YAML into it) against schemas/job.schema.json.
// Relative paths are taken from base_directory, which is absolute.
ParsedJob parse_job(std::string_view json_document, const std::string& base_directory);

// The convert job that follows `parent` when it ends well. Pure: the same job gives the same spec.
JobSpec export_job(const JobSpec& parent, JobId parent_id);

const char* name_of(JobKind kind);
const char* name_of(After::Condition condition);  // "ok", "any", "failed", "exported"
std::optional<After::Condition> parse_condition(std::string_view name);
std::optional<JobKind> parse_kind(std::string_view name);

// The codec of ledger and wire: every field, defaults included.
std::string to_json(const JobSpec& spec);
Result<JobSpec> job_spec_from_json(std::string_view json);

}  // namespace roll::spec
