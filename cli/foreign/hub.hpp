// Replaces names of the HuggingFace Hub in job files by paths in HuggingFace's cache.
#pragma once

#include <string>
#include <vector>

#include "common/error.hpp"
#include "common/hub_cache.hpp"
#include "common/json.hpp"
#include "common/spec/schema/problem.hpp"

namespace roll::cli {

// Replaces the Hub's names in a job document, and in the jobs of its `then`, by the directories and
// files that the cache has. Does not change paths that exist. Relative paths are relative to
// `base`. Adds a note for each replaced name. Fails as hub_files() does.
Result<void> use_hub_cache(Json& document, const std::string& base,
                           std::vector<std::string>& notes);

// Returns the files that a job reads if its data.train names this data set of the Hub. `name` is
// OWNER/NAME, OWNER/NAME:CONFIGURATION or OWNER/NAME/FILE. Returns an empty list if the cache does
// not have the files. Fails if the data set has several configurations but `name` chooses no
// configuration, or if the configuration has no training files.
Result<std::vector<std::string>> hub_files(const std::string& name);

// If the text has the form OWNER/NAME:CONFIGURATION, returns OWNER/NAME. Returns any other text
// unchanged.
std::string without_configuration(const std::string& name);

// Returns the command that downloads the model or data set; empty if `name` cannot be a name of the
// Hub, or if `name` is more likely a path relative to `base`.
std::string download_of(const std::string& name, const std::string& base, HubKind kind);

// If the value at the problem's path may be a name of the Hub, appends a command to the problem's
// message. The command downloads the missing model or data set.
void add_download(spec::Problem& problem, const Json& document, const std::string& base);

}  // namespace roll::cli
