#include "daemon/http/job_files.hpp"

#include <fstream>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

namespace roll::http {
namespace {

class JobFiles : public ::testing::Test {
  protected:
    void SetUp() override {
        directory = std::filesystem::path(testing::TempDir()) /
                    (std::string("job_files_") +
                     testing::UnitTest::GetInstance()->current_test_info()->name());
        std::filesystem::remove_all(directory);
        std::filesystem::create_directories(directory);
    }
    void TearDown() override { std::filesystem::remove_all(directory); }
    std::filesystem::path write(const char* name, const std::string& text) {
        std::ofstream(directory / name) << text;
        return directory / name;
    }
    static std::string steps(const Json& rows) {
        std::string text;
        for (const Json& row : rows) text += fmt::format("{} ", row.at("step").get<int>());
        return text;
    }
    std::filesystem::path directory;
};

TEST_F(JobFiles, ALogIsReadFromWhereTheLastPartEnded) {
    const auto file = write("rank-0.log", "one\ntwo\n");
    const Json first = read_log(file, Json()).value();
    EXPECT_EQ(first["text"], "one\ntwo\n");
    EXPECT_EQ(first["next"], 8);
    std::ofstream(file, std::ios::app) << "three";
    EXPECT_EQ(read_log(file, first["next"]).value()["text"], "three");
    EXPECT_EQ(read_log(file, Json(1000u)).value()["text"], "one\ntwo\nthree") << "head cut off";
}

TEST_F(JobFiles, OfALongLogTheEndIsRead) {
    const auto file = write("rank-0.log", std::string(3 * kLogBytesMax, 'x') + "end");
    const Json part = read_log(file, Json()).value();
    EXPECT_EQ(part["text"].get<std::string>().size(), kLogBytesMax);
    EXPECT_EQ(part["next"], 3 * kLogBytesMax + 3);
    const Json first = read_log(file, Json(0u)).value();
    EXPECT_EQ(first["next"], kLogBytesMax);
}

TEST_F(JobFiles, OnlyRegularFilesAreRead) {
    ASSERT_EQ(::mkfifo((directory / "fifo").c_str(), 0600), 0);
    EXPECT_FALSE(read_log(directory / "fifo", Json()));
    EXPECT_FALSE(read_log(directory, Json()));
    std::filesystem::create_symlink("/dev/zero", directory / "device");
    EXPECT_FALSE(read_log(directory / "device", Json()));
    EXPECT_FALSE(read_metrics(directory / "device", 10));
    EXPECT_EQ(read_log(directory / "none", Json()).error().code, ErrorCode::NotFound);
}

TEST_F(JobFiles, ALinkToALogIsFollowed) {
    write("chosen.log", "hello\n");
    std::filesystem::create_symlink("chosen.log", directory / "rank-0.log");
    EXPECT_EQ(read_log(directory / "rank-0.log", Json()).value()["text"], "hello\n");
}

TEST_F(JobFiles, RowsOfMetricsAreThinnedAndTheEndsStay) {
    std::string text = "{\"schema\":\"roll.metrics/1\",\"step\":0}\nno json\n[1]\n";
    for (int step = 1; step <= 100; ++step) text += fmt::format("{{\"step\":{}}}\n", step);
    const auto file =
        write("metrics.jsonl", text + "{\"step\":101");  // the last line is unfinished
    EXPECT_EQ(read_metrics(file, 1000).value()["rows"].size(), 101u);
    EXPECT_EQ(steps(read_metrics(file, 5).value()["rows"]), "0 25 50 75 100 ");
    EXPECT_TRUE(read_metrics(directory / "none", 5).value()["rows"].empty());
}

TEST_F(JobFiles, ALongFileOfMetricsIsReadAtPlacesThatDivideItEvenly) {
    std::string text;
    const std::string filler(100, 'x');
    for (int step = 1; step <= 50'000; ++step)
        text += fmt::format("{{\"step\":{},\"filler\":\"{}\"}}\n", step, filler);
    const Json rows = read_metrics(write("metrics.jsonl", text), 100).value()["rows"];
    EXPECT_EQ(rows.front()["step"], 1);
    EXPECT_EQ(rows.back()["step"], 50'000);
    EXPECT_GE(rows.size(), 100u);
    EXPECT_LE(rows.size(), 200u);
    for (std::size_t i = 1; i < rows.size(); ++i) {
        EXPECT_GT(rows[i]["step"], rows[i - 1]["step"]);
        EXPECT_LE(rows[i]["step"].get<int>() - rows[i - 1]["step"].get<int>(), 600);
    }
}

}  // namespace
}  // namespace roll::http
