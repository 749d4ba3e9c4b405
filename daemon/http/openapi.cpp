#include "daemon/http/openapi.hpp"

#include <algorithm>
#include <array>
#include <string_view>

#include <fmt/format.h>

#include "common/protocol/scope.hpp"
#include "daemon/http/routes.hpp"

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

// Returns the responses of a request: `reply` is the content of the response 200.
Json responses_of(Json reply) {
    Json responses = {{"200", {{"description", "done"}, {"content", std::move(reply)}}}};
    for (const auto& [status, what] :
         {std::pair("400", "the request is not valid"), std::pair("401", "no valid token"),
          std::pair(
              "403",
              "the token's scope, the Host header or the Origin header does not allow the request"),
          std::pair("404", "the named object does not exist"), std::pair("409", "rolld refuses"),
          std::pair(
              "429",
              "the client sends too many requests or opens too many streams; see Retry-After"),
          std::pair("503", "rolld does not answer")})
        responses[status] = {{"description", what},
                             {"content", content({{"$ref", "#/components/schemas/Error"}})}};
    return responses;
}

// Describes a reply whose field "schema" has the value `schema`.
Json schema_of_reply(const std::vector<protocol::FieldInfo>& fields, const char* schema) {
    Json reply = schema_of_fields(fields);
    reply["properties"]["schema"] = {{"const", schema}};
    reply["required"] = {"schema"};
    return reply;
}

Json reply_of(const protocol::OperationInfo& info) {
    Json reply = schema_of_reply(info.reply(), info.operation->reply);
    if (info.operation->answering == protocol::Answering::Later &&
        info.operation->access != protocol::Access::Read)
        reply = {{"anyOf", {reply, {{"$ref", "#/components/schemas/Progress"}}}}};
    return content(reply);
}

Json reply_of(const Route& route) {
    const std::string type = route.type;
    if (type != "application/json")
        return {{type.substr(0, type.find(';')), {{"schema", {{"type", "string"}}}}}};
    if (*route.schema == '\0') return content({{"type", "object"}});
    return content(schema_of_reply({}, route.schema));
}

std::string needed_scope(protocol::Access access) {
    return fmt::format("Needs a token of scope {} or more.", protocol::scope_of_access(access));
}

// Adds the fields of a request: as a body if the request is a POST, else as parameters.
void add_fields(Json& method, const std::vector<protocol::FieldInfo>& fields, bool posts) {
    Json parameters = method.value("parameters", Json::array());
    if (posts) {
        method["requestBody"] = {{"content", content(schema_of_fields(fields))}};
        parameters.push_back({{"$ref", "#/components/parameters/Action"}});
    } else {
        for (Json& one : parameters_of(fields)) parameters.push_back(std::move(one));
    }
    if (!parameters.empty()) method["parameters"] = std::move(parameters);
}

Json method_of(const Route& route) {
    Json method = {{"operationId", route.name},
                   {"summary", route.summary},
                   {"description", needed_scope(route.access)},
                   {"responses", responses_of(reply_of(route))}};
    if (std::string_view(route.path).find("{id}") != std::string_view::npos)
        method["parameters"] = {{{"name", "id"},
                                 {"in", "path"},
                                 {"required", true},
                                 {"description", "number of the job"},
                                 {"schema", {{"type", "integer"}, {"minimum", 0}}}}};
    add_fields(method, route.fields(), route.posts);
    return method;
}

Json method_of(const protocol::OperationInfo& info, bool posts) {
    const protocol::Operation& operation = *info.operation;
    Json method = {{"operationId", posts ? operation.name : fmt::format("get_{}", operation.name)},
                   {"summary", operation.summary},
                   {"description", needed_scope(operation.access)},
                   {"responses", responses_of(reply_of(info))}};
    add_fields(method, info.arguments(), posts);
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
    for (const Route& route : routes())
        paths[route.path][route.posts ? "post" : "get"] = method_of(route);
    return {{"openapi", "3.1.0"},
            {"info", {{"title", "Roll"}, {"version", ROLL_VERSION}}},
            {"security", {{{"token", Json::array()}}}},
            {"paths", std::move(paths)},
            {"components", components()}};
}

}  // namespace roll::http
