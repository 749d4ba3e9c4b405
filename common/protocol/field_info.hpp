// Describes the arguments and the replies of operations, for documentation and for strict checks.
#pragma once

#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "common/json.hpp"
#include "common/protocol/arguments.hpp"

namespace roll::protocol {

// Describes one field, for the documentation.
struct FieldInfo {
    std::string name;
    Json type;  // type of the argument as JSON Schema, such as {"type": "integer"}; {}: any value
    bool required = false;
    std::string help;
};

template <class T>
Json schema_of_type() {
    if constexpr (is_optional<T>)
        return schema_of_type<typename T::value_type>();
    else if constexpr (std::is_same_v<T, Json>)
        return Json::object();
    else if constexpr (std::is_same_v<T, bool>)
        return {{"type", "boolean"}};
    else if constexpr (std::is_unsigned_v<T>)
        return {{"type", "integer"}, {"minimum", 0}};
    else if constexpr (std::is_integral_v<T>)
        return {{"type", "integer"}};
    else if constexpr (std::is_same_v<T, std::string>)
        return {{"type", "string"}};
    else
        return {{"type", "array"}, {"items", schema_of_type<typename T::value_type>()}};
}

// A visitor that describes each field.
class FieldLister {
  public:
    template <class T>
    void needs(const char* name, T&, const char* help) {
        list.push_back({name, schema_of_type<T>(), true, help});
    }
    template <class T>
    void operator()(const char* name, T&, const char* help, const Allowed& allowed = {}) {
        Json type = schema_of_type<T>();
        if (allowed.minimum) type["minimum"] = *allowed.minimum;
        if (allowed.maximum) type["maximum"] = *allowed.maximum;
        for (const std::string_view item : allowed.items) type["items"]["enum"].push_back(item);
        list.push_back({name, std::move(type), false, help});
    }
    std::vector<FieldInfo> list{};
};

// Returns the descriptions of a struct's fields.
template <class T>
std::vector<FieldInfo> fields_of() {
    T value;
    FieldLister lister;
    fields(lister, value);
    return std::move(lister.list);
}

}  // namespace roll::protocol
