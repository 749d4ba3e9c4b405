// Reads keys of a job file that may be missing.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "common/json.hpp"

namespace roll::spec {

// Returns the value of the key; a null value if `object` is not an object or lacks the key. Copies
// nothing, unlike Json::value().
inline const Json& member(const Json& object, const char* key) {
    static const Json kNone;
    const auto found = object.find(key);
    return found == object.end() ? kNone : *found;
}

// Returns the value at a JSON pointer, such as "/train/steps"; null if there is none.
inline Json key_at(const Json& document, const std::string& pointer) {
    const Json::json_pointer place(pointer);
    return document.contains(place) ? document[place] : Json();
}

// Returns the positive integer at a JSON pointer; nullopt if there is none, or if it exceeds the
// largest integer that the schema allows. A product of two such numbers fits 64 bits.
inline std::optional<std::int64_t> positive(const Json& document, const std::string& pointer) {
    constexpr std::int64_t kLargest = 1000000000;
    const Json number = key_at(document, pointer);
    return number.is_number_integer() && number > 0 && number <= kLargest
               ? std::optional(number.get<std::int64_t>())
               : std::nullopt;
}

}  // namespace roll::spec
