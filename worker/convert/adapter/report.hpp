// Opens and prints directories of LoRA adapters. Native adapters need their model's config; PEFT
// adapters do not.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "common/error.hpp"
#include "worker/convert/adapter/adapter.hpp"
#include "worker/families/families.hpp"

namespace roll::convert {

struct OpenedAdapter {
    AdapterPlace place;
    formats::Adapter adapter;
};

// Opens all adapters of a directory. `config` is the directory of the model's config. It is needed
// for native adapters whose directory does not contain the config.
Result<std::vector<OpenedAdapter>> open_adapters(const std::filesystem::path& directory,
                                                 const std::filesystem::path& config,
                                                 const families::Families& families);

Json to_json(const std::filesystem::path& directory, const std::vector<OpenedAdapter>& adapters);
std::string to_text(const std::vector<OpenedAdapter>& adapters);

}  // namespace roll::convert
