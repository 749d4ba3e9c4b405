// Opens and prints directories of LoRA adapters. PEFT adapters need no config; native adapters need
// their model's config.
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

// Opens all adapters of a directory. `config` is the directory of the model's config, needed if the
// config is not beside native adapters.
Result<std::vector<OpenedAdapter>> open_adapters(const std::filesystem::path& directory,
                                                 const std::filesystem::path& config,
                                                 const families::Families& families);

Json to_json(const std::filesystem::path& directory, const std::vector<OpenedAdapter>& adapters);
std::string to_text(const std::vector<OpenedAdapter>& adapters);

}  // namespace roll::convert
