// Finds LoRA adapters in a directory.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace roll::convert {

struct AdapterPlace {
    std::string name;  // name of the adapter: its folder's name, or "default" if it is in no folder
    std::filesystem::path directory;
    bool native = false;  // true: Megatron rank files; false: PEFT files
};

// Returns the adapters in `directory` and in its direct subfolders, found by their
// adapter_config.json. Empty if there are none.
std::vector<AdapterPlace> find_adapters(const std::filesystem::path& directory);

}  // namespace roll::convert
