// Reads a key of a job file that may be missing.
#pragma once

#include "common/json.hpp"

namespace roll::spec {

// Returns the value of the key; a null value if `object` is not an object or lacks the key. Copies
// nothing, unlike Json::value().
inline const Json& member(const Json& object, const char* key) {
    static const Json kNone;
    const auto found = object.find(key);
    return found == object.end() ? kNone : *found;
}

}  // namespace roll::spec
