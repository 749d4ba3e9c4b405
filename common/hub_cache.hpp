// Finds models and data sets of the HuggingFace Hub in HuggingFace's cache, where `hf download` and
// transformers store them. Roll downloads nothing.
#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>

namespace roll {

enum class HubKind { Model, Dataset };

// Returns the directory of the cache: $HF_HUB_CACHE, else $HF_HOME/hub, else
// $XDG_CACHE_HOME/huggingface/hub, else ~/.cache/huggingface/hub.
std::filesystem::path hub_cache();

// Returns the number of parts of a name on the Hub, such as 2 for OWNER/NAME; 0 if the text cannot
// be a name on the Hub.
std::ptrdiff_t hub_name_parts(const std::string& text);

// Returns the directory of a model or data set, such as "HuggingFaceTB/SmolLM2-135M": the snapshot
// of the branch `main`, or the only snapshot. Returns nullopt if the cache has no such snapshot.
std::optional<std::string> cached_snapshot(const std::string& name, HubKind kind);

}  // namespace roll
