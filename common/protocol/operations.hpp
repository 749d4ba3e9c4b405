// The table of all operations, for programs that display or check the operations. daemon/api serves
// them.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "common/protocol/arguments.hpp"
#include "common/protocol/field_info.hpp"

namespace roll::protocol {

struct OperationInfo {
    const Operation* operation;
    std::vector<FieldInfo> (*arguments)();
    // Returns the fields of the reply; an empty list if the reply is built as JSON.
    std::vector<FieldInfo> (*reply)();
    Result<void> (*check)(const Json& json);  // fails if `json` is not valid as arguments
};

std::span<const OperationInfo> operations();

// Returns nullptr if there is no operation with this name.
const OperationInfo* find_operation(std::string_view name);

}  // namespace roll::protocol
