// Finds the known word nearest to a mistyped one, for "did you mean".
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace roll::spec {

// Returns the nearest word by edit distance (a swap of neighbours counts once); nullopt if more
// than a third of its letters, or more than `edits_max`, differ.
std::optional<std::string> nearest(std::string_view word, std::span<const std::string> known,
                                   std::size_t edits_max = 64);

}  // namespace roll::spec
