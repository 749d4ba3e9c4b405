// The values of users' secrets: encrypted on disk (XChaCha20-Poly1305 of libsodium), in plain text
// only in rolld's memory. The values are not in the ledger: no event, snapshot or backup holds a
// value.
//
//   DIRECTORY/secrets.key     32 random bytes (mode 0600), created with the first secret
//   DIRECTORY/secrets.sealed  "ROLLSEC1", a nonce of 24 bytes, and the encrypted JSON array of all
//                             secrets; each change replaces the whole file by a rename
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>

#include "common/error.hpp"
#include "common/time.hpp"
#include "daemon/core/state/secrets.hpp"

namespace roll::secrets {

constexpr std::size_t kValueBytesMax = 16 << 10;
constexpr std::size_t kOfUserMax = 256;

class Store {
  public:
    // Opens the store. The store is empty if nothing was stored yet. Fails with Refused if other
    // users can read the key file. Fails with Corrupt if the key is missing or wrong, or if the
    // data was changed.
    static Result<Store> open(const std::filesystem::path& directory);

    // Stores a value and returns after it is on disk. Fails with InvalidArgument for an invalid
    // name or value (allowed: 1 to kValueBytesMax bytes of UTF-8 without NUL), and with Refused if
    // the user has too many secrets or the disk is full.
    Result<void> set(const core::SecretName& name, const std::string& value, Time now);
    // Removes a secret. Fails with NotFound if there is no such secret.
    Result<void> remove(const core::SecretName& name);

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
    std::string key_{};  // encryption key; empty: the key file does not exist yet
    Secrets secrets_{};
};

}  // namespace roll::secrets
