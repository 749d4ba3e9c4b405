// Checks the section `http` of rolld.yaml. Pure.
#pragma once

#include <vector>

#include "common/spec/job/http.hpp"
#include "common/spec/schema/problem.hpp"

namespace roll::spec {

// Returns a problem if the address is not valid, or if other machines could read the traffic.
std::vector<Problem> check_http(const HttpConfig& config);

}  // namespace roll::spec
