// Finds LoRA adapters in a directory.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "common/error.hpp"

namespace roll::convert {

struct AdapterPlace {
    std::string name;  // name of the adapter's folder; "default" if the adapter has no folder
    std::filesystem::path directory;
    bool native = false;  // true: Megatron rank files; false: PEFT files
};

// Returns the adapters in `directory` and in its direct subfolders. An adapter is recognized by its
// adapter_config.json. Returns an empty list if there are no adapters.
std::vector<AdapterPlace> find_adapters(const std::filesystem::path& directory);

// Fails with NotFound if the files with the adapter's matrices are missing.
Result<void> check_matrices(const AdapterPlace& place);

}  // namespace roll::convert
