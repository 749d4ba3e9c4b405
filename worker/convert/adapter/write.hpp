// Converts PEFT adapters to native adapters of any layout, and native adapters to PEFT adapters.
#pragma once

#include "common/error.hpp"
#include "worker/convert/read/open.hpp"
#include "worker/convert/write/output.hpp"

namespace roll::convert {

// Converts the adapters in input.adapter_source or, if that path is empty, in input.source. In all
// other respects, works like convert().
Result<Report> convert_adapters(const Input& input, const Output& output, const Run& run,
                                const families::Families& families, const Hooks& hooks);

}  // namespace roll::convert
