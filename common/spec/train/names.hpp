// The texts that a key of the job file may have, with the values that they stand for.
#pragma once

#include <array>
#include <string>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "common/enum_name.hpp"
#include "common/error.hpp"

namespace roll::spec {

// Returns the enumerator whose name equals `text`. Fails with InvalidArgument if there is none; the
// message has `path`, the path of the key, and the known names.
template <class E, std::size_t N>
Result<E> pick(const std::string& path, const std::string& text,
               const std::array<const char*, N>& names) {
    if (const auto known = find_name<E>(names, text)) return *known;
    return fail(ErrorCode::InvalidArgument, fmt::format("{} {} is not supported yet; supported: {}",
                                                        path, text, fmt::join(names, ", ")));
}

}  // namespace roll::spec
