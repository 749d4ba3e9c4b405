// Writes rolld's counts in the text format of Prometheus
// (https://prometheus.io/docs/instrumenting/exposition_formats/, version 0.0.4). The functions are
// pure.
#pragma once

#include <string>

#include "common/json.hpp"

namespace roll::http {

// Returns the metrics of the replies to `totals`, `version` and `jobs` (the running jobs).
std::string exposition(const Json& totals, const Json& version, const Json& running);

// Returns the metrics for a rolld that does not answer: only `roll_up 0`.
std::string exposition_of_silence();

}  // namespace roll::http
