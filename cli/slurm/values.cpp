#include "cli/slurm/values.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <csignal>
#include <cstring>
#include <ctime>

#include <fmt/format.h>

namespace roll::cli {
namespace {

using std::chrono::seconds;

std::string to_lower(std::string_view text) {
    std::string result(text);
    std::ranges::transform(result, result.begin(),
                           [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    return result;
}

// Returns the numbers in a text such as "8:30"; nullopt if a part is not a number.
std::optional<std::vector<int>> numbers(std::string_view text, char separator) {
    std::vector<int> all;
    for (const std::string& part : split_at(text, separator)) {
        const auto number = slurm_number(part);
        if (!number) return std::nullopt;
        all.push_back(*number);
    }
    return all;
}

std::tm local(Time time) {
    const std::time_t unix = std::chrono::floor<seconds>(time).time_since_epoch().count();
    std::tm parts{};
    ::localtime_r(&unix, &parts);
    return parts;
}

Time instant(std::tm parts) {
    parts.tm_isdst = -1;
    return Time(seconds(std::mktime(&parts)));
}

// Parses "count[unit]" and returns seconds. The unit may be abbreviated. The default unit is
// seconds.
std::optional<seconds> offset(std::string_view text) {
    const std::size_t end = std::min(text.find_first_not_of("0123456789"), text.size());
    const auto count = slurm_number(text.substr(0, end));
    if (!count) return std::nullopt;
    const std::string unit = to_lower(text.substr(end));
    for (const auto& [name, factor] : {std::pair("seconds", 1),
                                       {"minutes", 60},
                                       {"hours", 3600},
                                       {"days", 86400},
                                       {"weeks", 7 * 86400}})
        if (std::string_view(name).starts_with(unit)) return seconds(std::int64_t{*count} * factor);
    return std::nullopt;
}

// Sets the time of day from a clock time such as "16:00" or "4:00PM", or from a name such as
// "noon". Returns false if the text is neither.
bool set_clock(const std::string& text, std::tm& parts) {
    static constexpr std::array<std::pair<const char*, int>, 5> kNames = {
        {{"midnight", 0}, {"elevenses", 11}, {"noon", 12}, {"fika", 15}, {"teatime", 16}}};
    parts.tm_min = parts.tm_sec = 0;
    for (const auto& [name, hour] : kNames) {
        if (text != name) continue;
        parts.tm_hour = hour;
        return true;
    }
    const bool am = text.ends_with("am");
    const bool pm = text.ends_with("pm");
    std::string_view digits = std::string_view(text).substr(0, text.size() - (am || pm ? 2 : 0));
    while (digits.ends_with(' ')) digits.remove_suffix(1);
    const auto clock = numbers(digits, ':');
    if (!clock || clock->size() < 2 || clock->size() > 3) return false;
    int hour = (*clock)[0];
    if ((am || pm) && (hour < 1 || hour > 12)) return false;
    if (am || pm) hour = hour % 12 + (pm ? 12 : 0);
    if (hour > 23 || (*clock)[1] > 59 || clock->back() > 59) return false;
    parts.tm_hour = hour;
    parts.tm_min = (*clock)[1];
    parts.tm_sec = clock->size() == 3 ? (*clock)[2] : 0;
    return true;
}

// Sets the date from a text such as "2026-11-26", "11/26", "11/26/26" or "112626". Returns false if
// the text does not have one of these forms.
bool set_date(const std::string& text, std::tm& parts) {
    int month = 0;
    int day = 0;
    int year = 0;
    const bool joined = text.size() == 4 || text.size() == 6;
    if (const auto iso = numbers(text, '-'); iso && iso->size() == 3) {
        year = (*iso)[0], month = (*iso)[1], day = (*iso)[2];
    } else if (const auto us = numbers(text, '/'); us && (us->size() == 2 || us->size() == 3)) {
        month = (*us)[0], day = (*us)[1], year = us->size() == 3 ? 2000 + (*us)[2] : 0;
    } else if (const auto number = slurm_number(text); number && joined) {
        const int date = text.size() == 6 ? *number / 100 : *number;
        month = date / 100, day = date % 100;
        year = text.size() == 6 ? 2000 + *number % 100 : 0;
    } else {
        return false;
    }
    if (month < 1 || month > 12 || day < 1 || day > 31 || year > 9999) return false;
    const bool passed =
        month - 1 < parts.tm_mon || (month - 1 == parts.tm_mon && day < parts.tm_mday);
    if (year > 0) parts.tm_year = year - 1900;
    if (year == 0 && passed) ++parts.tm_year;
    parts.tm_mon = month - 1;
    parts.tm_mday = day;
    return true;
}

// Returns the number of a signal. The text is a name or a number: "USR1", "SIGUSR1" or "10".
std::optional<int> signal_number(std::string_view text) {
    if (const auto number = slurm_number(text))
        return *number >= 1 && *number < NSIG ? number : std::nullopt;
    if (text.starts_with("SIG")) text.remove_prefix(3);
    for (int number = 1; number < NSIG; ++number) {
        const char* const name = ::sigabbrev_np(number);
        if (name != nullptr && text == name) return number;
    }
    return std::nullopt;
}

}  // namespace

std::optional<int> slurm_number(std::string_view text) {
    int value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (text.empty() || error != std::errc() || end != text.data() + text.size() || value < 0)
        return std::nullopt;
    return text[0] == '-' ? std::nullopt : std::optional(value);
}

std::optional<int> slurm_count(std::string_view text) {
    std::int64_t factor = 1;
    if (text.ends_with('k') || text.ends_with('K')) factor = 1024;
    if (text.ends_with('m') || text.ends_with('M')) factor = 1024 * 1024;
    if (factor > 1) text.remove_suffix(1);
    const auto number = slurm_number(text);
    if (!number || *number * factor > 1'000'000'000) return std::nullopt;
    return static_cast<int>(*number * factor);
}

std::optional<int> slurm_gres(std::string_view name, std::string_view text) {
    const std::vector<std::string> words = split_at(text.substr(0, text.find('(')), ':');
    if (words.front() != name || words.size() > 3) return std::nullopt;
    const bool has_number =
        words.size() == 3 ||
        (words.size() == 2 && std::isalpha(static_cast<unsigned char>(words.back()[0])) == 0);
    return has_number ? slurm_count(words.back()) : 1;
}

std::optional<std::int64_t> slurm_mebibytes(std::string_view text) {
    const std::size_t end = std::min(text.find_first_not_of("0123456789"), text.size());
    const auto number = slurm_number(text.substr(0, end));
    std::string unit = to_lower(text.substr(end));
    if (unit.size() == 2 && unit[1] == 'b') unit.pop_back();
    constexpr std::string_view kUnits = "kmgt";
    const std::size_t power = unit.empty() ? 1 : kUnits.find(unit);
    if (!number || unit.size() > 1 || power == std::string_view::npos) return std::nullopt;
    if (power == 0) return (std::int64_t{*number} + 1023) / 1024;
    return std::int64_t{*number} << 10 * (power - 1);
}

std::optional<seconds> slurm_duration(const std::string& text) {
    const std::string word = to_lower(text);
    if (word == "unlimited" || word == "infinite" || word == "-1") return seconds(0);
    const std::size_t dash = text.find('-');
    std::int64_t total = 0;
    std::string_view clock = text;
    if (dash != std::string::npos) {
        const auto days = slurm_number(clock.substr(0, dash));
        if (!days) return std::nullopt;
        total = std::int64_t{*days} * 86400;
        clock.remove_prefix(dash + 1);
    }
    const auto parts = numbers(clock, ':');
    if (!parts || parts->size() > 3) return std::nullopt;
    // The first number after the days is in hours in the forms D-H, D-H:M, D-H:M:S and H:M:S. The
    // first number is in minutes in the forms M and M:S.
    std::int64_t unit = dash != std::string::npos || parts->size() == 3 ? 3600 : 60;
    for (const int part : *parts) {
        total += part * unit;
        unit /= 60;
    }
    constexpr std::int64_t kMost = std::int64_t{100} * 366 * 86400;
    if (total > kMost) return std::nullopt;
    return seconds((total + 59) / 60 * 60);
}

std::optional<Time> slurm_instant(const std::string& text, Time now) {
    const std::string word = to_lower(text);
    if (word == "now") return now;
    if (word.starts_with("now+")) {
        const auto later = offset(std::string_view(word).substr(4));
        return later ? std::optional<Time>(now + *later) : std::nullopt;
    }
    std::tm parts = local(now);
    if (word == "today" || word == "tomorrow") {
        parts.tm_hour = parts.tm_min = parts.tm_sec = 0;
        if (word == "tomorrow") ++parts.tm_mday;
        return instant(parts);
    }
    if (set_clock(word, parts)) {
        const Time today = instant(parts);
        if (today > now) return today;
        ++parts.tm_mday;
        return instant(parts);
    }
    // The text is a date, which may be followed by a time: after T (ISO) or after a dash
    // (11/26-08:00).
    const bool slashes = word.find('/') != std::string::npos;
    const std::size_t split = word.find(slashes ? '-' : 't');
    parts.tm_hour = parts.tm_min = parts.tm_sec = 0;
    if (!set_date(word.substr(0, split), parts)) return std::nullopt;
    if (split != std::string::npos && !set_clock(word.substr(split + 1), parts))
        return std::nullopt;
    return instant(parts);
}

std::string slurm_duration_text(seconds duration) {
    const auto total = duration.count();
    const auto days = total / 86400;
    const auto hours = total / 3600 % 24;
    const auto minutes = total / 60 % 60;
    if (days > 0) return fmt::format("{}-{:02}:{:02}:{:02}", days, hours, minutes, total % 60);
    if (hours > 0) return fmt::format("{}:{:02}:{:02}", hours, minutes, total % 60);
    return fmt::format("{}:{:02}", minutes, total % 60);
}

std::optional<SlurmSignal> slurm_signal(std::string_view text) {
    SlurmSignal signal;
    const std::size_t colon = text.find(':');
    if (colon != std::string_view::npos) {
        for (const char flag : text.substr(0, colon)) {
            if (flag != 'B' && flag != 'R') return std::nullopt;
            signal.batch |= flag == 'B';
        }
        text.remove_prefix(colon + 1);
    }
    const std::size_t at = text.find('@');
    if (at != std::string_view::npos) {
        const auto before = slurm_number(text.substr(at + 1));
        if (!before || *before > 65535) return std::nullopt;
        signal.seconds = *before;
        text = text.substr(0, at);
    }
    const auto number = signal_number(text);
    if (!number) return std::nullopt;
    signal.number = *number;
    return signal;
}

}  // namespace roll::cli
