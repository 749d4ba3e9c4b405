#include "daemon/notify/target.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "common/files.hpp"
#include "common/number.hpp"
#include "common/spec/schema/units.hpp"
#include "common/yaml/yaml.hpp"

namespace roll::notify {
namespace {

using Words = std::vector<std::string>;

Result<std::set<std::string>> among(const Words& words, const Words& known, const std::string& at) {
    for (const std::string& word : words) {
        if (std::ranges::find(known, word) == known.end())
            return fail(ErrorCode::InvalidArgument,
                        fmt::format("{} is {}; allowed: {}", at, word, fmt::join(known, ", ")));
    }
    return std::set<std::string>(words.begin(), words.end());
}

Result<std::chrono::seconds> duration(const std::string& text, const std::string& at) {
    const auto parsed = spec::parse_duration(text);
    if (parsed && parsed->count() > 0) return *parsed;
    return fail(ErrorCode::InvalidArgument,
                fmt::format("{} is {}; allowed: a duration such as 10s or 24h", at, text));
}

Result<std::string> read_secret(const std::string& file) {
    if (file.empty()) return std::string();
    ROLL_TRY(std::string secret, read_private_file(file));
    while (!secret.empty() && (secret.back() == '\n' || secret.back() == '\r')) secret.pop_back();
    if (secret.size() < 16)
        return fail(
            ErrorCode::InvalidArgument,
            fmt::format("{} has a secret of {} bytes; allowed: at least 16", file, secret.size()),
            "openssl rand -hex 32 > " + file);
    return secret;
}

// Checks that the file has a certificate, so that a wrong path is noticed before the first
// delivery.
Result<void> check_ca_file(const std::string& file, const Url& url, const std::string& at) {
    if (file.empty()) return {};
    if (!url.tls)
        return fail(ErrorCode::InvalidArgument,
                    fmt::format("{}.ca_file is {}; allowed: only with an https url", at, file));
    ROLL_TRY(const std::string text, read_regular_file(file));
    if (text.find("-----BEGIN CERTIFICATE-----") == std::string::npos)
        return fail(ErrorCode::InvalidArgument,
                    fmt::format("{}.ca_file is {}, which has no certificate in PEM", at, file));
    return {};
}

Result<Target> read_target(const Json& json, const std::string& at) {
    static const Words kKinds = {"train", "resume", "tokenize", "convert", "merge", "command"};
    static const Words kOutcomes = {"done", "failed", "cancelled"};
    JsonReader reader(json, at);
    Target target;
    target.name = reader.get<std::string>("name");
    const auto url = reader.get_or<std::string>("url", "");
    target.command = reader.get_or("command", target.command);
    const auto ca_file = reader.get_or<std::string>("ca_file", "");
    const auto secret = reader.get_or<std::string>("secret_file", "");
    const Words on = reader.get_or("on", Words{"ended"});
    const Words users = reader.get_or("users", Words());
    const Words kinds = reader.get_or("kinds", Words());
    const Words outcomes = reader.get_or("outcomes", Words());
    const auto timeout = reader.get_or<std::string>("timeout", "10s");
    const auto give_up = reader.get_or<std::string>("give_up", "24h");
    if (const auto read = reader.finish(); !read)
        return fail(ErrorCode::InvalidArgument, read.error().message);
    if (target.name.empty() || target.name.find('/') != std::string::npos)
        return fail(ErrorCode::InvalidArgument,
                    at + ".name is empty or contains a slash; allowed: a name without '/'");
    if (url.empty() == target.command.empty())
        return fail(ErrorCode::InvalidArgument, at + " must have `url` or `command`, but not both");
    if (!url.empty()) {
        ROLL_TRY(target.url, parse_url(url));
    }
    ROLL_TRY_VOID(check_ca_file(ca_file, target.url, at));
    target.ca_file = ca_file;
    ROLL_TRY(target.secret, read_secret(secret));
    ROLL_TRY(target.on, among(on, event_names(), at + ".on"));
    ROLL_TRY(target.kinds, among(kinds, kKinds, at + ".kinds"));
    ROLL_TRY(target.outcomes, among(outcomes, kOutcomes, at + ".outcomes"));
    ROLL_TRY(target.timeout, duration(timeout, at + ".timeout"));
    ROLL_TRY(target.give_up, duration(give_up, at + ".give_up"));
    target.users = {users.begin(), users.end()};
    return target;
}

}  // namespace

const std::vector<std::string>& event_names() {
    static const Words kNames = {"submitted", "started",  "ended",
                                 "failed",    "requeued", "checkpointed"};
    return kNames;
}

Result<Url> parse_url(const std::string& text) {
    const auto bad = [&](const char* why) {
        return fail(
            ErrorCode::InvalidArgument,
            fmt::format("{} {}; allowed: http://HOST[:PORT][/PATH] or https://...", text, why));
    };
    constexpr std::string_view kPlain = "http://", kTls = "https://";
    Url url;
    url.tls = text.starts_with(kTls);
    if (url.tls) url.port = "443";
    if (!url.tls && !text.starts_with(kPlain)) return bad("is not an http or https URL");
    if (std::ranges::any_of(text, [](unsigned char c) { return c <= ' ' || c >= 127; }))
        return bad("has a character that a URL cannot have");
    std::string rest = text.substr(url.tls ? kTls.size() : kPlain.size());
    if (const auto slash = rest.find('/'); slash != std::string::npos) {
        url.path = rest.substr(slash);
        rest.resize(slash);
    }
    if (rest.find('@') != std::string::npos) return bad("has a user name");
    const auto bracket = rest.find(']');
    const auto colon = rest.find(':', bracket == std::string::npos ? 0 : bracket);
    if (colon != std::string::npos) {
        url.port = rest.substr(colon + 1);
        rest.resize(colon);
        const auto port = parse_number<std::uint16_t>(url.port);
        if (!port || *port == 0) return bad("has a port outside 1 to 65535");
    }
    if (rest.starts_with('[') && rest.ends_with(']')) rest = rest.substr(1, rest.size() - 2);
    if (rest.empty()) return bad("has no host");
    url.host = rest;
    return url;
}

Result<std::vector<Target>> read_targets(std::string_view text, const std::string& file) {
    ROLL_TRY(const std::vector<Json> documents, yaml::read(text, file));
    const Json list = documents.empty() || !documents[0].is_object()
                          ? Json()
                          : documents[0].value("targets", Json());
    if (!list.is_array() || list.empty() || documents.size() != 1 || documents[0].size() != 1)
        return fail(ErrorCode::InvalidArgument,
                    file + " must have the key `targets` with a list, and no other key");
    std::vector<Target> targets;
    for (std::size_t i = 0; i < list.size(); ++i) {
        ROLL_TRY(Target target, read_target(list[i], fmt::format("{}: targets[{}]", file, i)));
        const auto same = [&](const Target& other) { return other.name == target.name; };
        if (std::ranges::any_of(targets, same))
            return fail(ErrorCode::InvalidArgument,
                        fmt::format("{}: two targets are named {}", file, target.name));
        targets.push_back(std::move(target));
    }
    return targets;
}

}  // namespace roll::notify
