#include <filesystem>

#include <gtest/gtest.h>

#include "common/files.hpp"
#include "daemon/secrets/store.hpp"
#include "tests/temporary_folder.hpp"

namespace roll::secrets {
namespace {

namespace fs = std::filesystem;
using core::SecretName;

class Secrets : public testing::Test {
  protected:
    fs::path key() const { return directory / "secrets.key"; }
    fs::path sealed() const { return directory / "secrets.sealed"; }
    Store store() const {
        auto opened = Store::open(directory);
        EXPECT_TRUE(opened) << opened.error().message;
        return *std::move(opened);
    }
    Error refused() const {
        const auto opened = Store::open(directory);
        EXPECT_FALSE(opened);
        return opened ? Error{} : opened.error();
    }

    const SecretName token{"ann", "TOKEN"};
    TemporaryFolder directory;
    Time now{std::chrono::hours(5)};
};

TEST_F(Secrets, AreThereAfterARestart) {
    EXPECT_TRUE(store().names().empty());
    EXPECT_FALSE(fs::exists(key())) << "nothing is made before it is needed";
    Store first = store();
    ASSERT_TRUE(first.set(token, "hf_\"x\"\nzwei \xc3\xa4", now));
    ASSERT_TRUE(first.set({"bob", "TOKEN"}, "other", now));
    const Store second = store();
    EXPECT_EQ(second.value(token), "hf_\"x\"\nzwei \xc3\xa4");
    EXPECT_EQ(second.value({"bob", "TOKEN"}), "other");
    EXPECT_EQ(second.set_at(token), now);
    EXPECT_EQ(second.names(), (core::SecretNames{token, {"bob", "TOKEN"}}));
    EXPECT_EQ(second.value({"ann", "OTHER"}), std::nullopt);
}

TEST_F(Secrets, AreReplacedAndRemoved) {
    Store first = store();
    ASSERT_TRUE(first.set(token, "old", now));
    ASSERT_TRUE(first.set(token, "new", now));
    EXPECT_EQ(store().value(token), "new");
    ASSERT_TRUE(first.remove(token));
    EXPECT_EQ(store().value(token), std::nullopt);
    EXPECT_EQ(first.remove(token).error().message, "ann has no secret TOKEN");
}

TEST_F(Secrets, NoFileHoldsOneInTheClear) {
    const std::string value = "hf_abcdefghijklmnop";
    ASSERT_TRUE(store().set(token, value, now));
    for (const auto& file : fs::directory_iterator(directory))
        EXPECT_EQ(read_file(file.path())->find(value.substr(4, 8)), std::string::npos)
            << file.path();
    EXPECT_EQ(fs::status(key()).permissions(), fs::perms::owner_read | fs::perms::owner_write);
    const std::string before = *read_file(sealed());
    ASSERT_TRUE(store().set(token, value, now));
    EXPECT_NE(*read_file(sealed()), before) << "the same again has another nonce";
}

TEST_F(Secrets, EveryChangedByteIsFound) {
    ASSERT_TRUE(store().set(token, "value", now));
    const std::string whole = *read_file(sealed());
    for (std::size_t at = 0; at < whole.size(); ++at) {
        std::string bytes = whole;
        bytes[at] = static_cast<char>(bytes[at] ^ 1);
        ASSERT_TRUE(write_file_atomically(sealed(), bytes));
        EXPECT_EQ(refused().code, ErrorCode::Corrupt) << at;
        ASSERT_TRUE(write_file_atomically(sealed(), whole.substr(0, at)));
        EXPECT_EQ(refused().code, ErrorCode::Corrupt) << at << " bytes of it";
    }
    ASSERT_TRUE(write_file_atomically(sealed(), whole));
    EXPECT_EQ(store().value(token), "value");
}

TEST_F(Secrets, WithoutItsKeyNothingIsServed) {
    ASSERT_TRUE(store().set(token, "value", now));
    fs::permissions(key(), fs::perms::group_read, fs::perm_options::add);
    EXPECT_EQ(refused().hint, "chmod 600 " + key().string());
    fs::remove(key());
    EXPECT_NE(refused().message.find("secrets.key does not exist"), std::string::npos);
    ASSERT_TRUE(write_private_file(key(), std::string(32, 'k')));
    EXPECT_NE(refused().message.find("secrets.key is not its key"), std::string::npos);
    fs::remove(key());
    ASSERT_TRUE(write_private_file(key(), "short"));
    EXPECT_NE(refused().message.find("secrets.key is not a valid key"), std::string::npos);
    EXPECT_NE(refused().hint.find("set the secrets again"), std::string::npos);
}

TEST_F(Secrets, WhatIsNoNameOrNoValueIsRefused) {
    Store kept = store();
    for (const char* name : {"", "1X", "A-B", "A=B", "ROLL_TOKEN", "A B"})
        EXPECT_EQ(kept.set({"ann", name}, "v", now).error().code, ErrorCode::InvalidArgument)
            << name;
    using namespace std::string_literals;
    for (const std::string& value : {""s, "a\0b"s, "\xff\xfe"s, std::string(16385, 'x')}) {
        const auto set = kept.set(token, value, now);
        ASSERT_FALSE(set);
        EXPECT_EQ(set.error().message.find("xx"), std::string::npos) << "it does not tell it";
    }
    EXPECT_FALSE(fs::exists(sealed()));
    EXPECT_TRUE(kept.set(token, std::string(16384, 'x'), now));
}

TEST_F(Secrets, AUserHasAsManyAsAllowed) {
    Store kept = store();
    for (std::size_t i = 0; i < kOfUserMax; ++i)
        ASSERT_TRUE(kept.set({"ann", "S" + std::to_string(i)}, "v", now));
    EXPECT_EQ(kept.set(token, "v", now).error().code, ErrorCode::Refused);
    EXPECT_TRUE(kept.set({"ann", "S0"}, "w", now)) << "one that is there may change";
    EXPECT_TRUE(kept.set({"bob", "TOKEN"}, "v", now));
}

TEST_F(Secrets, AFailedWriteChangesNothing) {
    Store kept = store();
    ASSERT_TRUE(kept.set(token, "old", now));
    fs::rename(directory, directory.string() + "-away");
    EXPECT_FALSE(kept.set(token, "new", now));
    fs::rename(directory.string() + "-away", directory);
    EXPECT_EQ(kept.value(token), "old");
    EXPECT_EQ(store().value(token), "old");
}

}  // namespace
}  // namespace roll::secrets
