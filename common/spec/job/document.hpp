// A job's document: its job file as JSON. The job's programs read the whole document; rolld reads
// some parts. A client may send anything as a document, so every document must be checked.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "common/json.hpp"
#include "common/spec/job/job.hpp"

namespace roll::spec {

// Parses a document. Fails with InvalidArgument unless the document is a JSON object of at most 90
// levels. With this limit, a reply that contains the document has at most the 100 levels that a
// message may have.
Result<Json> read_document(std::string_view text);

// Fails with InvalidArgument unless the document has exactly `count` variants that with_variant()
// (resources.hpp) can read. Never fails if `count` is 0.
Result<void> check_variants(const Json& document, std::size_t count);

}  // namespace roll::spec
