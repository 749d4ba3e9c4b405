#include "common/spec/schema/cron.hpp"

#include <gtest/gtest.h>

#include "common/spec/schema/units.hpp"

namespace roll::spec {
namespace {

std::string next(const char* cron, const char* after) {
    const auto at = next_after(parse_cron(cron).value(), parse_instant(after).value());
    return at ? to_iso8601(*at).substr(0, 16) : "never";
}

TEST(Cron, FindsTheNextTime) {
    const char* const sunday = "2026-11-22T08:10:30Z";
    EXPECT_EQ(next("* * * * *", sunday), "2026-11-22T08:11");
    EXPECT_EQ(next("*/15 * * * *", sunday), "2026-11-22T08:15");
    EXPECT_EQ(next("10 8 * * *", "2026-11-22T08:09:59Z"), "2026-11-22T08:10");
    EXPECT_EQ(next("10 8 * * *", "2026-11-22T08:10:00Z"), "2026-11-23T08:10") << "after, not at";
    EXPECT_EQ(next("30 3 * * 1-5", sunday), "2026-11-23T03:30");
    EXPECT_EQ(next("0 0 * * 7", sunday), "2026-11-29T00:00") << "7 is Sunday";
    EXPECT_EQ(next("0 12 1,15 * *", sunday), "2026-12-01T12:00");
    EXPECT_EQ(next("0 0 29 2 *", sunday), "2028-02-29T00:00");
    EXPECT_EQ(next("0 8-18/5 * * *", sunday), "2026-11-22T13:00");
    EXPECT_EQ(next("5/20 * * * *", sunday), "2026-11-22T08:25");
    EXPECT_EQ(next("@monthly", "2026-12-31T23:59:59Z"), "2027-01-01T00:00");
}

TEST(Cron, EitherDayWillDoWhereBothAreGiven) {
    EXPECT_EQ(next("0 0 13 * 5", "2026-11-22T00:00:00Z"), "2026-11-27T00:00");
    EXPECT_EQ(next("0 0 13 * 5", "2026-12-11T00:00:00Z"), "2026-12-13T00:00");
}

TEST(Cron, RefusesWhatIsNone) {
    for (const char* text : {"", "* * * *", "60 * * * *", "* 24 * * *", "* * 0 * *", "* * * 13 *",
                             "* * * * 8", "a * * * *", "5-1 * * * *", "*/0 * * * *", "0 0 30 2 *",
                             "* * * * * *", "1,,2 * * * *", "@never"}) {
        EXPECT_FALSE(parse_cron(text)) << text;
    }
}

}  // namespace
}  // namespace roll::spec
