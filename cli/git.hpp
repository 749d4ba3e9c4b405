// Records, as `git` of the job document, the state of the git work tree from which a job is
// submitted.
#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>

#include "common/json.hpp"
#include "common/spec/job.hpp"

namespace roll::cli {

constexpr std::size_t kDiffBytesMax = 1u << 20;

// Returns {directory, commit, branch, dirty, diff} of the work tree that contains `directory`.
// Returns nullopt outside a work tree, without git, or if git takes longer than 3 s. `diff` is the
// text of `git diff HEAD`. If the text is longer than `diff_max`, the result has the field
// `diff_left_out` instead of `diff`.
std::optional<Json> git_state(const std::filesystem::path& directory, std::size_t diff_max);

// Adds the state of the job's work tree to its document: that of `workdir`, or of `base`, the
// directory of the job file. Keeps a state that the document already has, as that of a resubmitted
// job. Each of the `jobs` that are submitted together, and each task of an array, holds a copy; all
// copies of a diff together have at most 16 MiB.
void add_git(spec::JobSpec& spec, const std::string& base, std::size_t jobs);

// Formats the state in one line: "3f2a9c1 on main, with changes".
std::string git_text(const Json& git);

}  // namespace roll::cli
