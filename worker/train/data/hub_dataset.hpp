// Finds the files of a data set of the HuggingFace Hub in HuggingFace's cache, as the Python
// package datasets does: by the `configs` of the data set's card, otherwise by the names of the
// files.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "common/error.hpp"

namespace roll::train {

// Returns the .parquet, .jsonl or .json files of a split, sorted by path. `config` is the name of a
// configuration; empty: the default one. Fails with NotFound if the cache lacks the data set, or
// the data set has no such files; fails with InvalidArgument if the configuration is missing or
// unknown. The message says what to do, and begins with the name of the key that is wrong.
Result<std::vector<std::filesystem::path>> hub_split(const std::string& name,
                                                     const std::string& config,
                                                     const std::string& split);

}  // namespace roll::train
