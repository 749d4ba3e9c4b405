#include "daemon/secrets/store.hpp"

#include <algorithm>
#include <regex>

#include <fmt/format.h>
#include <sodium.h>

#include "common/check.hpp"
#include "common/files.hpp"
#include "common/hash.hpp"
#include "common/json.hpp"

namespace roll::secrets {
namespace {

constexpr std::string_view kMagic = "ROLLSEC1";
constexpr std::size_t kKeyBytes = crypto_aead_xchacha20poly1305_ietf_KEYBYTES;
constexpr std::size_t kNonceBytes = crypto_aead_xchacha20poly1305_ietf_NPUBBYTES;
constexpr std::size_t kTagBytes = crypto_aead_xchacha20poly1305_ietf_ABYTES;

std::filesystem::path key_in(const std::filesystem::path& directory) {
    return directory / "secrets.key";
}
std::filesystem::path sealed_in(const std::filesystem::path& directory) {
    return directory / "secrets.sealed";
}

unsigned char* bytes_of(std::string& text) { return reinterpret_cast<unsigned char*>(text.data()); }
const unsigned char* bytes_of(std::string_view text) {
    return reinterpret_cast<const unsigned char*>(text.data());
}

std::string draw(std::size_t bytes) {
    std::string drawn(bytes, '\0');
    randombytes_buf(drawn.data(), drawn.size());
    return drawn;
}

// Returns a random suffix for the name of a temporary file. A fixed name could belong to an
// incomplete file that a killed rolld left.
std::string draw_name() { return to_hex(randombytes_random()); }

tl::unexpected<Error> damaged(const std::filesystem::path& directory, const std::string& how) {
    return fail(ErrorCode::Corrupt, sealed_in(directory).string() + " " + how,
                "restore secrets.key and secrets.sealed from a backup, or remove both and set the "
                "secrets again");
}

Result<void> check(const core::SecretName& secret, const std::string& value) {
    static const std::regex kName("[A-Za-z_][A-Za-z0-9_]{0,127}");
    if (!std::regex_match(secret.name, kName) || secret.name.starts_with("ROLL_")) {
        return fail(ErrorCode::InvalidArgument,
                    secret.name +
                        " is not a valid secret name; allowed: the name of an environment "
                        "variable that does not begin with ROLL_");
    }
    if (value.empty() || value.size() > kValueBytesMax) {
        return fail(ErrorCode::InvalidArgument,
                    fmt::format("the value of {} has {} bytes; allowed: 1 to {}", secret.name,
                                value.size(), kValueBytesMax));
    }
    // Refuse invalid UTF-8, because a message could not contain the value unchanged.
    const Json text = value;
    if (value.find('\0') != value.npos || Json::parse(dump(text)) != text) {
        return fail(
            ErrorCode::InvalidArgument,
            "the value of " + secret.name + " is not text; allowed: UTF-8 without NUL bytes",
            "encode binary values, for example with base64");
    }
    return {};
}

}  // namespace

Result<Store> Store::open(const std::filesystem::path& directory) {
    ROLL_CHECK(sodium_init() >= 0);
    Store store(directory);
    auto key = read_private_file(key_in(directory));
    if (!key && key.error().code != ErrorCode::NotFound) return tl::unexpected(key.error());
    if (key) store.key_ = *std::move(key);
    auto sealed = read_file(sealed_in(directory));
    if (!sealed && sealed.error().code != ErrorCode::NotFound)
        return tl::unexpected(sealed.error());
    if (key && store.key_.size() != kKeyBytes)
        return damaged(directory, "cannot be opened: secrets.key is not a valid key");
    if (!sealed) return store;
    if (!key) return damaged(directory, "cannot be opened: secrets.key does not exist");
    ROLL_TRY(store.secrets_, store.unseal(*sealed));
    return store;
}

Result<Store::Secrets> Store::unseal(const std::string& bytes) const {
    const std::string_view all = bytes;
    const std::size_t head = kMagic.size() + kNonceBytes;
    if (all.size() < head + kTagBytes || !all.starts_with(kMagic))
        return damaged(directory_, "is not a secrets file");
    const auto nonce = all.substr(kMagic.size(), kNonceBytes);
    const auto cipher = all.substr(head);
    std::string text(cipher.size() - kTagBytes, '\0');
    const int opened = crypto_aead_xchacha20poly1305_ietf_decrypt(
        bytes_of(text), nullptr, nullptr, bytes_of(cipher), cipher.size(), bytes_of(kMagic),
        kMagic.size(), bytes_of(nonce), bytes_of(std::string_view(key_)));
    if (opened != 0)
        return damaged(directory_,
                       "cannot be opened: the file was changed, or secrets.key is not its key");
    const Json list = Json::parse(text, nullptr, false);
    sodium_memzero(text.data(), text.size());
    Secrets secrets;
    for (const Json& one : list) {
        JsonReader r(one, "secret");
        const core::SecretName name{r.get<std::string>("user"), r.get<std::string>("name")};
        const Time at{std::chrono::milliseconds(r.get<std::int64_t>("set_at"))};
        secrets[name] = {r.get<std::string>("value"), at};
        if (!r.finish_lenient())
            return damaged(directory_, "has contents that this rolld cannot read");
    }
    return secrets;
}

Result<void> Store::make_key() {
    std::string key = draw(kKeyBytes);
    const auto temporary = directory_ / (".secrets.key." + draw_name());
    ROLL_TRY_VOID(write_private_file(temporary, key));
    ROLL_TRY_VOID(rename_new(temporary, key_in(directory_)));
    key_ = std::move(key);
    return {};
}

// Replaces all secrets. Updates the memory only after the new file is on disk.
Result<void> Store::keep(Secrets secrets) {
    if (key_.empty()) ROLL_TRY_VOID(make_key());
    Json list = Json::array();
    for (const auto& [name, secret] : secrets) {
        list.push_back({{"user", name.user},
                        {"name", name.name},
                        {"value", secret.value},
                        {"set_at", secret.set_at.time_since_epoch().count()}});
    }
    std::string text = dump(list);
    const std::string nonce = draw(kNonceBytes);
    std::string cipher(text.size() + kTagBytes, '\0');
    crypto_aead_xchacha20poly1305_ietf_encrypt(
        bytes_of(cipher), nullptr, bytes_of(std::string_view(text)), text.size(), bytes_of(kMagic),
        kMagic.size(), nullptr, bytes_of(std::string_view(nonce)),
        bytes_of(std::string_view(key_)));
    sodium_memzero(text.data(), text.size());
    ROLL_TRY_VOID(
        write_file_atomically(sealed_in(directory_), std::string(kMagic) + nonce + cipher));
    secrets_ = std::move(secrets);
    return {};
}

Result<void> Store::set(const core::SecretName& name, const std::string& value, Time now) {
    ROLL_TRY_VOID(check(name, value));
    const auto of_user = std::ranges::count_if(
        secrets_, [&](const auto& one) { return one.first.user == name.user; });
    if (!secrets_.contains(name) && of_user >= static_cast<std::ptrdiff_t>(kOfUserMax)) {
        return fail(ErrorCode::Refused,
                    fmt::format("{} has {} secrets already", name.user, of_user),
                    "rollctl secret remove NAME");
    }
    Secrets changed = secrets_;
    changed[name] = {value, now};
    return keep(std::move(changed));
}

Result<void> Store::remove(const core::SecretName& name) {
    if (!secrets_.contains(name))
        return fail(ErrorCode::NotFound, name.user + " has no secret " + name.name,
                    "rollctl secret list");
    Secrets changed = secrets_;
    changed.erase(name);
    return keep(std::move(changed));
}

core::SecretNames Store::names() const {
    core::SecretNames names;
    for (const auto& [name, secret] : secrets_) names.insert(name);
    return names;
}

std::optional<std::string> Store::value(const core::SecretName& name) const {
    const auto found = secrets_.find(name);
    return found == secrets_.end() ? std::nullopt : std::optional(found->second.value);
}

}  // namespace roll::secrets
