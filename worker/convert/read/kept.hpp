// Keeps tensors that Megatron cannot name. In HuggingFace files, a multi-token prediction layer has
// its own copies of the embedding and the output layer. These copies may differ from the originals.
// An mca checkpoint stores such copies in kKeptFile, beside the files that Megatron reads.
#pragma once

#include <set>
#include <string>

#include "worker/convert/checkpoint/source.hpp"

namespace roll::convert {

// Compares each copy in the HuggingFace files with its original. A copy that differs becomes a
// separate tensor of the model. `found` has the names of all tensors in the files.
Result<void> keep_differing_copies(Source& source, const std::set<std::string>& found);

// Adds the tensors in kKeptFile of an mca checkpoint. Fails with Corrupt if the config announces
// kKeptFile but the file is missing. Also fails with Corrupt if the file has a tensor that the
// family does not list as a copy of another tensor.
Result<void> read_kept(Source& source);

}  // namespace roll::convert
