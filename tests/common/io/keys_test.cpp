#include <atomic>
#include <fstream>
#include <thread>

#include <gtest/gtest.h>
#include <sys/stat.h>

#include "common/io/client.hpp"
#include "common/io/curve_keys.hpp"
#include "common/io/state_directory.hpp"
#include "tests/temporary_folder.hpp"

namespace roll::io {
namespace {

namespace fs = std::filesystem;

class Keys : public ::testing::Test {
  protected:
    void SetUp() override { fs::create_directory(root / "authorized"); }
    TemporaryFolder root;
};

TEST_F(Keys, AreMadeOnFirstUseAndTheSameEverAfter) {
    const auto made = load_or_make_curve_keys(root, "client", root / "authorized");
    ASSERT_TRUE(made) << made.error().message;
    EXPECT_EQ(made->public_key.size(), 40u);
    EXPECT_EQ(load_or_make_curve_keys(root, "client")->secret_key, made->secret_key);
    EXPECT_EQ(load_curve_keys(root, "client")->public_key, made->public_key);
    EXPECT_EQ(*load_public_key(root / "client.pub"), made->public_key);
    EXPECT_EQ(read_authorized(root / "authorized").at(made->public_key), "client");
}

TEST_F(Keys, ASecretIsForItsOwnerAlone) {
    const mode_t before = ::umask(0);
    ASSERT_TRUE(load_or_make_curve_keys(root, "server"));
    ::umask(before);
    struct stat info {};
    ASSERT_EQ(::stat((root / "server.key").c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 0777, 0600u);
    ::chmod((root / "server.key").c_str(), 0640);
    const auto open = load_curve_keys(root, "server");
    ASSERT_FALSE(open);
    EXPECT_EQ(open.error().code, ErrorCode::Refused);
    EXPECT_EQ(open.error().hint, "chmod 600 " + (root / "server.key").string());
}

TEST_F(Keys, ARevokedKeyIsNotAuthorizedAgainByTheNextStart) {
    ASSERT_TRUE(load_or_make_curve_keys(root, "client", root / "authorized"));
    fs::remove(root / "authorized/client.pub");
    ASSERT_TRUE(load_or_make_curve_keys(root, "client", root / "authorized"));
    EXPECT_TRUE(read_authorized(root / "authorized").empty());
}

TEST_F(Keys, APairThatACrashLeftHalfMadeIsFinished) {
    const auto made = load_or_make_curve_keys(root, "client");
    fs::remove(root / "client.pub");
    ASSERT_TRUE(load_or_make_curve_keys(root, "client", root / "authorized"));
    EXPECT_EQ(read_authorized(root / "authorized").at(made->public_key), "client");
    EXPECT_TRUE(fs::exists(root / "client.pub"));
}

TEST_F(Keys, ADamagedKeyIsNamed) {
    ASSERT_TRUE(load_or_make_curve_keys(root, "server"));
    std::ofstream(root / "server.key") << "not a key\n";
    const auto keys = load_or_make_curve_keys(root, "server");
    ASSERT_FALSE(keys);
    EXPECT_EQ(keys.error().code, ErrorCode::Corrupt);
    EXPECT_NE(keys.error().message.find("server.key"), std::string::npos);
}

TEST_F(Keys, ThoseWhoComeFirstAtOnceGetTheSamePair) {
    std::vector<std::string> secrets(4);
    std::vector<std::thread> threads;
    for (std::string& secret : secrets) {
        threads.emplace_back([&] {
            if (const auto keys = load_or_make_curve_keys(root, "server"))
                secret = keys->secret_key;
        });
    }
    for (std::thread& thread : threads) thread.join();
    const auto kept = load_curve_keys(root, "server");
    ASSERT_TRUE(kept);
    for (const std::string& secret : secrets)
        EXPECT_TRUE(secret == kept->secret_key || secret.empty());
    EXPECT_EQ(*load_public_key(root / "server.pub"), kept->public_key);
}

TEST_F(Keys, FilesThatHoldNoKeyAuthorizeNobody) {
    std::ofstream(root / "authorized/client-x.pub") << "0123456789";
    std::ofstream(root / "authorized/README") << make_curve_keys().public_key;
    EXPECT_TRUE(read_authorized(root / "authorized").empty());
    EXPECT_TRUE(read_authorized(root / "nowhere").empty());
}

TEST_F(Keys, WithoutADaemonAClientSaysSoAtOnceAndWhatToDo) {
    const StateDirectory directory(root);
    const auto never_started = Client::connect(directory);
    ASSERT_FALSE(never_started);
    EXPECT_EQ(exit_code(never_started.error().code), 5);
    EXPECT_EQ(never_started.error().hint, "rollctl up");
    const auto gone = Client::connect("ipc://" + (root / "rolld.sock").string(), make_curve_keys(),
                                      make_curve_keys().public_key);
    ASSERT_FALSE(gone);
    EXPECT_EQ(gone.error().code, ErrorCode::Unavailable);
    EXPECT_EQ(gone.error().hint, "rollctl up");
}

TEST_F(Keys, AStateDirectoryIsTheFlagOrTheVariableOrTheHome) {
    ::setenv("ROLL_DIR", "/a/b", 1);
    EXPECT_EQ(StateDirectory::find("/x/y/")->root(), "/x/y");
    EXPECT_EQ(StateDirectory::find("")->root(), "/a/b");
    ::unsetenv("ROLL_DIR");
    ::setenv("XDG_STATE_HOME", "/s", 1);
    EXPECT_EQ(StateDirectory::find("")->root(), "/s/roll");
    ::unsetenv("XDG_STATE_HOME");
    ::setenv("HOME", "/home/ann", 1);
    EXPECT_EQ(StateDirectory::find("")->root(), "/home/ann/.local/state/roll");
}

TEST_F(Keys, ALongStateDirectoryPutsItsSocketElsewhere) {
    ::setenv("XDG_RUNTIME_DIR", root.c_str(), 1);
    const StateDirectory deep(root / std::string(120, 'd'));
    const auto endpoint = deep.default_endpoint();
    ASSERT_TRUE(endpoint);
    EXPECT_LT(endpoint->size(), 107u);
    EXPECT_EQ(*StateDirectory(root).default_endpoint(), "ipc://" + (root / "rolld.sock").string());
    ::unsetenv("XDG_RUNTIME_DIR");
}

}  // namespace
}  // namespace roll::io
