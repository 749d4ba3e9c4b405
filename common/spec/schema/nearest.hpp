// Finds the known word nearest to a mistyped word, for "did you mean".
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace roll::spec {

// Returns the known word with the smallest edit distance. Swapping two neighbouring letters counts
// as one edit. Returns nullopt if the distance exceeds `edits_max` or a third of the length of
// `word`.
std::optional<std::string> nearest(std::string_view word, std::span<const std::string> known,
                                   std::size_t edits_max = 64);

// Returns "; did you mean `NEAREST`?", or an empty text if no known word is near.
std::string did_you_mean(std::string_view word, std::span<const std::string> known);

}  // namespace roll::spec
