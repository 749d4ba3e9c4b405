// Converts adapters: PEFT's into native ones of any layout, and back.
#pragma once

#include "common/error.hpp"
#include "worker/convert/convert.hpp"

namespace roll::convert {

// As convert(), of the adapters in request.adapter_source, or in request.source.
Result<Report> convert_adapters(const Request& request, const families::Families& families,
                                const Hooks& hooks);

}  // namespace roll::convert
