// Reads the parameters of a request from its target or from its JSON body. The functions are pure.
#pragma once

#include <charconv>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "common/error.hpp"
#include "common/json.hpp"
#include "common/protocol/operations.hpp"
#include "daemon/http/target.hpp"

namespace roll::http {

// Returns the number in a parameter; nullopt if there is no such parameter.
template <class T>
Result<std::optional<T>> number(const Target& target, const std::string& key) {
    const auto found = target.query.find(key);
    if (found == target.query.end()) return std::optional<T>();
    T value{};
    const char* end = found->second.data() + found->second.size();
    const auto parsed = std::from_chars(found->second.data(), end, value);
    if (parsed.ec != std::errc() || parsed.ptr != end)
        return fail(ErrorCode::InvalidArgument, fmt::format("{} is {}; allowed: a whole number",
                                                            key, found->second.substr(0, 60)));
    return std::optional(value);
}

// Fails if the target has a parameter that is not in `allowed`.
Result<void> only(const Target& target, const std::vector<std::string>& allowed);

// Returns the arguments of an operation from the parameters of a GET request. The elements of a
// list are separated by commas. A boolean is 1 or 0. A list of jobs or events has at most 100 rows
// unless `limit` says otherwise.
Result<Json> arguments_of_query(const Target& target, const protocol::OperationInfo& info);

// Returns the arguments of an operation from the body of a POST request. An empty body has no
// arguments.
Result<Json> arguments_of_body(const std::string& body, const protocol::OperationInfo& info);

}  // namespace roll::http
