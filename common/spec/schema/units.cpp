#include "common/spec/schema/units.hpp"

#include <array>
#include <charconv>
#include <cmath>
#include <regex>
#include <string>

#include <fmt/format.h>

namespace roll::spec {
namespace {

constexpr double kSecondsMax = 3.2e9;  // a century; a longer duration is a mistake

struct Unit {
    std::string_view name;
    double factor;
};
constexpr std::array<Unit, 5> kTimes{
    {{"s", 1}, {"m", 60}, {"h", 3600}, {"d", 86400}, {"w", 7 * 86400}}};
constexpr std::array<Unit, 15> kSizes{{{"", 1},
                                       {"B", 1},
                                       {"kB", 1e3},
                                       {"KB", 1e3},
                                       {"MB", 1e6},
                                       {"GB", 1e9},
                                       {"TB", 1e12},
                                       {"K", 1024},
                                       {"M", 1048576},
                                       {"G", 1073741824},
                                       {"T", 1099511627776},
                                       {"KiB", 1024},
                                       {"MiB", 1048576},
                                       {"GiB", 1073741824},
                                       {"TiB", 1099511627776}}};

bool is_digit(char c) { return (c >= '0' && c <= '9') || c == '.'; }

// Removes a leading number and its unit from `text`. Returns the number times the unit.
template <std::size_t N>
std::optional<double> take(std::string_view& text, const std::array<Unit, N>& units) {
    std::size_t end = 0;
    while (end < text.size() && is_digit(text[end])) ++end;
    double number = 0;
    const auto [rest, error] = std::from_chars(text.data(), text.data() + end, number);
    if (end == 0 || error != std::errc() || rest != text.data() + end) return std::nullopt;
    text.remove_prefix(end);
    text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
    end = 0;
    while (end < text.size() && std::isalpha(static_cast<unsigned char>(text[end]))) ++end;
    for (const Unit& unit : units) {
        if (text.substr(0, end) != unit.name) continue;
        text.remove_prefix(end);
        text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
        return number * unit.factor;
    }
    return std::nullopt;
}

std::optional<double> parse_clock(const std::string& text) {
    // Durations without ':' and '-', which are the most frequent ones, return here. Compiling the
    // regular expression takes as long as submitting a job.
    if (text.find_first_of(":-") == std::string::npos) return std::nullopt;
    static const std::regex kClock(
        R"((?:(\d{1,5})-(\d{1,2})(?::(\d{1,2})(?::(\d{1,2}))?)?)|(?:(\d{1,6}):(\d{2}):(\d{2})))");
    std::smatch match;
    if (!std::regex_match(text, match, kClock)) return std::nullopt;
    const auto number = [&](std::size_t group) {
        return match[group].matched ? std::stod(match[group]) : 0.0;
    };
    if (match[1].matched) {
        return number(1) * 86400 + number(2) * 3600 + number(3) * 60 + number(4);
    }
    return number(5) * 3600 + number(6) * 60 + number(7);
}

}  // namespace

Result<std::chrono::seconds> parse_duration(std::string_view text) {
    std::optional<double> seconds = parse_clock(std::string(text));
    if (!seconds && !text.empty()) {
        std::string_view rest = text;
        seconds = 0;
        while (seconds && !rest.empty()) {
            const auto part = take(rest, kTimes);
            seconds = part ? std::optional(*seconds + *part) : std::nullopt;
        }
    }
    if (!seconds || *seconds > kSecondsMax) {
        return fail(ErrorCode::InvalidArgument,
                    fmt::format("\"{}\" is not a duration; allowed: 90s, 1h 30m, 1-12:00:00 "
                                "(days), HH:MM:SS",
                                text));
    }
    return std::chrono::seconds(static_cast<std::int64_t>(std::ceil(*seconds)));
}

Result<Time> parse_instant(std::string_view text) {
    static const std::regex kInstant(
        R"((\d{4})-(\d\d)-(\d\d)(?:T(\d\d):(\d\d)(?::(\d\d)(?:\.\d+)?)?(?:Z|([+-])(\d\d):(\d\d)))?)");
    std::cmatch match;
    // The length is limited because std::regex recurses once per character.
    constexpr std::size_t kLengthMax = 64;
    const bool read = text.size() <= kLengthMax &&
                      std::regex_match(text.data(), text.data() + text.size(), match, kInstant);
    const auto number = [&](std::size_t group) {
        return match[group].matched ? std::stoi(match[group]) : 0;
    };
    using namespace std::chrono;
    const auto date = year_month_day(year(read ? number(1) : 0),
                                     month(read ? static_cast<unsigned>(number(2)) : 0u),
                                     day(read ? static_cast<unsigned>(number(3)) : 0u));
    if (!read || !date.ok() || number(4) > 23 || number(5) > 59 || number(6) > 60) {
        return fail(ErrorCode::InvalidArgument,
                    fmt::format("\"{}\" is not a time; allowed: 2026-11-22T08:00:00Z, "
                                "2026-11-22T08:00+01:00, 2026-11-22",
                                text));
    }
    const auto offset = hours(number(8)) + minutes(number(9));
    return Time(sys_days(date)) + hours(number(4)) + minutes(number(5)) + seconds(number(6)) +
           (match[7].str() == "-" ? offset : -offset);
}

Result<std::uint64_t> parse_size(std::string_view text) {
    std::string_view rest = text;
    const auto bytes = take(rest, kSizes);
    if (!bytes || !rest.empty() || *bytes > 9e18) {
        return fail(
            ErrorCode::InvalidArgument,
            fmt::format("\"{}\" is not a size; allowed: 512MiB, 4G, 5GB, a number of bytes", text));
    }
    return static_cast<std::uint64_t>(*bytes);
}

std::string size_text(std::int64_t bytes) {
    constexpr std::array kUnits = {"bytes", "KiB", "MiB", "GiB", "TiB", "PiB"};
    auto number = static_cast<double>(bytes);
    std::size_t unit = 0;
    // Use the next unit from 1023.95 on, which would be printed as 1024.0.
    for (; number >= 1023.95 && unit + 1 < kUnits.size(); ++unit) number /= 1024;
    const double rounded = std::round(number * 10) / 10;
    if (bytes == 0) return "0";
    return rounded == std::floor(rounded) ? fmt::format("{:.0f} {}", rounded, kUnits.at(unit))
                                          : fmt::format("{:.1f} {}", rounded, kUnits.at(unit));
}

}  // namespace roll::spec
