// Opens a checkpoint of any format.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "common/error.hpp"
#include "worker/convert/checkpoint/source.hpp"

namespace roll::convert {

// Detects the format from the files of the directory. Fails with NotFound if the format is unknown.
Result<Format> detect_format(const std::filesystem::path& directory);

struct OpenOptions {
    // a config.json or its directory, for a checkpoint that contains no config
    std::filesystem::path config = {};
    Strictness strictness = Strictness::RaiseAll;
    std::string state = {};  // name of the optimizer state to read instead of the weights
    // true: accept a HuggingFace directory that has a config.json but no weights
    bool config_suffices = false;
};

// The input of a conversion.
struct Input : OpenOptions {
    std::filesystem::path source;
    std::vector<std::filesystem::path> adapters = {};  // adapters to merge into the weights
    bool unmerge = false;  // true: subtract `adapters` from the weights instead
    // adapter to convert; empty: none; if it is set, `source` is its base model
    std::filesystem::path adapter_source = {};
};

// Opens a checkpoint and maps all its files. Fails with Corrupt or InvalidArgument if a tensor is
// missing, has another shape than the config says, or is not named by any rule. The message names
// the tensor and the file.
Result<Source> open_source(const std::filesystem::path& directory,
                           const families::Families& families, const OpenOptions& options = {});

}  // namespace roll::convert
