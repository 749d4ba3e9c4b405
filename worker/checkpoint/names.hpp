// Names of checkpoint directories. step-00000100.3-1 is the checkpoint of step 100 that the attempt
// with token 3-1 wrote. .step-00000100.3-1 is the same checkpoint before it is published. Pure.
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

// Parse a directory's name. Return nullopt if the name has another form. For example, the name of a
// staged or deleted checkpoint is not a final name.
std::optional<Name> parse_final_name(std::string_view text);
std::optional<Name> parse_staged_name(std::string_view text);

}  // namespace roll::checkpoint
