// Checks rolld.yaml and makes the scheduling policy from it. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "common/spec/job/http.hpp"
#include "common/spec/job/policy.hpp"
#include "common/spec/schema/problem.hpp"

namespace roll::spec {

// The result of parsing rolld.yaml: the content of the file, or all problems of the file.
struct ParsedPolicy {
    Policy policy;
    std::vector<Problem> problems;
    HttpConfig http{};
};

// Parses the document of rolld.yaml and checks it against schemas/rolld.schema.json. Relative paths
// are relative to `base_directory`.
ParsedPolicy parse_policy(std::string_view json_document, const std::string& base_directory = "/");

// Checks the section `http`. Returns a problem if the address is not valid, or if other machines
// could read the traffic.
std::vector<Problem> check_http(const HttpConfig& config);

}  // namespace roll::spec
