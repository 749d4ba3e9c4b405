#include "daemon/http/parameters.hpp"

#include <algorithm>
#include <cstdint>
#include <string_view>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "common/number.hpp"
#include "common/split.hpp"

namespace roll::http {
namespace {

constexpr int kRows = 100;
constexpr int kDepthMax = 32;  // maximum nesting depth of a request's JSON
// roll-web asks rolld one question at a time, so an operation may wait only for a short time.
constexpr int kWaitMsMax = 2000;

using Fields = std::vector<protocol::FieldInfo>;

std::string shown(const std::string& text) { return text.substr(0, 60); }

std::string allowed_numbers(const Json& type) {
    if (!type.contains("minimum")) return "a whole number";
    const auto minimum = type["minimum"].get<std::int64_t>();
    if (!type.contains("maximum")) return fmt::format("a whole number of at least {}", minimum);
    return fmt::format("a whole number from {} to {}", minimum,
                       type["maximum"].get<std::int64_t>());
}

tl::unexpected<Error> not_allowed(const std::string& name, const std::string& value,
                                  const std::string& allowed) {
    return fail(ErrorCode::InvalidArgument,
                fmt::format("{} is {}; allowed: {}", name, value.empty() ? "empty" : shown(value),
                            allowed));
}

Result<Json> number_of(const protocol::FieldInfo& field, const std::string& text) {
    if (const auto natural = parse_number<std::uint64_t>(text)) return Json(*natural);
    if (const auto value = parse_number<std::int64_t>(text)) return Json(*value);
    return not_allowed(field.name, text, allowed_numbers(field.type));
}

Result<Json> value_of(const protocol::FieldInfo& field, const std::string& text) {
    const std::string type = field.type.value("type", "");
    if (type == "string") return Json(text);
    if (type == "array") {
        return text.empty() ? Json::array() : Json(split_at(text, ','));
    }
    if (type.empty()) {  // the field may have several types: for example a job's number or its name
        const bool digits = std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; });
        if (!digits || text.empty()) return Json(text);
    }
    if (type == "boolean") {
        if (text == "1" || text == "true") return Json(true);
        if (text == "0" || text == "false") return Json(false);
        return not_allowed(field.name, text, "1, true, 0 or false");
    }
    return number_of(field, text);
}

Result<void> known(const std::string& what, const std::string& name, const Fields& fields) {
    if (std::ranges::find(fields, name, &protocol::FieldInfo::name) != fields.end()) return {};
    std::string names;
    for (const protocol::FieldInfo& field : fields)
        names += (names.empty() ? "" : ", ") + field.name;
    return fail(ErrorCode::InvalidArgument,
                fmt::format("unknown {} {}; allowed: {}", what, shown(name),
                            names.empty() ? "none" : names));
}

// Fails if a number or an element of a list is not one of the values that the field may have.
Result<void> check_value(const protocol::FieldInfo& field, const Json& value) {
    if (value.is_number_integer()) {
        const bool low = field.type.contains("minimum") && value < field.type["minimum"];
        const bool high = field.type.contains("maximum") && value > field.type["maximum"];
        if (low || high) return not_allowed(field.name, value.dump(), allowed_numbers(field.type));
    }
    const Json items = field.type.value("items", Json::object()).value("enum", Json::array());
    if (items.empty() || !value.is_array()) return {};
    for (const Json& item : value)
        if (item.is_string() && std::ranges::find(items, item) == items.end())
            return fail(
                ErrorCode::InvalidArgument,
                fmt::format("{} has {}; allowed: {}", field.name, shown(item.get<std::string>()),
                            fmt::join(items.get<std::vector<std::string>>(), ", ")));
    return {};
}

Result<void> check_values(const Json& args, const Fields& fields) {
    for (const protocol::FieldInfo& field : fields) {
        const auto found = args.find(field.name);
        const bool is_missing = found == args.end() || found->is_null();
        if (is_missing && field.required)
            return fail(ErrorCode::InvalidArgument,
                        fmt::format("the request has no {}, which is required", field.name));
        if (!is_missing) ROLL_TRY_VOID(check_value(field, *found));
    }
    return {};
}

Result<void> check_types(const Json& args, const protocol::OperationInfo& info) {
    const auto checked = info.check(args);
    if (checked) return {};
    return fail(ErrorCode::InvalidArgument, checked.error().message,
                "GET /api/v1/openapi.json describes the fields of each operation");
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

Result<Json> read_query(const Target& target, const Fields& fields) {
    for (const auto& [name, value] : target.query) ROLL_TRY_VOID(known("parameter", name, fields));
    Json args = Json::object();
    for (const protocol::FieldInfo& field : fields) {
        const auto found = target.query.find(field.name);
        if (found == target.query.end()) continue;
        ROLL_TRY(args[field.name], value_of(field, found->second));
    }
    ROLL_TRY_VOID(check_values(args, fields));
    return args;
}

Result<Json> read_body(const std::string& body, const Fields& fields) {
    Json args = Json::object();
    if (!body.empty()) {
        auto parsed = parse_json(body, kDepthMax);
        if (!parsed)
            return fail(ErrorCode::InvalidArgument,
                        "the body of the request cannot be read: " + parsed.error().message);
        args = *std::move(parsed);
        if (!args.is_object())
            return fail(ErrorCode::InvalidArgument,
                        fmt::format("the body is a JSON {}; allowed: an object", args.type_name()));
    }
    for (const auto& [name, value] : args.items()) ROLL_TRY_VOID(known("field", name, fields));
    ROLL_TRY_VOID(check_values(args, fields));
    return args;
}

Result<Json> arguments_of_query(const Target& target, const protocol::OperationInfo& info) {
    ROLL_TRY(Json args, read_query(target, info.arguments()));
    const bool limited = info.operation->name == std::string_view("jobs") ||
                         info.operation->name == std::string_view("events");
    if (limited && !args.contains("limit")) args["limit"] = kRows;
    ROLL_TRY_VOID(check_types(args, info));
    bound_wait(args, info);
    return args;
}

Result<Json> arguments_of_body(const std::string& body, const protocol::OperationInfo& info) {
    ROLL_TRY(Json args, read_body(body, info.arguments()));
    ROLL_TRY_VOID(check_types(args, info));
    bound_wait(args, info);
    return args;
}

}  // namespace roll::http
