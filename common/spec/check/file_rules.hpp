// Checks the key `files` of a job file (staged_files.hpp). Pure.
#pragma once

#include <vector>

#include "common/json.hpp"
#include "common/spec/schema/problem.hpp"

namespace roll::spec {

// Checks the number and the names of the files in `files`. Also checks that the size of each file
// fits its number of pieces, which are blocks of at most kPieceBytes. Requires a document that fits
// the schema.
std::vector<Problem> check_files(const Json& document);

}  // namespace roll::spec
