// Cron schedules such as "30 3 * * 1-5". Pure functions; times are UTC.
#pragma once

#include <bitset>
#include <optional>
#include <string_view>

#include "common/error.hpp"
#include "common/time.hpp"

namespace roll::spec {

struct Cron {
    std::bitset<60> minutes;
    std::bitset<24> hours;
    std::bitset<32> days;     // days of the month; bit 1 is the first day
    std::bitset<13> months;   // months of the year; bit 1 is January
    std::bitset<8> weekdays;  // days of the week; bits 0 and 7 are Sunday
    bool any_day = true;
    bool any_weekday = true;
};

// Parses five fields: minute, hour, day of the month, month, day of the week. Each is `*`, a
// number, `1-5`, `*/15`, `8-18/2` or a list of these. Also parses @hourly, @daily, @weekly and
// @monthly. Fails with InvalidArgument if the text is malformed or matches no time.
Result<Cron> parse_cron(std::string_view text);

// Returns the first matching time after `time`; nullopt if there is none within 8 years. If the
// schedule restricts both the day of the month and the day of the week, a day needs to match only
// one of the two. This is the rule of every cron.
std::optional<Time> next_after(const Cron& cron, Time time);

}  // namespace roll::spec
