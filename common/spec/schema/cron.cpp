#include "common/spec/schema/cron.hpp"

#include <array>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "common/number.hpp"
#include "common/split.hpp"

namespace roll::spec {
namespace {

using namespace std::chrono;  // NOLINT(google-build-using-namespace): a calendar's names

// Adds the numbers of "*", "5" or "1-5", each optionally with a step such as "/2". Returns false if
// the text is malformed.
template <std::size_t N>
bool add_part(std::string_view part, int low, int high, std::bitset<N>& set) {
    const auto halves = split_at(part, '/');
    const auto step = halves.size() == 2 ? parse_number<int>(halves[1]) : std::optional(1);
    if (halves.size() > 2 || !step || *step < 1) return false;
    int first = low;
    int last = high;
    if (halves[0] != "*") {
        const auto ends = split_at(halves[0], '-');
        const auto from = parse_number<int>(ends[0]);
        const auto to = ends.size() == 2 ? parse_number<int>(ends[1]) : from;
        if (ends.size() > 2 || !from || !to || *from < low || *to > high || *from > *to)
            return false;
        first = *from;
        last = ends.size() == 1 && halves.size() == 2 ? high : *to;
    }
    for (int i = first; i <= last; i += *step) set.set(static_cast<std::size_t>(i));
    return true;
}

template <std::size_t N>
bool read_field(std::string_view field, int low, int high, std::bitset<N>& set) {
    for (const std::string& part : split_at(field, ',')) {
        if (!add_part(part, low, high, set)) return false;
    }
    return true;
}

std::string_view in_full(std::string_view text) {
    constexpr std::array<std::pair<std::string_view, std::string_view>, 4> kNames{
        {{"@hourly", "0 * * * *"},
         {"@daily", "0 0 * * *"},
         {"@weekly", "0 0 * * 0"},
         {"@monthly", "0 0 1 * *"}}};
    for (const auto& [name, fields] : kNames) {
        if (text == name) return fields;
    }
    return text;
}

bool has_day(const Cron& cron, sys_days day) {
    const year_month_day date{day};
    if (!cron.months.test(static_cast<unsigned>(date.month()))) return false;
    const bool of_month = cron.days.test(static_cast<unsigned>(date.day()));
    const unsigned weekday_number = weekday{day}.c_encoding();
    const bool of_week =
        cron.weekdays.test(weekday_number) || (weekday_number == 0 && cron.weekdays.test(7));
    if (!cron.any_day && !cron.any_weekday) return of_month || of_week;
    return of_month && of_week;
}

// Returns the first matching minute of a day at or after `from`; nullopt if there is none.
std::optional<minutes> in_day(const Cron& cron, minutes from) {
    for (minutes at = from; at < days(1); ++at) {
        const auto hour = static_cast<std::size_t>(at.count() / 60);
        if (!cron.hours.test(hour)) {
            at = minutes((static_cast<int>(hour) + 1) * 60 - 1);
            continue;
        }
        if (cron.minutes.test(static_cast<std::size_t>(at.count() % 60))) return at;
    }
    return std::nullopt;
}

}  // namespace

Result<Cron> parse_cron(std::string_view text) {
    std::vector<std::string_view> fields;
    for (const std::string& field : split_at(in_full(text), ' '))
        if (!field.empty()) fields.push_back(field);
    Cron cron;
    const bool read =
        fields.size() == 5 && read_field(fields[0], 0, 59, cron.minutes) &&
        read_field(fields[1], 0, 23, cron.hours) && read_field(fields[2], 1, 31, cron.days) &&
        read_field(fields[3], 1, 12, cron.months) && read_field(fields[4], 0, 7, cron.weekdays);
    if (!read)
        return fail(ErrorCode::InvalidArgument,
                    fmt::format("\"{}\" is not a cron schedule; allowed: minute hour day month "
                                "weekday, e.g. 30 3 * * 1-5",
                                text));
    cron.any_day = fields[2].starts_with('*');
    cron.any_weekday = fields[4].starts_with('*');
    if (!next_after(cron, Time{}))
        return fail(ErrorCode::InvalidArgument,
                    fmt::format("\"{}\" never matches a date; change the day or the month", text));
    return cron;
}

std::optional<Time> next_after(const Cron& cron, Time time) {
    const auto next = floor<minutes>(time) + minutes(1);
    sys_days day = floor<days>(next);
    minutes from = duration_cast<minutes>(next - day);
    for (int i = 0; i < 8 * 366; ++i, ++day, from = minutes(0)) {
        if (!has_day(cron, day)) continue;
        if (const auto at = in_day(cron, from)) return Time{(day + *at).time_since_epoch()};
    }
    return std::nullopt;
}

}  // namespace roll::spec
