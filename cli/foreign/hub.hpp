// Replaces names of the HuggingFace Hub in job files by what HuggingFace's cache has.
#pragma once

#include <string>
#include <vector>

#include "common/json.hpp"
#include "common/spec/schema/problem.hpp"

namespace roll::cli {

// Replaces the Hub's names in a job document, and in the jobs of its `then`, by the directories and
// files that the cache has. Leaves paths that exist as they are; relative paths are relative to
// `base`. Adds a note for each replaced name.
void use_hub_cache(Json& document, const std::string& base, std::vector<std::string>& notes);

// Appends the command that downloads a missing model or data set to the problem's message, if the
// value at the problem's path may be a name of the Hub.
void add_download(spec::Problem& problem, const Json& document, const std::string& base);

}  // namespace roll::cli
