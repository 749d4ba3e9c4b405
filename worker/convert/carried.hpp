// Carried tensors: no config gives their shapes, so they are copied with the shapes in the files.
#pragma once

#include <map>
#include <string>

#include "common/error.hpp"
#include "worker/convert/source.hpp"
#include "worker/formats/torch_file.hpp"

namespace roll::convert {

using Shapes = std::map<std::string, Shape>;  // by name

// Adds the tensors of `found` that the family carries to the model. `found` has HuggingFace or
// native names. Every rank of the tensor's stage holds it whole.
void carry_hf(Source& source, const Shapes& found);
void carry_native(Source& source, const Shapes& found);

// Adds the carried tensors of a file of a pipeline stage's first rank.
Result<void> carry_rank(Source& source, const formats::TorchFile& file, int pp);

}  // namespace roll::convert
