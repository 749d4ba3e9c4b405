// What directories of LoRA adapters hold, read whole: PEFT's by themselves, native ones with the
// config of their model.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "common/error.hpp"
#include "worker/convert/adapter.hpp"
#include "worker/families/families.hpp"

namespace roll::convert {

struct OpenedAdapter {
    AdapterPlace place;
    formats::Adapter adapter;
};

// `config`: where the model's config is, if not beside native adapters.
Result<std::vector<OpenedAdapter>> open_adapters(const std::filesystem::path& directory,
                                                 const std::filesystem::path& config,
                                                 const families::Families& families);

Json to_json(const std::filesystem::path& directory, const std::vector<OpenedAdapter>& adapters);
std::string to_text(const std::vector<OpenedAdapter>& adapters);

}  // namespace roll::convert
