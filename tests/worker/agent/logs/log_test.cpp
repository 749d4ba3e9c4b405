// Tests what roll-worker does with programs' logs: it searches them for patterns and caps them.
#include <filesystem>
#include <fstream>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "worker/agent/logs/program_log.hpp"

namespace roll::agent {
namespace {

class Logs : public testing::Test {
  protected:
    Logs() : file_(testing::TempDir() + "roll-log-" + std::to_string(::getpid())) {}
    ~Logs() override { std::filesystem::remove(file_); }
    void write(const std::string& text) const { std::ofstream(file_, std::ios::app) << text; }
    std::string file_;
};

TEST_F(Logs, TellWhichPatternsOccurInALine) {
    write("starts\nCUDA error: uncorrectable ECC error\nFileNotFoundError: x\nlast");
    EXPECT_EQ(scan_logs({"CUDA error.*ECC", "^FileNot", "^not there", "(", "last$"}, {file_}),
              (std::vector<int>{0, 1, 4}));
    EXPECT_EQ(scan_logs({"x"}, {"/no/such/file"}), std::vector<int>{});
    EXPECT_EQ(scan_logs({"starts.*ECC"}, {file_}), std::vector<int>{}) << "a line at a time";
}

TEST_F(Logs, ALongPatternThatWouldTakeForEverFindsNothing) {
    std::string line;
    for (int i = 0; i < 4000; ++i) line.push_back('a');
    write(line);
    EXPECT_EQ(scan_logs({"(a+)+b", "a{10}"}, {file_}), std::vector<int>{1});
}

TEST_F(Logs, AreCutToTheirNewestLinesWhileTheyGrow) {
    const int fd = ::open(file_.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
    const std::string line(99, 'x');
    for (int i = 0; i < 2000; ++i) ASSERT_EQ(::write(fd, (line + "\n").data(), 100), 100);
    EXPECT_FALSE(cap_log(file_, 300'000));
    EXPECT_FALSE(cap_log(file_, 0)) << "no limit";
    EXPECT_TRUE(cap_log(file_, 100'000));
    EXPECT_LE(std::filesystem::file_size(file_), 60'000u);
    ASSERT_EQ(::write(fd, "last\n", 5), 5);
    ::close(fd);
    std::ifstream in(file_);
    const std::string text{std::istreambuf_iterator<char>(in), {}};
    EXPECT_TRUE(text.ends_with("last\n"));
    EXPECT_EQ(text.find('\0'), std::string::npos) << "no hole";
}

}  // namespace
}  // namespace roll::agent
