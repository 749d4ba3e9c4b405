// Checks that a job's document fits into a start order, and that the strings of the document fit
// into execve.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "common/json.hpp"
#include "common/spec/schema/problem.hpp"

namespace roll::spec {

// Maximum size of a document. A start order contains the document as a JSON string, and must fit
// into a message. The escapes in the string may double the document's length.
constexpr std::size_t kDocumentBytesMax = 4u << 20;

// Maximum length of one argument of a program: execve's MAX_ARG_STRLEN without the final zero.
constexpr std::size_t kArgumentBytesMax = (128u << 10) - 1;

// Maximum size of a program's arguments and environment. execve allows 2 MiB. The difference is
// left for the variables that the worker adds.
constexpr std::size_t kArgumentsBytesMax = 3u << 19;

// Returns the problem "document too large". `total` is the document's size in bytes. `path` and
// `bytes` are the place and the size of its largest value.
Problem too_large(const std::string& path, std::size_t bytes, std::size_t total);

// Returns a problem for each field that is too large for a start order or for execve, and for a
// command without a program. Does not copy the document.
std::vector<Problem> undeliverable(const Json& document);

}  // namespace roll::spec
