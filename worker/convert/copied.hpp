// Copies: second names under which HuggingFace files store a tensor again, because a
// multi-token-prediction layer shares the model's embedding and output layer. Megatron stores only
// one of each, so a copy with different values cannot be converted.
#pragma once

#include <set>
#include <string>

#include "common/error.hpp"
#include "worker/convert/source.hpp"

namespace roll::convert {

// Decides from the native (Megatron) config which copies the model has. Fails with InvalidArgument
// if the model lacks the tensor that a copy refers to.
Result<void> select_copies(Source& source);

// Sets the fields of the native config that say which copies exist, from the tensor names in
// `found`. Then selects the copies.
Result<void> settle_copies(Source& source, const std::set<std::string>& found);

// Compares each copy with the tensor that it repeats. Fails with Corrupt if they differ; the
// message names the copy.
Result<void> check_copies(const Source& source);

}  // namespace roll::convert
