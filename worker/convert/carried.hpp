// Tensors that a family carries along as they are found: their shapes follow from no config.
#pragma once

#include <map>
#include <string>

#include "common/error.hpp"
#include "worker/convert/source.hpp"
#include "worker/formats/torch_file.hpp"

namespace roll::convert {

using Shapes = std::map<std::string, Shape>;  // by name

// Adds to the model what the family carries of the tensors with these HuggingFace or native names.
// Every rank of their stage holds them whole.
void carry_hf(Source& source, const Shapes& found);
void carry_native(Source& source, const Shapes& found);

// Of what the first rank of a stage has, in a file of that rank.
Result<void> carry_rank(Source& source, const formats::TorchFile& file, int pp);

}  // namespace roll::convert
