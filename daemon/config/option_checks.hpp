// Checks of values on the command line of rolld.
#pragma once

#include <string>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "common/error.hpp"

namespace roll {

// Checks a number of the command line. CLI::Range lets NaN pass, and -1 as a huge unsigned number.
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

// An empty value, for example of a variable that is not set, must not make rolld serve instead.
inline CLI::Validator directory_name() {
    return {
        [](const std::string& text) { return std::string(text.empty() ? "name a directory" : ""); },
        ""};
}

// Refuses a port that does not exist: ZeroMQ would listen at the port's lowest 16 bits.
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
