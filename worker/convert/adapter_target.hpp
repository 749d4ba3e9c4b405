// Converts adapters: PEFT's into native ones of any layout, and back.
#pragma once

#include <filesystem>

#include "common/error.hpp"
#include "worker/convert/convert.hpp"

namespace roll::convert {

// As convert(), of the adapters in request.adapter_source, or in request.source.
Result<Report> convert_adapters(const Request& request, const families::Families& families,
                                const Hooks& hooks);

// The model that the adapters belong to, its config and tensors' names alone: of `base_directory`,
// else of `config`, else of what lies beside the adapters or is named by them.
Result<Source> open_base(const std::filesystem::path& base_directory,
                         const std::filesystem::path& config, const std::filesystem::path& adapters,
                         const families::Families& families);

}  // namespace roll::convert
