#include "cli/text/since.hpp"

#include <fmt/format.h>

#include "common/spec/schema/units.hpp"

namespace roll::cli {

Result<Time> parse_since(std::string_view text, Time now, const char* option) {
    if (const auto ago = spec::parse_duration(text)) return now - *ago;
    if (const auto time = spec::parse_instant(text)) return *time;
    return fail(ErrorCode::InvalidArgument,
                fmt::format("{} is {}; allowed: a duration such as 90s, 2h or 1-12:00:00, or a "
                            "time such as 2026-11-22T08:00:00Z or 2026-11-22",
                            option, text));
}

}  // namespace roll::cli
