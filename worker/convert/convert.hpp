// Converts a checkpoint directory into another format, layout or data type. Tensors are streamed:
// only a window of rows is in memory at a time. The target appears complete or not at all.
#pragma once

#include <string>

#include "common/error.hpp"
#include "common/json.hpp"
#include "worker/convert/request.hpp"

namespace roll::convert {

// Runs a whole conversion. Fails with Unavailable if a hook stopped it or if another process of the
// conversion ended without a target.
Result<Report> convert(const Request& request, const families::Families& families,
                       const Hooks& hooks);

// Returns a line that names the tensors that an mca target keeps in a file that Megatron does not
// read; empty if there are none.
std::string sentence_on_kept(const Report& report);

Json to_json(const Error& error);
Json to_json(const Report& report);

}  // namespace roll::convert
