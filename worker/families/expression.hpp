// Arithmetic expressions of family files, such as "num_attention_heads * kv_channels", over the
// integers of a config. The operators are + - * / and parentheses. A division must not leave a
// remainder. If the value of a name is a list, the name stands for the list's length. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "common/error.hpp"
#include "common/json.hpp"

namespace roll::families {

// Returns the value of the expression. Names are keys of `values`; the name "hf.a.b" is the key "b"
// in nested objects "hf" and "a". Fails with InvalidArgument if a name is missing or a division has
// a remainder; the message quotes the name or the division.
Result<std::int64_t> evaluate(std::string_view expression, const Json& values);

// Returns the value at a path such as "a.b" in nested objects; nullptr if it is absent or null.
const Json* value_at(const Json& config, const std::string& path);

// Returns true if the value at a path such as "a.b" is present and is null.
bool is_null_at(const Json& config, const std::string& path);

}  // namespace roll::families
