// Parses the target of an HTTP request, such as "/api/v1/jobs?state=running". The functions are
// pure.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "common/error.hpp"

namespace roll::http {

struct Target {
    std::vector<std::string> path;  // the segments between '/', decoded
    std::map<std::string, std::string> query;
};

// Fails with InvalidArgument if the target does not begin with '/', has a malformed %XX or a
// control character, or names a query parameter twice.
Result<Target> parse_target(std::string_view target);

}  // namespace roll::http
