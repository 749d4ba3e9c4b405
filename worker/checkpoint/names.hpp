// The names of checkpoint directories: step-00000100.3-1 is step 100 by token 3-1, and
// .step-00000100.3-1 is the same while it is being staged. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "common/ids.hpp"

namespace roll::checkpoint {

struct Name {
    std::int64_t step = 0;
    Token writer;
    friend bool operator==(const Name&, const Name&) = default;
};

std::string final_name(const Name& name);
std::string staged_name(const Name& name);

// Nothing if it is no such name. A staged or trashed name is not a final one.
std::optional<Name> parse_final_name(std::string_view text);
std::optional<Name> parse_staged_name(std::string_view text);

}  // namespace roll::checkpoint
