#include "daemon/tokens/store.hpp"

#include <algorithm>
#include <array>

#include <fmt/format.h>
#include <sodium.h>

#include "common/check.hpp"
#include "common/files.hpp"
#include "common/io/sha256.hpp"
#include "common/json.hpp"

namespace roll::tokens {
namespace {

constexpr std::string_view kPrefix = "roll_";
constexpr std::size_t kIdBytes = 5;
constexpr std::size_t kSecretBytes = 32;
constexpr auto kLifeMin = std::chrono::minutes(1);
constexpr auto kLifeMax = std::chrono::days(400);

std::string hex_of(const unsigned char* bytes, std::size_t size) {
    std::string text(2 * size + 1, '\0');
    sodium_bin2hex(text.data(), text.size(), bytes, size);
    text.pop_back();
    return text;
}

std::string draw_hex(std::size_t size) {
    std::array<unsigned char, kSecretBytes> bytes{};
    randombytes_buf(bytes.data(), size);
    return hex_of(bytes.data(), size);
}

Result<std::pair<std::string, ApiToken>> read_token(const Json& json) {
    JsonReader r(json, "token");
    const auto time = [&](const char* key) {
        return Time(std::chrono::milliseconds(r.get<std::int64_t>(key)));
    };
    const auto id = r.get<std::string>("id");
    const auto access = protocol::access_of_scope(r.get<std::string>("scope"));
    ApiToken token{.user = r.get<std::string>("user"),
                   .access = access.value_or(protocol::Access::Read),
                   .note = r.get_or<std::string>("note", ""),
                   .created = time("created"),
                   .expires = time("expires"),
                   .sha256 = r.get<std::string>("sha256")};
    ROLL_TRY_VOID(r.finish_lenient());
    return std::pair(id, std::move(token));
}

Json token_json(const std::string& id, const ApiToken& token) {
    return {{"id", id},
            {"user", token.user},
            {"scope", protocol::scope_of_access(token.access)},
            {"note", token.note},
            {"created", token.created.time_since_epoch().count()},
            {"expires", token.expires.time_since_epoch().count()},
            {"sha256", token.sha256}};
}

}  // namespace

std::string id_of(std::string_view text) {
    const bool is_token = text.size() == kPrefix.size() + 2 * kIdBytes + 1 + 2 * kSecretBytes &&
                          text.starts_with(kPrefix);
    return is_token ? std::string(text.substr(kPrefix.size(), 2 * kIdBytes)) : std::string();
}

Result<Store> Store::open(const std::filesystem::path& directory) {
    ROLL_CHECK(sodium_init() >= 0);
    Store store(directory);
    const auto text = read_file(store.file_);
    if (!text && text.error().code == ErrorCode::NotFound) return store;
    if (!text) return tl::unexpected(text.error());
    const auto damaged = [&](const std::string& how) {
        return fail(ErrorCode::Corrupt, fmt::format("{}: {}", store.file_.string(), how),
                    "remove the file, and make new tokens with rollctl token create");
    };
    const auto list = parse_json(*text, 4);
    if (!list) return damaged(list.error().message);
    if (!list->is_array()) return damaged("is not a list of tokens");
    for (const Json& one : *list) {
        auto token = read_token(one);
        if (!token) return damaged(token.error().message);
        store.tokens_.insert(*std::move(token));
    }
    return store;
}

// Replaces all tokens. Updates the memory only after the new file is on disk.
Result<void> Store::keep(std::map<std::string, ApiToken> tokens) {
    Json list = Json::array();
    for (const auto& [id, token] : tokens) list.push_back(token_json(id, token));
    ROLL_TRY_VOID(write_file_atomically(file_, dump(list) + "\n"));
    tokens_ = std::move(tokens);
    return {};
}

Result<std::string> Store::create(ApiToken token, Time now) {
    if (token.expires < now + kLifeMin || token.expires > now + kLifeMax)
        return fail(ErrorCode::InvalidArgument,
                    "the token would expire too soon or too late; allowed: 1m to 400d",
                    "rollctl token create --scope read --expires 30d");
    std::map<std::string, ApiToken> tokens = tokens_;
    std::erase_if(tokens, [&](const auto& one) { return one.second.expires <= now; });
    const auto of_user = static_cast<std::size_t>(std::ranges::count_if(
        tokens, [&](const auto& one) { return one.second.user == token.user; }));
    if (of_user >= kOfUserMax)
        return fail(ErrorCode::Refused,
                    fmt::format("{} has {} tokens already", token.user, of_user),
                    "rollctl token revoke ID");
    const std::string id = draw_hex(kIdBytes), secret = draw_hex(kSecretBytes);
    token.created = now;
    // The secret has 256 random bits, so a plain hash protects it as well as a slow hash would.
    token.sha256 = io::sha256(secret);
    tokens[id] = std::move(token);
    ROLL_TRY_VOID(keep(std::move(tokens)));
    return fmt::format("{}{}_{}", kPrefix, id, secret);
}

Result<void> Store::revoke(const std::string& id) {
    std::map<std::string, ApiToken> tokens = tokens_;
    if (tokens.erase(id) == 0)
        return fail(ErrorCode::NotFound, "there is no token " + id, "rollctl token list");
    return keep(std::move(tokens));
}

const ApiToken* Store::find(std::string_view text, Time now) const {
    const auto found = tokens_.find(id_of(text));
    if (found == tokens_.end() || found->second.expires <= now) return nullptr;
    const std::string given = io::sha256(text.substr(text.rfind('_') + 1));
    const std::string& kept = found->second.sha256;
    const bool same =
        given.size() == kept.size() && sodium_memcmp(given.data(), kept.data(), kept.size()) == 0;
    return same ? &found->second : nullptr;
}

}  // namespace roll::tokens
