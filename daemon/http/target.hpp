// Parses the target of an HTTP request, such as "/api/v1/jobs?state=running", and the address that
// sent it. The functions are pure.
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

// Returns the client that an address stands for: an IPv4 address, or the first 64 bits of an IPv6
// address, because a single machine has all addresses with these 64 bits.
std::string client_of_address(const std::string& address);

}  // namespace roll::http
