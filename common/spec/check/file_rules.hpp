// Checks the key `files` of a job file (staged_files.hpp). Pure.
#pragma once

#include <vector>

#include "common/json.hpp"
#include "common/spec/schema/problem.hpp"

namespace roll::spec {

// Checks the names of the files in `files`, and that each file has pieces. Requires that the
// document has the structure that the schema describes.
std::vector<Problem> check_files(const Json& document);

}  // namespace roll::spec
