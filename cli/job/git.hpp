// Records the state of the git work tree from which a job is submitted, in the key `git` of the job
// document.
#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>

#include "common/json.hpp"
#include "common/spec/job/job.hpp"

namespace roll::cli {

constexpr std::size_t kDiffBytesMax = 1u << 20;

// Returns {directory, commit, branch, dirty, diff} of the work tree that contains `directory`.
// Returns nullopt outside a work tree, without git, or if git takes longer than 3 s. `diff` is the
// text of `git diff HEAD`. If the text is longer than `diff_max`, the result has the field
// `diff_left_out` instead of `diff`.
std::optional<Json> git_state(const std::filesystem::path& directory, std::size_t diff_max);

// Adds the state of the job's git work tree to the job's document. This is the work tree that
// contains `workdir`. If the job has no `workdir`, it is the work tree that contains `base`, the
// directory of the job file. If the document already has a state, for example that of a resubmitted
// job, keeps this state. `jobs` is the number of jobs that are submitted together. Each job and
// each task of an array holds a copy of the diff, and all copies together have at most 16 MiB.
void add_git(spec::JobSpec& spec, const std::string& base, std::size_t jobs);

// Formats the state in one line: "3f2a9c1 on main, with changes".
std::string git_text(const Json& git);

}  // namespace roll::cli
