// A job's document: its job file as JSON. The job's programs read the whole document; rolld reads
// some parts. A client may send anything as a document, so every document must be checked.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "common/json.hpp"
#include "common/spec/job.hpp"

namespace roll::spec {

// Parses a document. Fails with InvalidArgument unless the document is a JSON object of at most 90
// levels. With this limit, a reply that contains the document has at most the 100 levels that a
// message may have.
Result<Json> read_document(std::string_view text);

// Returns whether the document has exactly `count` variants that with_variant() (resources.hpp) can
// read. Always true if `count` is 0.
bool has_variants(const Json& document, std::size_t count);

// Maximum size of a document. A start order contains the document as a JSON string, whose escapes
// may double its length, and the order must fit into a message.
constexpr std::size_t kDocumentBytesMax = 4u << 20;
// Maximum length of one argument of a program: execve's MAX_ARG_STRLEN without the final zero.
constexpr std::size_t kArgumentBytesMax = (128u << 10) - 1;
// Maximum size of a program's arguments and environment. execve allows 2 MiB; the difference is
// left for the variables that the worker adds.
constexpr std::size_t kArgumentsBytesMax = 3u << 19;

// Returns the problem "document too large". `total` is the document's size in bytes. `path` and
// `bytes` are the place and the size of its largest value.
Problem too_large(const std::string& path, std::size_t bytes, std::size_t total);

// Returns a problem for each field that is too large for a start order or for execve, and for a
// command without a program. Does not copy the document.
std::vector<Problem> undeliverable(const Json& document);

// Checks that the documents of a submission can be parsed and have the structure that rolld needs.
// The client has checked everything else.
Result<void> check_documents(const JobSpec& spec);

}  // namespace roll::spec
