// Checks that all text of a document is UTF-8. Pure.
#pragma once

#include <vector>

#include "common/json.hpp"
#include "common/spec/schema/problem.hpp"

namespace roll::spec {

// Returns a problem for each string that is not UTF-8. The JSON library throws when it writes such
// a string. The bytes are not replaced, because a replacement could change the arguments of a
// program.
std::vector<Problem> not_utf8(const Json& document);

}  // namespace roll::spec
