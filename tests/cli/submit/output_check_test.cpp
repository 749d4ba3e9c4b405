#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>
#include <unistd.h>

#include "cli/submit/checks.hpp"
#include "tests/temporary_folder.hpp"

namespace roll::cli {
namespace {

namespace fs = std::filesystem;

constexpr uid_t kOther = 54321;  // a uid that this machine does not know

class Outputs : public ::testing::Test {
  protected:
    void SetUp() override { fs::permissions(base, fs::perms(0755)); }
    static std::string refusal(const std::string& output, uid_t uid) {
        spec::JobSpec spec;
        spec.name = "x";
        spec.output = output;
        const auto checked = check_outputs({spec}, uid);
        if (checked) return "";
        EXPECT_EQ(checked.error().code, ErrorCode::Refused);
        EXPECT_NE(checked.error().hint.find("--set output="), std::string::npos);
        return checked.error().message;
    }
    TemporaryFolder temporary_;
    std::string base = temporary_.string();
};

TEST_F(Outputs, ADirectoryThatTheUserOfJobsMayNotWriteInIsRefusedByName) {
    for (const std::string& output : {base, base + "/x-{id}", base + "/runs/x-{id}"}) {
        const std::string text = refusal(output, kOther);
        EXPECT_TRUE(text.starts_with("job x cannot write to its output directory " + output +
                                     ": rolld runs jobs as uid 54321, who "))
            << text;
        EXPECT_NE(text.find("may not write to " + base + " (owner "), std::string::npos) << text;
        EXPECT_NE(text.find("mode 0755"), std::string::npos) << text;
        EXPECT_EQ(refusal(output, ::geteuid()), "");
    }
    fs::permissions(base, fs::perms(0777));
    EXPECT_EQ(refusal(base + "/x-{id}", kOther), "");
}

TEST_F(Outputs, AFileInTheWayIsNamed) {
    std::ofstream(base + "/runs") << "a file";
    EXPECT_EQ(refusal(base + "/runs/x-{id}", ::geteuid()),
              "job x cannot write to its output directory " + base + "/runs/x-{id}: " + base +
                  "/runs is not a directory");
}

// A missing directory may be on a file system that only the nodes mount.
TEST_F(Outputs, ADirectoryThatThisMachineDoesNotKnowIsLeftToTheNodes) {
    EXPECT_EQ(refusal(base + "/a/b/c/x-{id}", kOther), "");
    EXPECT_EQ(refusal("/no-such-volume/x-{id}", kOther), "");
}

}  // namespace
}  // namespace roll::cli
