#include "cli/show/log_lines.hpp"

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <ctime>
#include <string>

#include "common/number.hpp"

namespace roll::cli {
namespace {

constexpr std::size_t kBlock = 256u << 10;
// Maximum length of a line. A longer line is shown in parts, so that a log without newlines is not
// kept in memory as a whole.
constexpr std::size_t kLineMax = 16u << 20;

// Parses the numbers of "2026-11-21T10:00:00" at the beginning of `text`.
bool read_clock(std::string_view text, std::tm& clock) {
    static constexpr std::string_view kShape = "dddd-dd-dd dd:dd:dd";
    if (text.size() < kShape.size()) return false;
    for (std::size_t i = 0; i < kShape.size(); ++i) {
        const char c = text[i];
        const bool fits = kShape[i] == 'd'   ? std::isdigit(static_cast<unsigned char>(c)) != 0
                          : kShape[i] == ' ' ? c == ' ' || c == 'T'
                                             : c == kShape[i];
        if (!fits) return false;
    }
    const auto number = [&](std::size_t at, std::size_t digits) {
        return *parse_number<int>(text.substr(at, digits));
    };
    clock.tm_year = number(0, 4) - 1900;
    clock.tm_mon = number(5, 2) - 1;
    clock.tm_mday = number(8, 2);
    clock.tm_hour = number(11, 2);
    clock.tm_min = number(14, 2);
    clock.tm_sec = number(17, 2);
    clock.tm_isdst = -1;  // lets mktime() determine whether daylight saving time applies
    return clock.tm_mon < 12 && clock.tm_mday <= 31 && clock.tm_hour < 24 && clock.tm_min < 60;
}

// Removes a fraction such as ".125" or ",125" from the beginning of `text`.
std::chrono::milliseconds take_fraction(std::string_view& text) {
    if (text.empty() || (text[0] != '.' && text[0] != ',')) return {};
    std::size_t end = 1;
    int milliseconds = 0;
    int unit = 100;
    for (; end < text.size() && std::isdigit(static_cast<unsigned char>(text[end])); ++end) {
        milliseconds += unit * (text[end] - '0');
        unit /= 10;
    }
    text.remove_prefix(end);
    return std::chrono::milliseconds(milliseconds);
}

// Returns the offset to UTC of the zone at the beginning of `text`, such as "Z", "+01:00" or
// "+0100"; nullopt if `text` does not begin with a zone.
std::optional<std::chrono::minutes> zone_of(std::string_view text) {
    if (text.starts_with("Z")) return std::chrono::minutes(0);
    if (text.size() < 5 || (text[0] != '+' && text[0] != '-')) return std::nullopt;
    const bool colon = text[3] == ':' && text.size() > 5;
    const auto hours = parse_number<int>(text.substr(1, 2));
    const auto minutes = parse_number<int>(text.substr(colon ? 4 : 3, 2));
    if (!hours || !minutes) return std::nullopt;
    const std::chrono::minutes offset(60 * *hours + *minutes);
    return text[0] == '-' ? -offset : offset;
}

// Returns the first time in the block at `at`; nullopt if there is none. Unless the block is at the
// beginning of the log, skips the first line of the block, because that line may be incomplete.
std::optional<Time> first_time(const StoredFile& file, std::uint64_t at) {
    const std::string block = file.read(at, kBlock);
    std::size_t from = 0;
    if (at > 0) from = std::min(block.find('\n'), block.size() - 1) + 1;
    while (from < block.size()) {
        const std::size_t end = std::min(block.find('\n', from), block.size());
        if (const auto time = time_of_line(std::string_view(block).substr(from, end - from)))
            return time;
        from = end + 1;
    }
    return std::nullopt;
}

bool written_since(const StoredFile& file, Time since) {
    const auto written = file.written();
    return !written || *written >= since;
}

}  // namespace

std::optional<Time> time_of_line(std::string_view line) {
    if (line.starts_with("[")) line.remove_prefix(1);
    std::tm clock{};
    if (!read_clock(line, clock)) return std::nullopt;
    line.remove_prefix(std::string_view("2026-11-21T10:00:00").size());
    const auto fraction = take_fraction(line);
    const auto zone = zone_of(line);
    const std::time_t seconds = zone ? ::timegm(&clock) : std::mktime(&clock);
    const Time time{std::chrono::seconds(seconds)};
    return time + fraction - zone.value_or(std::chrono::minutes(0));
}

std::uint64_t offset_of_last(const StoredFile& file, std::uint64_t count,
                             const std::function<bool(std::string_view)>& takes) {
    std::uint64_t at = file.size();
    if (count == 0) return at;
    std::uint64_t found = 0;
    std::string text;  // the bytes from `at` on that are not split into lines yet
    for (bool at_end = true; at > 0; at_end = false) {
        const std::size_t size = std::min<std::uint64_t>(kBlock, at);
        at -= size;
        text.insert(0, file.read(at, size));
        std::size_t right = text.size();
        if (at_end && text.ends_with('\n')) --right;
        const auto counts = [&](std::size_t from) {
            return takes(std::string_view(text).substr(from, right - from)) && ++found == count;
        };
        while (right > 0) {
            const std::size_t newline = text.rfind('\n', right - 1);
            if (newline == std::string::npos) break;
            if (counts(newline + 1)) return at + newline + 1;
            right = newline;
        }
        if (at == 0 || right > kLineMax) {
            if (counts(0)) return at;
            right = 0;
        }
        text.resize(right);
    }
    return 0;
}

std::optional<std::uint64_t> offset_since(const StoredFile& file, Time since) {
    const std::uint64_t size = file.size();
    if (!written_since(file, since)) return size;
    const auto first = first_time(file, 0);
    if (!first) return std::nullopt;
    std::uint64_t low = 0;  // the first time after this offset is earlier than `since`
    for (std::uint64_t high = *first < since ? size : 0; high > low + kBlock;) {
        const std::uint64_t middle = low + (high - low) / 2;
        const auto time = first_time(file, middle);
        if (!time) break;
        (*time < since ? low : high) = middle;
    }
    // The line at `low` may be incomplete. An incomplete line has no time at its beginning, so it
    // does no harm.
    each_line(file, low, [&, at = low](std::string_view line, bool) mutable {
        const auto time = time_of_line(line);
        if (time && *time >= since) return false;
        low = at += line.size() + 1;
        return true;
    });
    return std::min(low, size);
}

void each_line(const StoredFile& file, std::uint64_t from,
               const std::function<bool(std::string_view, bool)>& visit) {
    std::string text;
    for (;;) {
        const std::string block = file.read(from, kBlock);
        if (block.empty()) break;
        from += block.size();
        text += block;
        std::size_t begin = 0;
        for (std::size_t end = text.find('\n'); end != std::string::npos;
             end = text.find('\n', begin)) {
            if (!visit(std::string_view(text).substr(begin, end - begin), true)) return;
            begin = end + 1;
        }
        text.erase(0, begin);
        if (text.size() <= kLineMax) continue;
        if (!visit(text, true)) return;
        text.clear();
    }
    if (!text.empty()) visit(text, false);
}

}  // namespace roll::cli
