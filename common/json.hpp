// Strict reading of JSON objects: a missing field, a wrong type or an unknown key is an Error that
// names the path. For messages and ledger rows; job files have their own checker (common/spec),
// which reports every problem at once.
#pragma once

#include <algorithm>
#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include <nlohmann/json.hpp>

#include "common/error.hpp"

namespace roll {

using Json = nlohmann::json;                 // keys sorted: dump() is canonical
using OrderedJson = nlohmann::ordered_json;  // keys as written: for what people read

// One line of UTF-8. Bytes that are no UTF-8 (a log line in a reason, say) become U+FFFD: never
// throws.
std::string dump(const Json& json);

// Error Corrupt with the byte position if the text is not JSON, or nests deeper than 100.
Result<Json> parse_json(std::string_view text);

// Whether a value is exactly a T: an integer in T's range (no 1.0, no true), a list of such, ...
// The library's own conversions are lenient: they wrap -1, cut 2.5 and turn true into 1.
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

// Reads the fields of one object; finish() refuses what was not read. Keeps the first error.
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
    // The field itself, or a null value. Counts as read.
    const Json& raw(const char* key);
    bool has(const char* key) const { return object_ != nullptr && object_->contains(key); }

    Result<void> finish();          // unknown keys are an error
    Result<void> finish_lenient();  // unknown keys are ignored: a newer peer may send more

  private:
    const Json* find(const char* key);
    void note(const std::string& problem);
    template <class T>
    T convert(const Json& field, const char* key) {
        try {
            if (holds<T>(field)) return field.get<T>();
        } catch (const Json::exception&) {  // a T with a reader of its own
        }
        note("field " + std::string(key) + " has the wrong type: " + field.dump().substr(0, 60));
        return T{};
    }

    const Json* object_;
    std::string path_;
    std::set<std::string> read_;
    std::string problem_;
};

}  // namespace roll
