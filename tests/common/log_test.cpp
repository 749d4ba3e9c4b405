#include "common/log.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include "common/files.hpp"
#include "common/json.hpp"
#include "tests/temporary_folder.hpp"

namespace roll {
namespace {

TEST(Log, EveryLineIsAnObjectWhateverItSays) {
    std::string name = testing::TempDir() + "roll-log-XXXXXX";
    const int fd = ::mkstemp(name.data());
    ASSERT_GE(fd, 0);
    ::close(fd);
    const Log log = Log::open(name, "roll-worker@100%").value();
    log.info("says \"{}\"\n", "hi");
    log.error("\xff {}", 7);
    const std::string text = read_file(name).value();
    std::filesystem::remove(name);
    const std::size_t end = text.find('\n');
    const Json first = parse_json(text.substr(0, end)).value();
    EXPECT_EQ(first.at("text"), "says \"hi\"\n");
    EXPECT_EQ(first.at("program"), "roll-worker@100%");
    EXPECT_EQ(first.at("level"), "info");
    EXPECT_EQ(first.at("at").get<std::string>().size(),
              std::string("2026-11-21T09:30:00.125Z").size());
    EXPECT_EQ(parse_json(text.substr(end + 1)).value().at("level"), "error");
}

TEST(Log, AFileHasItsSizeAndTwoEarlierOnesStay) {
    const TemporaryFolder folder;
    const std::filesystem::path path = folder / "p.log";
    {
        spdlog::logger logger("p", log_file(path, 1000));
        for (int i = 0; i < 100; ++i) logger.info("{:100}", i);
    }
    std::size_t files = 0;
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
        ++files;
        EXPECT_LE(entry.file_size(), 1000u) << entry.path();
    }
    EXPECT_EQ(files, 3u);
    EXPECT_NE(read_file(path)->find("99\n"), std::string::npos) << "the newest is under its name";
    std::filesystem::remove_all(folder);
}

TEST(Log, AFileThatCannotBeOpenedIsNamed) {
    const auto log = Log::open("/proc/nowhere/x.log", "p");
    ASSERT_FALSE(log);
    EXPECT_NE(log.error().message.find("/proc/nowhere/x.log"), std::string::npos);
}

}  // namespace
}  // namespace roll
