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
// files that the cache has. Leaves paths that exist as they are; relative paths are relative to
// `base`. Adds a note for each replaced name. Fails as hub_files() does.
Result<void> use_hub_cache(Json& document, const std::string& base,
                           std::vector<std::string>& notes);

// Returns the files that a job reads if its data.train names this data set of the Hub. `name` is
// OWNER/NAME, OWNER/NAME:CONFIGURATION or OWNER/NAME/FILE. Returns an empty list if the cache does
// not have the files. Fails if the data set has several configurations and `name` chooses none of
// them, or if the configuration has no training files.
Result<std::vector<std::string>> hub_files(const std::string& name);

// Returns OWNER/NAME of the text OWNER/NAME:CONFIGURATION. Returns any other text as it is.
std::string without_configuration(const std::string& name);

// Returns the command that downloads the model or data set; empty if `name` cannot be a name of the
// Hub, or if it is more likely a path relative to `base`.
std::string download_of(const std::string& name, const std::string& base, HubKind kind);

// Appends to the problem's message the command that downloads a missing model or data set. The
// command is taken from a comment in the job file's text, or made from the value at the problem's
// path. Does nothing if there is no such comment, and the value cannot be a name of the Hub.
void add_download(spec::Problem& problem, const Json& document, const std::string& base,
                  const std::string& text);

}  // namespace roll::cli
