// Strict reading of JSON objects in messages and ledger rows. A missing field, a wrong type or an
// unknown key is an Error that names the path. Job files have their own checker (common/spec),
// which reports all problems of a file at once.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <set>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include <nlohmann/json.hpp>

#include "common/error.hpp"

namespace roll {

using Json = nlohmann::json;  // sorts keys, so that dump() has one result for equal values
using OrderedJson = nlohmann::ordered_json;  // keeps the order of keys, for output that people read

// Returns the value on one line. Never throws: replaces bytes that are not UTF-8, for example from
// a log line, by U+FFFD.
std::string dump(const Json& json);

// Parses a JSON text. Fails with Corrupt if the text is not JSON or nests deeper than `depth_max`
// levels; the message has the byte position of the error. Use a lower limit for a value that
// becomes part of a message, because the message adds levels.
Result<Json> parse_json(std::string_view text, int depth_max = 100);

// Returns whether a JSON value is exactly a T: an integer in T's range (not 1.0 or true), a list of
// such values, ... The conversions of nlohmann::json are lenient: they wrap -1, truncate 2.5 and
// turn true into 1.
template <class T>
bool holds(const Json& json) {
    if constexpr (std::is_same_v<T, bool>) {
        return json.is_boolean();
    } else if constexpr (std::is_integral_v<T>) {
        if (json.is_number_unsigned()) return std::in_range<T>(json.get<std::uint64_t>());
        return json.is_number_integer() && std::in_range<T>(json.get<std::int64_t>());
    } else if constexpr (std::is_floating_point_v<T>) {
        return json.is_number();
    } else if constexpr (std::is_constructible_v<T, std::string>) {
        return json.is_string();
    } else if constexpr (requires { typename T::value_type; } && !std::is_same_v<T, Json>) {
        return json.is_array() &&
               std::all_of(json.begin(), json.end(), holds<typename T::value_type>);
    } else {
        return true;
    }
}

// Returns a description of the values that holds<T>() accepts, for a message: "a whole number from
// 0 to 255".
template <class T>
std::string accepted() {
    if constexpr (std::is_same_v<T, bool>) {
        return "true or false";
    } else if constexpr (std::is_same_v<T, std::int64_t>) {
        return "a whole number";
    } else if constexpr (std::is_same_v<T, std::uint64_t>) {
        return "a whole number of at least 0";
    } else if constexpr (std::is_integral_v<T>) {
        return "a whole number from " + std::to_string(std::numeric_limits<T>::min()) + " to " +
               std::to_string(std::numeric_limits<T>::max());
    } else if constexpr (std::is_floating_point_v<T>) {
        return "a number";
    } else if constexpr (std::is_constructible_v<T, std::string>) {
        return "a text";
    } else if constexpr (requires { typename T::value_type; } && !std::is_same_v<T, Json>) {
        return "a list in which each item is " + accepted<typename T::value_type>();
    } else {
        return "a value of another type";
    }
}

// Reads the fields of one object and keeps the first error. finish() fails if a field was not read.
//
//   JsonReader r(json, "heartbeat");
//   hb.seq = r.get<std::uint64_t>("seq");
//   hb.bound = r.get_or("bound", 0);
//   ROLL_TRY_VOID(r.finish());
class JsonReader {
  public:
    JsonReader(const Json& json, std::string path);

    template <class T>
    T get(const char* key) {
        const Json* field = find(key);
        if (field == nullptr) {
            note("needs a field " + std::string(key));
            return T{};
        }
        return convert<T>(*field, key);
    }
    template <class T>
    T get_or(const char* key, T fallback) {
        const Json* field = find(key);
        return field == nullptr || field->is_null() ? std::move(fallback) : convert<T>(*field, key);
    }
    // Returns the field, or a null value if the field is missing. The field then counts as read.
    const Json& raw(const char* key);
    bool has(const char* key) const { return object_ != nullptr && object_->contains(key); }

    Result<void> finish();  // fails if the object has fields that were not read
    // Like finish(), but accepts unread fields, because a newer peer may send more fields.
    Result<void> finish_lenient();

  private:
    const Json* find(const char* key);
    static std::string shortened(const Json& field);  // the value for a message, at most 60 bytes
    void note(const std::string& problem);
    template <class T>
    T convert(const Json& field, const char* key) {
        try {
            if (holds<T>(field)) return field.get<T>();
        } catch (const Json::exception&) {  // thrown by from_json() for type T
        }
        note("field " + std::string(key) + " is " + shortened(field) +
             "; allowed: " + accepted<T>());
        return T{};
    }

    const Json* object_;
    std::string path_;
    std::set<std::string> read_;
    std::string problem_;
};

}  // namespace roll
