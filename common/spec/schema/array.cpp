#include "common/spec/schema/array.hpp"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <optional>

#include <fmt/format.h>

#include "common/split.hpp"

namespace roll::spec {
namespace {

constexpr int kIndexMax = 1'000'000'000;

// Removes a leading number from `text` and returns the number.
std::optional<int> take_number(std::string_view& text) {
    int value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || value < 0 || value > kIndexMax) return std::nullopt;
    text.remove_prefix(static_cast<std::size_t>(end - text.data()));
    return value;
}

bool take_char(std::string_view& text, char c) {
    if (!text.starts_with(c)) return false;
    text.remove_prefix(1);
    return true;
}

// Appends the indices of "4", "4-9" or "4-9:2". Returns false if the text is malformed or has too
// many indices.
bool add_range(std::string_view part, std::vector<int>& all) {
    const auto first = take_number(part);
    if (!first) return false;
    int last = *first;
    int step = 1;
    if (take_char(part, '-')) {
        const auto read = take_number(part);
        if (!read || *read < *first) return false;
        last = *read;
        if (take_char(part, ':')) {
            const auto stride = take_number(part);
            if (!stride || *stride == 0) return false;
            step = *stride;
        }
    }
    if (!part.empty() || (last - *first) / step >= kArrayTasksMax) return false;
    for (std::int64_t i = *first; i <= last; i += step) all.push_back(static_cast<int>(i));
    return all.size() <= 2 * static_cast<std::size_t>(kArrayTasksMax);
}

tl::unexpected<Error> no_array(std::string_view text) {
    return fail(
        ErrorCode::InvalidArgument,
        fmt::format("\"{}\" is not an array; allowed: at most {} indices such as 0-15, 1,4-9 or "
                    "0-100:20, and %N to run at most N tasks at once",
                    text, kArrayTasksMax));
}

}  // namespace

Result<std::vector<int>> array_indices(std::string_view text) {
    std::vector<int> all;
    for (const std::string& part : split_at(text, ','))
        if (!add_range(part, all)) return no_array(text);
    std::ranges::sort(all);
    all.erase(std::ranges::unique(all).begin(), all.end());
    if (all.size() > static_cast<std::size_t>(kArrayTasksMax)) return no_array(text);
    return all;
}

Result<Array> parse_array(std::string_view text) {
    Array array;
    const std::size_t percent = text.find('%');
    array.indices = text.substr(0, percent);
    if (percent != std::string_view::npos) {
        std::string_view limit = text.substr(percent + 1);
        const auto read = take_number(limit);
        if (!read || *read == 0 || !limit.empty()) return no_array(text);
        array.limit = *read;
    }
    if (!array_indices(array.indices)) return no_array(text);
    return array;
}

}  // namespace roll::spec
