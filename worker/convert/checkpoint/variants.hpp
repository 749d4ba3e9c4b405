// Determines which tensors of a model a checkpoint stores in a special form, that is, not as one
// tensor of a known shape.
//
// - Packed: a tensor on disk holds several tensors of the model, such as all experts of a layer.
// - Copied: HuggingFace files store a tensor again under a second name, because a
//   multi-token-prediction layer shares the model's embedding and output layer. Megatron stores
//   only one of each. A copy with different values is kept in a file of its own (read/kept.hpp).
// - Carried: no config gives the tensor's shape. It is copied with the shape that it has in the
//   files.
//
// The native config records which packed and copied tensors exist, so that the model can be
// converted back unchanged.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>

#include "common/error.hpp"
#include "worker/convert/checkpoint/source.hpp"
#include "worker/formats/torch_file.hpp"

namespace roll::convert {

// The file of an mca checkpoint with the tensors that Megatron cannot name, and the field of the
// native config that announces this file.
constexpr const char* kKeptFile = "roll/kept.safetensors";
constexpr const char* kKeptField = "hf_kept_tensors";

using Shapes = std::map<std::string, Shape>;  // shapes of tensors, by name

// Decides from the native config which packed tensors the model has.
Result<void> select_packed(Source& source);

// Decides which packed tensors the model has from `found`, the names and shapes in the directory's
// files, and records this in the native config. Fails with InvalidArgument if a shape fits two ways
// of packing.
Result<void> settle_packed(Source& source, const Shapes& found);

// An output layer that is tied to the embedding. Holds the HuggingFace name under which some files
// store the output layer nevertheless, and the embedding's number in the model. tied_output()
// returns nullopt if the model's output layer is not tied.
struct TiedOutput {
    std::string name;
    int embedding = 0;
};
std::optional<TiedOutput> tied_output(const Source& source);

// Decides from the native (Megatron) config which copies the model has. Fails with InvalidArgument
// if the model lacks the tensor that a copy refers to.
Result<void> select_copies(Source& source);

// Sets the fields of the native config that say which copies exist, from the tensor names in
// `found`. Then selects the copies.
Result<void> settle_copies(Source& source, const std::set<std::string>& found);

// Add to the model the tensors of `found` that the family lists as carried (copied unchanged). The
// names in `found` are HuggingFace's for carry_hf() and native for carry_native(). Every rank of a
// carried tensor's pipeline stage holds the whole tensor.
void carry_hf(Source& source, const Shapes& found);
void carry_native(Source& source, const Shapes& found);

// Adds the family's carried tensors that are in `file`, the file of the first rank of pipeline
// stage `pp`.
Result<void> carry_rank(Source& source, const formats::TorchFile& file, int pp);

}  // namespace roll::convert
