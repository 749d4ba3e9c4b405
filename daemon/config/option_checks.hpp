// Checks of values on the command line of rolld.
#pragma once

#include <string>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "common/error.hpp"

namespace roll {

// Refuses a number outside of `least` to `most`. CLI::Range would accept NaN, and would read -1 as
// a huge unsigned number.
inline CLI::Validator within(double least, double most) {
    return {[least, most](const std::string& text) {
                double value = 0;
                if (CLI::detail::lexical_cast(text, value) && value >= least && value <= most)
                    return std::string();
                return fmt::format("{} is not allowed; allowed: {:.10g} to {:.10g}", text, least,
                                   most);
            },
            ""};
}

// Refuses an empty value, for example of an unset shell variable. rolld would otherwise ignore the
// option and serve.
inline CLI::Validator directory_name() {
    return {
        [](const std::string& text) { return std::string(text.empty() ? "name a directory" : ""); },
        ""};
}

// Refuses a port above 65535, because ZeroMQ would use only its lowest 16 bits.
inline Result<void> check_port(const std::string& endpoint) {
    const auto colon = endpoint.rfind(':');
    if (!endpoint.starts_with("tcp://") || colon == std::string::npos) return {};
    const std::string port = endpoint.substr(colon + 1);
    const bool digits = !port.empty() && port.find_first_not_of("0123456789") == std::string::npos;
    if (!digits || (port.size() <= 5 && std::stoi(port) <= 65'535)) return {};
    return fail(ErrorCode::InvalidArgument,
                fmt::format("--endpoint {}: the port is {}; allowed: 0 to 65535, where 0 is "
                            "any free port",
                            endpoint, port));
}

}  // namespace roll
