#include "daemon/http/parameters.hpp"

#include <algorithm>
#include <cstdint>
#include <string_view>

namespace roll::http {
namespace {

constexpr int kRows = 100;
constexpr int kDepthMax = 32;  // maximum nesting depth of a request's JSON
// roll-web asks rolld one question at a time, so an operation may wait only for a short time.
constexpr int kWaitMsMax = 2000;

Result<Json> value_of(const Target& target, const protocol::FieldInfo& field,
                      const std::string& text) {
    const std::string type = field.type.value("type", "");
    if (type == "string") return Json(text);
    if (type == "array") {
        Json list = Json::array();
        for (std::string_view rest = text; !rest.empty();) {
            const std::size_t end = rest.find(',');
            list.push_back(std::string(rest.substr(0, end)));
            rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
        }
        return list;
    }
    if (type.empty()) {  // the field may have several types: for example a job's number or its name
        const bool digits = std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; });
        if (!digits || text.empty()) return Json(text);
    }
    if (type == "boolean") {
        ROLL_TRY(const auto flag, number<int>(target, field.name));
        return Json(flag.value_or(0) != 0);
    }
    if (field.type.contains("minimum") || type.empty()) {
        ROLL_TRY(const auto value, number<std::uint64_t>(target, field.name));
        return Json(*value);
    }
    ROLL_TRY(const auto value, number<std::int64_t>(target, field.name));
    return Json(*value);
}

Result<void> check(const Json& args, const protocol::OperationInfo& info) {
    ROLL_TRY_VOID(info.check(args));
    // OperationInfo::check() does not notice that a required field is missing if the field may have
    // any type. Check here that every required field is given.
    for (const protocol::FieldInfo& field : info.arguments()) {
        if (field.required && (!args.contains(field.name) || args[field.name].is_null()))
            return fail(ErrorCode::InvalidArgument,
                        fmt::format("{}: needs a field {}", info.operation->name, field.name));
    }
    return {};
}

// Limits the time for which rolld may wait before it answers.
void bound_wait(Json& args, const protocol::OperationInfo& info) {
    const auto fields = info.arguments();
    const bool waits =
        std::ranges::any_of(fields, [](const auto& field) { return field.name == "wait_ms"; });
    if (!waits) return;
    const bool reads = info.operation->access == protocol::Access::Read;
    const Json asked = args.value("wait_ms", Json());
    const int longest = reads ? 0 : kWaitMsMax;
    args["wait_ms"] = asked.is_number_integer() ? std::clamp<std::int64_t>(asked, 0, longest)
                                                : std::int64_t{longest};
}

}  // namespace

Result<void> only(const Target& target, const std::vector<std::string>& allowed) {
    for (const auto& [key, value] : target.query) {
        if (std::ranges::find(allowed, key) != allowed.end()) continue;
        std::string names;
        for (const std::string& name : allowed) names += (names.empty() ? "" : ", ") + name;
        return fail(ErrorCode::InvalidArgument,
                    fmt::format("unknown parameter {}; allowed: {}", key.substr(0, 60),
                                names.empty() ? "none" : names));
    }
    return {};
}

Result<Json> arguments_of_query(const Target& target, const protocol::OperationInfo& info) {
    Json args = Json::object();
    std::vector<std::string> allowed;
    for (const protocol::FieldInfo& field : info.arguments()) {
        allowed.push_back(field.name);
        const auto found = target.query.find(field.name);
        if (found == target.query.end()) continue;
        ROLL_TRY(args[field.name], value_of(target, field, found->second));
    }
    ROLL_TRY_VOID(only(target, allowed));
    const bool limited = info.operation->name == std::string_view("jobs") ||
                         info.operation->name == std::string_view("events");
    if (limited && !args.contains("limit")) args["limit"] = kRows;
    ROLL_TRY_VOID(check(args, info));
    bound_wait(args, info);
    return args;
}

Result<Json> arguments_of_body(const std::string& body, const protocol::OperationInfo& info) {
    Json args = Json::object();
    if (!body.empty()) {
        auto parsed = parse_json(body, kDepthMax);
        if (!parsed)
            return fail(ErrorCode::InvalidArgument, "the body is " + parsed.error().message);
        args = *std::move(parsed);
    }
    ROLL_TRY_VOID(check(args, info));
    bound_wait(args, info);
    return args;
}

}  // namespace roll::http
