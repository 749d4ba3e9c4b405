// Tokens with which programs act for a user over HTTP. A token has a user, a level of access and an
// expiry time. Only the SHA-256 of a token's secret is stored, so nobody can use a token that was
// read from the file.
//
//   DIRECTORY/tokens.json  a JSON array of all tokens; each change replaces the file by a rename
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "common/error.hpp"
#include "common/protocol/scope.hpp"
#include "common/time.hpp"

namespace roll::tokens {

constexpr std::size_t kOfUserMax = 100;

struct ApiToken {
    std::string user{};
    protocol::Access access = protocol::Access::Read;  // highest level of access of the token
    std::string note{};                                // purpose of the token
    Time created{};
    Time expires{};
    std::string sha256{};  // SHA-256 of the secret, in hex
};

class Store {
  public:
    // Opens the store. The store is empty if no token was made yet. Fails with Corrupt if the file
    // is not a valid list of tokens.
    static Result<Store> open(const std::filesystem::path& directory);

    // Makes a token and returns its text, `roll_ID_SECRET`, after the token is on disk. The store
    // does not keep the text. Ignores the token's `created` and `sha256`. Fails with
    // InvalidArgument if the token expires in less than a minute or in more than 400 days. Fails
    // with Refused if the user has too many tokens.
    Result<std::string> create(ApiToken token, Time now);
    // Revokes a token. Fails with NotFound if there is no such token.
    Result<void> revoke(const std::string& id);

    // Returns the token with this text; nullptr if it is unknown, revoked or expired.
    const ApiToken* find(std::string_view text, Time now) const;
    const std::map<std::string, ApiToken>& all() const { return tokens_; }

  private:
    explicit Store(std::filesystem::path directory) : file_(directory / "tokens.json") {}
    Result<void> keep(std::map<std::string, ApiToken> tokens);

    std::filesystem::path file_;
    std::map<std::string, ApiToken> tokens_{};  // tokens by id
};

// Returns the id in a token's text. The id is not secret. Returns an empty text if the text is not
// a token.
std::string id_of(std::string_view text);

}  // namespace roll::tokens
