// Before a training job is queued, checks that its conversations have a chat template. The ranks
// make the same check when they read the data, which may be hours later.
#pragma once

#include <string_view>
#include <vector>

#include "common/spec/schema/problem.hpp"

namespace roll::cli {

// Returns a problem for each training file that has conversations, if the directory of the job's
// tokenizer has no chat template or one that Roll cannot read. The first record of a file decides.
// Ignores files and directories that this machine cannot read. `document` is a train or tokenize
// job that the schema's check has accepted.
std::vector<spec::Problem> template_problems(std::string_view document);

}  // namespace roll::cli
