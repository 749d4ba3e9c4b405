// The scopes of HTTP tokens. A token's scope limits the operations that the token allows.
#pragma once

#include <optional>
#include <string_view>

#include "common/protocol/operation.hpp"

namespace roll::protocol {

// Returns the name of the scope that a token needs for operations with this access. The scope
// `operate` allows everything that the token's user may do.
constexpr const char* scope_of_access(Access access) {
    return access == Access::Read ? "read" : access == Access::Submit ? "submit" : "operate";
}

constexpr std::optional<Access> access_of_scope(std::string_view scope) {
    for (const Access access : {Access::Read, Access::Submit, Access::Operate})
        if (scope == scope_of_access(access)) return access;
    return std::nullopt;
}

}  // namespace roll::protocol
