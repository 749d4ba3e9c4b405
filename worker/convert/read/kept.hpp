// Keeps tensors that Megatron cannot name. In HuggingFace files, a multi-token-prediction layer has
// copies of the embedding and the output layer, which may differ from the originals. An mca
// checkpoint holds such copies in kKeptFile, beside the files that Megatron reads.
#pragma once

#include <set>
#include <string>

#include "worker/convert/checkpoint/source.hpp"

namespace roll::convert {

// Compares each copy that was found in the HuggingFace files with its original. If the two differ,
// the copy becomes a tensor of its own in the model. `found` has the names of all tensors.
Result<void> keep_differing_copies(Source& source, const std::set<std::string>& found);

// Adds the tensors in kKeptFile of an mca checkpoint. Fails with Corrupt if the config announces
// the file but the file is missing, or if the file has a tensor that the model's family does not
// list as a copy of another tensor.
Result<void> read_kept(Source& source);

}  // namespace roll::convert
