// Carried tensors: tensors whose shapes no config gives. They are copied with the shapes that they
// have in the files.
#pragma once

#include <map>
#include <string>

#include "common/error.hpp"
#include "worker/convert/source.hpp"
#include "worker/formats/torch_file.hpp"

namespace roll::convert {

using Shapes = std::map<std::string, Shape>;  // shapes of tensors, by name

// Add to the model each tensor of `found` that the family carries. The names in `found` are
// HuggingFace's for carry_hf() and native for carry_native(). Every rank of a carried tensor's
// pipeline stage holds the whole tensor.
void carry_hf(Source& source, const Shapes& found);
void carry_native(Source& source, const Shapes& found);

// Adds the carried tensors in `file`, which is the file of the first rank of pipeline stage `pp`.
Result<void> carry_rank(Source& source, const formats::TorchFile& file, int pp);

}  // namespace roll::convert
