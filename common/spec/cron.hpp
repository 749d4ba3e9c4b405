// "30 3 * * 1-5": when a job comes again. Pure; times are UTC.
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
    std::bitset<32> days;     // of a month, from 1
    std::bitset<13> months;   // from 1
    std::bitset<8> weekdays;  // 0 and 7 are Sunday
    bool any_day = true;
    bool any_weekday = true;
};

// Five fields: minute, hour, day of the month, month, day of the week; each `*`, numbers, `1-5`,
// `*/15`, `8-18/2`, lists of these. Or @hourly, @daily, @weekly, @monthly. InvalidArgument: none of
// these, or a time that never comes.
Result<Cron> parse_cron(std::string_view text);

// The first of its times after this one. Where both days are restricted, either will do, as in
// every cron. None: there is none in 8 years.
std::optional<Time> next_after(const Cron& cron, Time time);

}  // namespace roll::spec
