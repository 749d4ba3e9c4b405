#include "cli/show/log_lines.hpp"

#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "cli/text/render.hpp"
#include "tests/temporary_folder.hpp"

namespace roll::cli {
namespace {

class LogLines : public ::testing::Test {
  protected:
    void SetUp() override { ::setenv("TZ", "UTC", 1); }
    void write(const std::string& text) const { std::ofstream(file, std::ios::binary) << text; }
    std::string from(std::uint64_t offset) const {
        std::string text;
        each_line(StoredFile(file), offset, [&](std::string_view line, bool whole) {
            text.append(line).append(whole ? "\n" : "");
            return true;
        });
        return text;
    }
    std::string last(std::uint64_t count, const std::string& with = "") const {
        return from(offset_of_last(StoredFile(file), count, [&](std::string_view line) {
            return line.find(with) != std::string_view::npos;
        }));
    }

    TemporaryFolder base;
    std::string file = base / "rank-0.log";
};

TEST_F(LogLines, TheLastLinesAreCountedFromTheEnd) {
    write("a\nb\n\nc\n");
    EXPECT_EQ(last(0), "");
    EXPECT_EQ(last(1), "c\n");
    EXPECT_EQ(last(2), "\nc\n");
    EXPECT_EQ(last(3), "b\n\nc\n");
    EXPECT_EQ(last(4), "a\nb\n\nc\n");
    EXPECT_EQ(last(99), "a\nb\n\nc\n");
    write("a\nb");
    EXPECT_EQ(last(1), "b") << "a line without a newline counts";
    EXPECT_EQ(last(2), "a\nb");
    write("");
    EXPECT_EQ(last(5), "");
    write("\n");
    EXPECT_EQ(last(1), "\n");
    EXPECT_EQ(offset_of_last(StoredFile((base / "missing").string()), 3,
                             [](std::string_view) { return true; }),
              0u);
}

TEST_F(LogLines, LinesMayCrossBlocksOfTheFile) {
    std::string all;
    std::vector<std::string> lines;
    for (int i = 0; i < 3000; ++i)
        all += lines.emplace_back("line " + std::to_string(i) + std::string(i % 997, 'x') + "\n");
    write(all + std::string(600'000, 'y') + "\nend\n");
    EXPECT_EQ(from(0), all + std::string(600'000, 'y') + "\nend\n");
    for (const std::size_t count : {1u, 2u, 500u, 2999u}) {
        std::string expected;
        for (std::size_t i = lines.size() - count; i < lines.size(); ++i) expected += lines[i];
        EXPECT_EQ(last(count + 2), expected + std::string(600'000, 'y') + "\nend\n") << count;
    }
    EXPECT_TRUE(last(2, "line 12").starts_with(lines[1298]));
}

TEST_F(LogLines, AnEmptyLineMayLieBetweenTwoBlocks) {
    const std::string block = "\n" + std::string((256u << 10) - 2, 'b') + "\n";
    write("a\n" + block);
    EXPECT_EQ(last(2), block);
    EXPECT_EQ(last(3), "a\n" + block);
}

TEST_F(LogLines, ALineBeginsWithATimeInManyForms) {
    const Time time = *parse_time("2026-11-21T10:00:00.500Z");
    for (const char* line : {"2026-11-21T10:00:00.5Z x", "2026-11-21T11:00:00.500+01:00",
                             "2026-11-21 10:00:00,500 - x", "[2026-11-21 10:00:00.500] [info]",
                             "2026-11-21T04:30:00.500-0530"})
        EXPECT_EQ(time_of_line(line), time) << line;
    for (const char* line : {"step 3", "", "2026-11-21", "2026-13-21 10:00:00", "10:00:00 x"})
        EXPECT_EQ(time_of_line(line), std::nullopt) << line;
}

TEST_F(LogLines, LinesSinceATimeAreFoundInALargeLog) {
    std::string all;
    for (int i = 0; i < 86'400; i += 3) {
        const Time time = *parse_time("2026-11-21T00:00:00.000Z") + std::chrono::seconds(i);
        all += to_iso8601(time) + " tick " + std::to_string(i) + "\n";
        if (i % 5 == 0) all += "  a line without a time belongs to the line before it\n";
    }
    write(all);
    const auto since = [&](const char* time) {
        return from(offset_since(StoredFile(file), *parse_time(time)).value());
    };
    EXPECT_EQ(since("2026-11-20T00:00:00.000Z"), all);
    EXPECT_EQ(since("2026-11-21T00:00:00.000Z"), all);
    for (const int second : {3, 43'200, 60'000, 86'397}) {
        const std::size_t at = all.find(" tick " + std::to_string(second) + "\n");
        const Time time = *parse_time("2026-11-21T00:00:00.000Z") + std::chrono::seconds(second);
        EXPECT_EQ(since(to_iso8601(time).c_str()), all.substr(all.rfind('\n', at) + 1)) << second;
    }
    EXPECT_EQ(since("2026-11-22T00:00:00.000Z"), "");
    write("step 1\nstep 2\n");
    EXPECT_EQ(offset_since(StoredFile(file), *parse_time("2026-11-20T00:00:00.000Z")),
              std::nullopt);
    EXPECT_EQ(offset_since(StoredFile(file), Time(std::chrono::hours(24 * 365 * 100))), 14u)
        << "the log was not written to since then";
}

}  // namespace
}  // namespace roll::cli
