// "Did you mean": the known word nearest to a mistyped one.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace roll::spec {

// By edit distance (a swap of neighbours counts once); nothing if even the nearest is another word:
// a third of its letters, or more than `edits_max` of them, differ.
std::optional<std::string> nearest(std::string_view word, std::span<const std::string> known,
                                   std::size_t edits_max = 64);

}  // namespace roll::spec
