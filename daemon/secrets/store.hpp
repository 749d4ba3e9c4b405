// The values of users' secrets, sealed on disk (XChaCha20-Poly1305, libsodium) and open in rolld's
// memory alone. They are apart from the ledger: no event, snapshot or backup holds one.
//
//   DIRECTORY/secrets.key     32 random bytes, of rolld's user alone (0600), made with the first
//   DIRECTORY/secrets.sealed  "ROLLSEC1", a nonce of 24 bytes, and a JSON array of all, sealed; new
//                             with each change, replaced in one rename
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>

#include "common/error.hpp"
#include "common/time.hpp"
#include "daemon/core/secrets.hpp"

namespace roll::secrets {

constexpr std::size_t kValueBytesMax = 16 << 10;
constexpr std::size_t kOfUserMax = 256;

class Store {
  public:
    // An empty one where nothing has been kept yet. Refused: the key is open to others. Corrupt:
    // the key is missing or another one, or a byte has changed; nothing is served then.
    static Result<Store> open(const std::filesystem::path& directory);

    // On disk when it returns. InvalidArgument: what is no name, or no value: 1 to kValueBytesMax
    // bytes of UTF-8 without a zero. Refused: the user has too many, or the disk is full.
    Result<void> set(const core::SecretName& name, const std::string& value, Time now);
    Result<void> remove(const core::SecretName& name);  // NotFound

    core::SecretNames names() const;
    std::optional<std::string> value(const core::SecretName& name) const;
    Time set_at(const core::SecretName& name) const { return secrets_.at(name).set_at; }

  private:
    struct Secret {
        std::string value;
        Time set_at{};
    };
    using Secrets = std::map<core::SecretName, Secret>;

    explicit Store(std::filesystem::path directory) : directory_(std::move(directory)) {}
    Result<void> make_key();
    Result<Secrets> unseal(const std::string& bytes) const;
    Result<void> keep(Secrets secrets);

    std::filesystem::path directory_;
    std::string key_{};  // empty: none has been made
    Secrets secrets_{};
};

}  // namespace roll::secrets
