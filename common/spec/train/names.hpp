// The texts that a key of the job file may have, with the values that they stand for.
#pragma once

#include <array>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "common/error.hpp"

namespace roll::spec {

template <class E, std::size_t N>
using Names = std::array<std::pair<const char*, E>, N>;

// Returns the value of the name that equals `text`. Fails with InvalidArgument if there is none;
// the message has `path`, the path of the key, and the known names.
template <class E, std::size_t N>
Result<E> pick(const std::string& path, const std::string& text, const Names<E, N>& names) {
    std::string known;
    for (const auto& [name, value] : names) {
        if (text == name) return value;
        known += (known.empty() ? "" : ", ") + std::string(name);
    }
    return fail(ErrorCode::InvalidArgument,
                fmt::format("{} {} is not supported yet; supported: {}", path, text, known));
}

}  // namespace roll::spec
