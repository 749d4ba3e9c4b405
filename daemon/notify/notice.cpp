#include "daemon/notify/notice.hpp"

#include <algorithm>
#include <array>
#include <map>

#include <fmt/format.h>
#include <sodium.h>

namespace roll::notify {
namespace {

bool lets(const std::set<std::string>& filter, const std::string& value) {
    return filter.empty() || filter.contains(value);
}

std::string text_in(const Json& object, const char* key) {
    const Json value = object.is_object() ? object.value(key, Json()) : Json();
    return value.is_string() ? value.get<std::string>() : "";
}

std::string phase_of(const Json& event) {
    return text_in(event.value("data", Json::object()), "phase");
}

}  // namespace

std::optional<std::string> name_of(const Json& event) {
    static const std::map<std::string, std::string> kNames = {
        {"job_submitted", "submitted"},
        {"attempt_started", "started"},
        {"job_ended", "ended"},
        {"job_requeued", "requeued"},
        {"checkpoint_recorded", "checkpointed"}};
    const auto found = kNames.find(text_in(event, "kind"));
    return found == kNames.end() ? std::nullopt : std::optional(found->second);
}

bool wants(const Target& target, const Json& event, const Json& job) {
    const auto name = name_of(event);
    if (!name) return false;
    const bool failed = *name == "ended" && phase_of(event) == "failed";
    if (!target.on.contains(*name) && !(failed && target.on.contains("failed"))) return false;
    if (*name == "ended" && !lets(target.outcomes, phase_of(event))) return false;
    return lets(target.users, text_in(job, "user")) && lets(target.kinds, text_in(job, "kind"));
}

std::string body_of(const Json& event, const Json& job) {
    constexpr std::size_t kDataMax = 16u << 10;
    Json body = {{"schema", "roll.notification/1"},
                 {"seq", event.value("seq", std::int64_t{0})},
                 {"at", text_in(event, "at")},
                 {"event", name_of(event).value_or("")},
                 {"text", text_in(event, "text").substr(0, kDataMax)},
                 {"job", job},
                 {"data", event.value("data", Json())}};
    if (dump(body["data"]).size() > kDataMax) body["data"] = nullptr;
    return dump(body);
}

std::string signature(std::string_view secret, std::string_view body) {
    const auto bytes = [](std::string_view text) {
        return reinterpret_cast<const unsigned char*>(text.data());
    };
    crypto_auth_hmacsha256_state state;
    std::array<unsigned char, crypto_auth_hmacsha256_BYTES> sum{};
    crypto_auth_hmacsha256_init(&state, bytes(secret), secret.size());
    crypto_auth_hmacsha256_update(&state, bytes(body), body.size());
    crypto_auth_hmacsha256_final(&state, sum.data());
    return fmt::format("sha256={:02x}", fmt::join(sum, ""));
}

std::chrono::seconds backoff(int failures) {
    return std::chrono::seconds(std::min(300, 1 << std::clamp(failures - 1, 0, 9)));
}

}  // namespace roll::notify
