// The arithmetic of family files: "num_attention_heads * kv_channels" over a config's whole
// numbers.
// + - * / and parentheses; a division must come out even, a list counts its entries. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "common/error.hpp"
#include "common/json.hpp"

namespace roll::families {

// Names are looked up in `values`, "hf.a.b" in the objects of it. InvalidArgument names what is
// missing or does not divide.
Result<std::int64_t> evaluate(std::string_view expression, const Json& values);

// The value at "a.b" of nested objects; nullptr if it is absent or null.
const Json* value_at(const Json& config, const std::string& path);

// Whether the value at "a.b" is null, and not absent.
bool is_null_at(const Json& config, const std::string& path);

}  // namespace roll::families
