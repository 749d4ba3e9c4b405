#include "daemon/http/openapi.hpp"

#include <algorithm>
#include <array>
#include <string_view>

#include <fmt/format.h>

#include "common/protocol/scope.hpp"

namespace roll::http {
namespace {

constexpr std::array<std::string_view, 9> kOnlyWithKey = {
    "token_create", "token_list",  "token_revoke", "with_token", "shutdown",
    "shell_open",   "shell_write", "shell_read",   "job_file"};

Json schema_of_fields(const std::vector<protocol::FieldInfo>& fields) {
    Json properties = Json::object(), required = Json::array();
    for (const protocol::FieldInfo& field : fields) {
        properties[field.name] = field.type;
        properties[field.name]["description"] = field.help;
        if (field.required) required.push_back(field.name);
    }
    Json schema = {{"type", "object"}, {"properties", properties}};
    if (!required.empty()) schema["required"] = required;
    return schema;
}

Json content(const Json& schema) { return {{"application/json", {{"schema", schema}}}}; }

// Describes the parameters of a GET request. The elements of a list are separated by commas.
Json parameters_of(const std::vector<protocol::FieldInfo>& fields) {
    Json parameters = Json::array();
    for (const protocol::FieldInfo& field : fields) {
        Json one = {{"name", field.name},
                    {"in", "query"},
                    {"required", field.required},
                    {"description", field.help},
                    {"schema", field.type}};
        if (field.type.value("type", "") == "array") one["explode"] = false;
        parameters.push_back(std::move(one));
    }
    return parameters;
}

Json responses_of(const protocol::OperationInfo& info) {
    Json reply = schema_of_fields(info.reply());
    reply["properties"]["schema"] = {{"const", info.operation->reply}};
    reply["required"] = {"schema"};
    if (info.operation->answering == protocol::Answering::Later &&
        info.operation->access != protocol::Access::Read)
        reply = {{"anyOf", {reply, {{"$ref", "#/components/schemas/Progress"}}}}};
    Json responses = {{"200", {{"description", "done"}, {"content", content(reply)}}}};
    for (const auto& [status, what] :
         {std::pair("400", "the request is not valid"), std::pair("401", "no valid token"),
          std::pair(
              "403",
              "the token's scope, the Host header or the Origin header does not allow the request"),
          std::pair("404", "the named object does not exist"), std::pair("409", "rolld refuses"),
          std::pair("503", "rolld does not answer")})
        responses[status] = {{"description", what},
                             {"content", content({{"$ref", "#/components/schemas/Error"}})}};
    return responses;
}

Json method_of(const protocol::OperationInfo& info, bool posts) {
    const protocol::Operation& operation = *info.operation;
    const auto fields = info.arguments();
    Json method = {{"operationId", posts ? operation.name : fmt::format("get_{}", operation.name)},
                   {"summary", operation.summary},
                   {"description", fmt::format("Needs a token of scope {} or more.",
                                               protocol::scope_of_access(operation.access))},
                   {"responses", responses_of(info)}};
    if (posts) {
        method["requestBody"] = {{"content", content(schema_of_fields(fields))}};
        method["parameters"] = {{{"$ref", "#/components/parameters/Action"}}};
    } else if (!fields.empty()) {
        method["parameters"] = parameters_of(fields);
    }
    return method;
}

Json components() {
    const Json error = schema_of_fields({{"code", {{"type", "string"}}, true, "kind of the error"},
                                         {"message", {{"type", "string"}}, true, "what is wrong"},
                                         {"hint", {{"type", "string"}}, true, "what to do"}});
    Json progress = schema_of_fields(protocol::find_operation("progress")->reply());
    progress["properties"]["schema"] = {{"const", "roll.progress/1"}};
    progress["required"] = {"schema", "ticket"};
    return {{"securitySchemes", {{"token", {{"type", "http"}, {"scheme", "bearer"}}}}},
            {"parameters",
             {{"Action",
               {{"name", "X-Roll-Action"},
                {"in", "header"},
                {"required", true},
                {"description", "any value; pages of other sites cannot send this header"},
                {"schema", {{"type", "string"}}}}}}},
            {"schemas",
             {{"Error", {{"type", "object"}, {"properties", {{"error", error}}}}},
              {"Progress", progress}}}};
}

}  // namespace

bool is_served(const protocol::Operation& operation) {
    return std::ranges::find(kOnlyWithKey, std::string_view(operation.name)) == kOnlyWithKey.end();
}

Json openapi() {
    Json paths = Json::object();
    for (const protocol::OperationInfo& info : protocol::operations()) {
        if (!is_served(*info.operation)) continue;
        Json& path = paths[fmt::format("/api/v1/{}", info.operation->name)];
        path["post"] = method_of(info, true);
        if (info.operation->access == protocol::Access::Read) path["get"] = method_of(info, false);
    }
    return {{"openapi", "3.1.0"},
            {"info", {{"title", "Roll"}, {"version", ROLL_VERSION}}},
            {"security", {{{"token", Json::array()}}}},
            {"paths", std::move(paths)},
            {"components", components()}};
}

}  // namespace roll::http
