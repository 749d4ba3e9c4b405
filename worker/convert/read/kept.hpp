// Keeps tensors that Megatron cannot name: in HuggingFace files, the copy of the embedding or of
// the output layer that a multi-token-prediction layer has may differ from the original. An mca
// checkpoint holds such tensors in kKeptFile, beside the files that Megatron reads.
#pragma once

#include <set>
#include <string>

#include "worker/convert/checkpoint/source.hpp"

namespace roll::convert {

// Compares each copy that was found in the HuggingFace files with its original. Makes a copy that
// differs a tensor of the model of its own. `found` has the names of all tensors in the files.
Result<void> keep_differing_copies(Source& source, const std::set<std::string>& found);

// Adds the tensors in kKeptFile of an mca checkpoint. Fails with Corrupt if the config announces
// the file but the file is missing, or if the file has a tensor that the model's family does not
// list as a copy of another tensor.
Result<void> read_kept(Source& source);

}  // namespace roll::convert
