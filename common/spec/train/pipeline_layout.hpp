// Megatron's layout strings: which layers each part of a pipeline has, such as "Et*3|(tt|)*2tL".
//
// A string has one part for each virtual chunk of each stage, in the order of forward, separated by
// "|". E is the embedding, t a decoder layer, m a layer of multi-token prediction and L the output
// layer with the loss. "x*3" repeats a symbol, and "(...)*3" repeats what is in the parentheses,
// which may contain "|". Commas and spaces have no meaning. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/error.hpp"

namespace roll::spec {

// Returns the symbols of each part, such as {"Ettt", "tt", "tt", "tL"}. Fails with InvalidArgument.
// The error message begins with a verb whose subject is the layout string.
Result<std::vector<std::string>> layout_parts(std::string_view layout);

// Returns the string of a model whose parts have these numbers of decoder layers.
std::string layout_string(const std::vector<std::int64_t>& layers);

}  // namespace roll::spec
