// Checks the resources that a job requests. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/json.hpp"
#include "common/spec/job/resources.hpp"
#include "common/spec/schema/problem.hpp"

namespace roll::spec {

constexpr std::int64_t kSecondsMax = 3'200'000'000;  // about a century, in seconds

// Returns a problem for each rule that the resources of an attempt break. For example, the size of
// a segment must divide the number of nodes. `path` is the path of these resources in the
// job file.
std::vector<Problem> resource_problems(const Resources& wanted, const std::string& path);

// Returns the problems of `resources` of a job file and of its variants. Requires that the document
// has passed the schema's check and has all defaults.
std::vector<Problem> check_resources(const Json& document);

}  // namespace roll::spec
