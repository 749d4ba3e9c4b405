// A job's document: its job file as JSON. The job's programs read the whole document; rolld reads
// some parts. A client may send anything as a document, so every document must be checked.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "common/json.hpp"
#include "common/spec/job/job.hpp"

namespace roll::spec {

// Parses a document. Fails with InvalidArgument if the document is not a JSON object, or has more
// than 90 levels. A message may have 100 levels, so a reply that contains the document then fits.
Result<Json> read_document(std::string_view text);

// Fails with InvalidArgument if the document does not have exactly `count` variants, or if
// with_variant() (resources.hpp) cannot read one of them. Never fails if `count` is 0.
Result<void> check_variants(const Json& document, std::size_t count);

}  // namespace roll::spec
