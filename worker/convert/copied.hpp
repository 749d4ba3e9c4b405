// Second names of tensors in HuggingFace files: the embedding and the output layer that a layer of
// multi-token prediction shares with the model. Megatron has one of each, so a copy that differs
// cannot be converted.
#pragma once

#include <set>
#include <string>

#include "common/error.hpp"
#include "worker/convert/source.hpp"

namespace roll::convert {

// Sets the model's copies by the native config. InvalidArgument: a family's copy of a tensor that
// the model lacks.
Result<void> select_copies(Source& source);

// Sets the native fields by the tensors that a directory was found to hold, then selects.
Result<void> settle_copies(Source& source, const std::set<std::string>& found);

// Corrupt names a copy that differs from its tensor. Reads both.
Result<void> check_copies(const Source& source);

}  // namespace roll::convert
