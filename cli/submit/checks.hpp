// Checks of jobs before they are queued, besides those of spec::check_job(). The ranks check the
// same, but only when the job starts, which may be hours later.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <sys/types.h>

#include "common/error.hpp"
#include "common/spec/job/job.hpp"
#include "common/spec/schema/problem.hpp"

namespace roll::cli {

// Fails with Refused at the first job whose output directory the user `uid` cannot create or write
// to. The jobs run as this user.
//
// If a directory, its parent and its grandparent are all missing on this machine, the directory
// counts as writable, because it may be on a file system that only the nodes mount.
Result<void> check_outputs(const std::vector<spec::JobSpec>& specs, uid_t uid);

// Returns a problem for each training or validation file whose first record does not have the
// fields that the objective reads. If the job's tokenizer has no chat template that Roll can read,
// also returns a problem for each file of conversations. Checks the job, and the jobs of its
// `then`. Ignores files and directories that this machine cannot read. Requires that all jobs have
// passed the other checks.
std::vector<spec::Problem> record_problems(const spec::JobSpec& job);

// Returns a problem if the schedule cannot be read, if work is missing or repeated, or if the ranks
// would wait for each other for ever. `document` is the document of a job that check_job()
// accepted. Other jobs have no problem.
std::vector<spec::Problem> schedule_problems(std::string_view document);

// Returns the warnings of spec::idle_warnings() and spec::unsaved_warning() for each training of
// the jobs and of their chains. A job with a time limit of at most an hour has little to lose, so
// it has no warning of unsaved progress.
std::vector<std::string> train_warnings(const std::vector<spec::JobSpec>& jobs);

}  // namespace roll::cli
