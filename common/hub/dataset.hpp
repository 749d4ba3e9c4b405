// Finds the files of a data set of the HuggingFace Hub in HuggingFace's cache, as the Python
// package datasets does: by the `configs` of the data set's card, otherwise by the names of the
// files.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "common/error.hpp"

namespace roll::hub {

// Names of the keys with which a user names a data set and its configuration, for messages.
struct Keys {
    const char* name = "dataset_path";
    const char* config = "dataset_name";
    // End of the message about a missing split. It says in which key to name a file that the user
    // has written with the package datasets.
    const char* file = "name it in dataset_kwargs.data_files";
};

// Returns the names of the configurations on the data set's card; an empty list if the card has
// none or the cache lacks the data set.
std::vector<std::string> configurations(const std::string& name);

// Returns the .parquet, .jsonl or .json files of a split, sorted by path. `config` is the name of a
// configuration; empty: the default configuration. Fails with NotFound if the cache lacks the data
// set, or if the data set has no such files. Fails with InvalidArgument if the configuration is
// missing or unknown. The error message says what to do, and begins with the name of the wrong key.
Result<std::vector<std::filesystem::path>> split_files(const std::string& name,
                                                       const std::string& config,
                                                       const std::string& split,
                                                       const Keys& keys = {});

}  // namespace roll::hub
