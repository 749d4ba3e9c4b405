// Converts a checkpoint directory to another format, layout or data type. Tensors are streamed:
// each thread holds only a window of rows in memory. The target appears completely or not at all.
#pragma once

#include <string>

#include "common/error.hpp"
#include "common/json.hpp"
#include "worker/convert/request.hpp"

namespace roll::convert {

// Runs a whole conversion. Fails with Unavailable if a hook stopped the conversion, or if another
// process of the conversion ended before the target was complete.
Result<Report> convert(const Request& request, const families::Families& families,
                       const Hooks& hooks);

// Returns a line with the names of the tensors that an mca target stores in kKeptFile. Megatron
// does not read this file. Returns an empty string if there are no such tensors.
std::string sentence_on_kept(const Report& report);

Json to_json(const Error& error);
Json to_json(const Report& report);

}  // namespace roll::convert
