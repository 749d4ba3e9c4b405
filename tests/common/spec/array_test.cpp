#include "common/spec/schema/array.hpp"

#include <gtest/gtest.h>

#include "common/spec/job/job.hpp"
#include "common/spec/schema/units.hpp"

namespace roll::spec {
namespace {

TEST(Array, ReadsIndicesAsPeopleWriteThem) {
    EXPECT_EQ(*array_indices("0-3"), (std::vector{0, 1, 2, 3}));
    EXPECT_EQ(*array_indices("7"), (std::vector{7}));
    EXPECT_EQ(*array_indices("9,1-3,2"), (std::vector{1, 2, 3, 9}));
    EXPECT_EQ(*array_indices("0-10:5"), (std::vector{0, 5, 10}));
    EXPECT_EQ(array_indices("1-10000")->size(), 10'000u);
    EXPECT_EQ(parse_array("0-15%4")->limit, 4);
    EXPECT_EQ(parse_array("0-15")->limit, 0);
}

TEST(Array, RefusesWhatIsNone) {
    for (const char* text : {"", "a", "-1", "3-1", "1-", "1,", ",1", "1-9:0", "1-9:", "0-10000",
                             "0-5000,6000-12000", "1%0", "1%", "1%x", "1-3%2%2", "99999999999"}) {
        EXPECT_FALSE(parse_array(text)) << text;
    }
}

TEST(Instant, ReadsIso8601WithItsZone) {
    const auto at = [](const char* text) { return to_iso8601(parse_instant(text).value()); };
    EXPECT_EQ(at("2026-11-22T08:00:00Z"), "2026-11-22T08:00:00.000Z");
    EXPECT_EQ(at("2026-11-22T08:00+01:30"), "2026-11-22T06:30:00.000Z");
    EXPECT_EQ(at("2026-11-22T08:00:10.5-02:00"), "2026-11-22T10:00:10.000Z");
    EXPECT_EQ(at("2024-02-29"), "2024-02-29T00:00:00.000Z");
    for (const char* text : {"", "2026-02-29", "2026-11-22T08:00", "2026-11-22T24:00Z", "tomorrow",
                             "2026-11-22 08:00Z", "2026-13-01"}) {
        EXPECT_FALSE(parse_instant(text)) << text;
    }
}

TEST(Spec, TravelsWithItsTimesAndArray) {
    JobSpec spec;
    spec.name = "x";
    spec.output = "/x";
    spec.document = "{}";
    EXPECT_EQ(*job_spec_from_json(to_json(spec)), spec);
    EXPECT_EQ(to_json(spec).find("begin"), std::string::npos);
    spec.begin = parse_instant("2026-11-22T08:00:00Z").value();
    spec.deadline = *spec.begin + std::chrono::hours(1);
    spec.array = Array{"0-3", 2, 1};
    EXPECT_EQ(*job_spec_from_json(to_json(spec)), spec);
}

}  // namespace
}  // namespace roll::spec
