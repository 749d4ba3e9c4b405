#include <gtest/gtest.h>

#include "common/files.hpp"
#include "daemon/tokens/store.hpp"
#include "tests/temporary_folder.hpp"

namespace roll::tokens {
namespace {

using std::chrono_literals::operator""min;

class Tokens : public ::testing::Test {
  protected:
    std::string make(const std::string& user = "ann") {
        auto text = Store::open(root).value().create({.user = user,
                                                      .access = protocol::Access::Submit,
                                                      .note = "ci",
                                                      .expires = now + 60min},
                                                     now);
        EXPECT_TRUE(text);
        return text.value_or("");
    }
    TemporaryFolder root;
    Time now{std::chrono::hours(500'000)};
};

TEST_F(Tokens, ATokenIsFoundByItsTextUntilItExpiresOrIsRevoked) {
    const std::string text = make();
    Store store = Store::open(root).value();
    const ApiToken* token = store.find(text, now);
    ASSERT_NE(token, nullptr);
    EXPECT_EQ(token->user, "ann");
    EXPECT_EQ(token->access, protocol::Access::Submit);
    EXPECT_NE(store.find(text, now + 59min), nullptr);
    EXPECT_EQ(store.find(text, now + 60min), nullptr);
    EXPECT_TRUE(store.revoke(id_of(text)));
    EXPECT_EQ(store.find(text, now), nullptr);
    EXPECT_EQ(Store::open(root).value().find(text, now), nullptr);
    EXPECT_EQ(store.revoke(id_of(text)).error().code, ErrorCode::NotFound);
}

TEST_F(Tokens, NoOtherTextOpensTheStore) {
    const std::string text = make(), other = make("bob");
    const Store store = Store::open(root).value();
    EXPECT_NE(text, other);
    for (std::size_t i = 0; i < text.size(); ++i) {
        std::string changed = text;
        changed[i] = changed[i] == '0' ? '1' : '0';
        EXPECT_EQ(store.find(changed, now), nullptr) << changed;
    }
    const std::string mixed = text.substr(0, 16) + other.substr(16);  // ann's id, bob's secret
    for (const std::string& wrong : {std::string(), text + "0", text.substr(1), mixed,
                                     text.substr(0, text.size() - 1), std::string("roll_")})
        EXPECT_EQ(store.find(wrong, now), nullptr) << wrong;
}

TEST_F(Tokens, TheFileHoldsNoSecret) {
    const std::string text = make();
    const std::string file = read_file(root / "tokens.json").value();
    EXPECT_EQ(file.find(text.substr(text.rfind('_') + 1)), std::string::npos);
    EXPECT_NE(file.find(id_of(text)), std::string::npos);
    ASSERT_TRUE(write_file_atomically(root / "tokens.json", "[{\"id\": 3}]"));
    EXPECT_EQ(Store::open(root).error().code, ErrorCode::Corrupt);
}

TEST_F(Tokens, TimesAndNumbersAreLimited) {
    Store store = Store::open(root).value();
    for (const auto life : {std::chrono::minutes(0), std::chrono::minutes(401 * 24 * 60)})
        EXPECT_EQ(store.create({.user = "ann", .expires = now + life}, now).error().code,
                  ErrorCode::InvalidArgument);
    for (std::size_t i = 0; i < kOfUserMax; ++i)
        ASSERT_TRUE(store.create({.user = "ann", .expires = now + 60min}, now));
    EXPECT_EQ(store.create({.user = "ann", .expires = now + 60min}, now).error().code,
              ErrorCode::Refused);
    EXPECT_TRUE(store.create({.user = "bob", .expires = now + 60min}, now));
    EXPECT_TRUE(store.create({.user = "ann", .expires = now + 200min}, now + 61min))
        << "expired tokens do not count";
}

}  // namespace
}  // namespace roll::tokens
