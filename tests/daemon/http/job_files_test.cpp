#include "daemon/http/job_files.hpp"

#include <fstream>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "tests/temporary_folder.hpp"

namespace roll::http {
namespace {

class JobFiles : public ::testing::Test {
  protected:
    std::filesystem::path write(const char* name, const std::string& text) {
        std::ofstream(directory / name) << text;
        return directory / name;
    }
    static std::string steps(const Json& rows) {
        std::string text;
        for (const Json& row : rows) text += fmt::format("{} ", row.at("step").get<int>());
        return text;
    }
    TemporaryFolder directory;
};

TEST_F(JobFiles, ALogIsReadFromWhereTheLastPartEnded) {
    std::filesystem::create_directories(directory / "logs/attempt-2");
    const auto file = write("logs/attempt-2/rank-3.log", "one\ntwo\n");
    const auto log = [&](const Json& from) {
        Json args = {{"output", directory.string()}, {"attempt", 2}, {"rank", 3}};
        if (!from.is_null()) args["from"] = from;
        return read_job_file("log", args, "/nowhere").value();
    };
    const Json first = log(Json());
    EXPECT_EQ(first["text"], "one\ntwo\n");
    EXPECT_EQ(first["next"], 8);
    EXPECT_EQ(first["attempt"], 2);
    std::ofstream(file, std::ios::app) << "three";
    EXPECT_EQ(log(first["next"])["text"], "three");
    EXPECT_EQ(log(1000u)["text"], "one\ntwo\nthree") << "head cut off";
}

TEST_F(JobFiles, RowsOfMetricsAreThinnedAndTheEndsStay) {
    std::string text = "{\"schema\":\"roll.metrics/1\",\"step\":0}\nno json\n[1]\n";
    for (int step = 1; step <= 100; ++step) text += fmt::format("{{\"step\":{}}}\n", step);
    write("metrics.jsonl", text + "{\"step\":101");  // the last line is unfinished
    EXPECT_EQ(read_metrics({directory}, 1000).value()["rows"].size(), 101u);
    EXPECT_EQ(steps(read_metrics({directory}, 5).value()["rows"]), "0 25 50 75 100 ");
    EXPECT_TRUE(read_metrics({directory / "none"}, 5).value()["rows"].empty());
}

TEST_F(JobFiles, ALongFileOfMetricsIsReadAtPlacesThatDivideItEvenly) {
    std::string text;
    const std::string filler(100, 'x');
    for (int step = 1; step <= 50'000; ++step)
        text += fmt::format("{{\"step\":{},\"filler\":\"{}\"}}\n", step, filler);
    write("metrics.jsonl", text);
    const Json rows = read_metrics({directory}, 100).value()["rows"];
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
