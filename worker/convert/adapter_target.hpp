// Converts PEFT adapters to native adapters of any layout, and native adapters to PEFT adapters.
#pragma once

#include <filesystem>

#include "common/error.hpp"
#include "worker/convert/convert.hpp"

namespace roll::convert {

// Converts the adapters in request.adapter_source or, if that is empty, in request.source. Works
// like convert() in all other respects.
Result<Report> convert_adapters(const Request& request, const families::Families& families,
                                const Hooks& hooks);

// Opens the config and the tensor names of the adapters' base model, without its tensors. Looks in
// `base_directory` if it is given, else in `config` if it is given, else beside the adapters and in
// the directory that the adapters name.
Result<Source> open_base(const std::filesystem::path& base_directory,
                         const std::filesystem::path& config, const std::filesystem::path& adapters,
                         const families::Families& families);

}  // namespace roll::convert
