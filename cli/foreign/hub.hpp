// Finds models and data sets of the HuggingFace Hub in HuggingFace's cache, where `hf download` and
// transformers store them. Roll downloads nothing.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "common/json.hpp"
#include "common/spec/schema/problem.hpp"

namespace roll::cli {

enum class HubKind { Model, Dataset };

// Returns the directory of the cache: $HF_HUB_CACHE, else $HF_HOME/hub, else
// $XDG_CACHE_HOME/huggingface/hub, else ~/.cache/huggingface/hub.
std::filesystem::path hub_cache();

// Returns the directory of a model or data set, such as "HuggingFaceTB/SmolLM2-135M": the snapshot
// of the branch `main`, or the only snapshot. Returns nullopt if the cache does not have it.
std::optional<std::string> cached_snapshot(const std::string& name, HubKind kind);

// Replaces the Hub's names in a job document, and in the jobs of its `then`, by the directories and
// files that the cache has. Leaves paths that exist as they are; relative paths are relative to
// `base`. Adds a note for each replaced name.
void use_hub_cache(Json& document, const std::string& base, std::vector<std::string>& notes);

// Appends the command that downloads a missing model or data set to the problem's message, if the
// value at the problem's path may be a name of the Hub.
void add_download(spec::Problem& problem, const Json& document, const std::string& base);

}  // namespace roll::cli
