// A job's document: its job file as JSON. The programs that run the job read it; rolld looks into
// it here and there, and a peer can send anything in its place.
#pragma once

#include <string_view>
#include <vector>

#include "common/json.hpp"
#include "common/spec/job.hpp"

namespace roll::spec {

// Error InvalidArgument: it is no JSON object, or nests deeper than 90 levels (a reply that holds
// it must not pass the 100 of a message).
Result<Json> read_document(std::string_view text);

// Whether with_variant() (resources.hpp) finds so many variants there; any document has none.
bool has_variants(const Json& document, std::size_t count);

// A start order holds the document as a JSON string, at most twice as long, and fits into a
// message.
constexpr std::size_t kDocumentBytesMax = 4u << 20;
constexpr std::size_t kArgumentBytesMax =
    (128u << 10) - 1;  // execve's MAX_ARG_STRLEN, less its zero
constexpr std::size_t kArgumentsBytesMax = 3u
                                           << 19;  // of execve's 2 MiB; the worker's own are left

// Returns the fields that are too large for a start order, or that execve would refuse as arguments
// and variables of a program, and a program without a name. Reads the document, copies nothing.
std::vector<Problem> undeliverable(const Json& document);

// That the documents of a submission can be read, and have the shape on which rolld relies. What
// else a job file must be was checked by who wrote it.
Result<void> check_documents(const JobSpec& spec);

}  // namespace roll::spec
