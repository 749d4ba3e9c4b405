// Finds the tensors of a model that a checkpoint stores in a special form, that is, not as one
// tensor of a known shape.
//
// - Packed: a tensor on disk holds several tensors of the model, such as all experts of a layer.
// - Copied: HuggingFace files store a tensor again under a second name, because a multi-token
//   prediction layer shares the model's embedding and output layer. Megatron stores each of them
//   only once. A copy with different values is kept in a separate file (read/kept.hpp).
// - Carried: no config gives the tensor's shape. The tensor is copied with its shape in the files.
//
// The native config records which packed and copied tensors exist. Therefore, a conversion back
// gives the same tensors.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>

#include "common/error.hpp"
#include "worker/convert/checkpoint/source.hpp"
#include "worker/formats/torch_file.hpp"

namespace roll::convert {

// kKeptFile is the file of an mca checkpoint for the tensors that Megatron cannot name. kKeptField
// is the field of the native config that is true if this file exists.
constexpr const char* kKeptFile = "roll/kept.safetensors";
constexpr const char* kKeptField = "hf_kept_tensors";

using Shapes = std::map<std::string, Shape>;  // shapes of tensors, by name

// Determines the model's packed tensors from the native config.
Result<void> select_packed(Source& source);

// Determines the model's packed tensors from `found`, the names and shapes of the tensors in the
// directory's files. Records the result in the native config. Fails with InvalidArgument if a shape
// fits two ways of packing.
Result<void> settle_packed(Source& source, const Shapes& found);

// An output layer that is tied to the embedding. `name` is the HuggingFace name under which some
// files nevertheless store the output layer. `embedding` is the embedding's number in the model.
// tied_output() returns nullopt if the model's output layer is not tied.
struct TiedOutput {
    std::string name;
    int embedding = 0;
};
std::optional<TiedOutput> tied_output(const Source& source);

// Determines from the native (Megatron) config which tensors of the model are copies of other
// tensors (families::CopiedTensor). Fails with InvalidArgument if the model lacks the tensor that a
// copy is made of.
Result<void> select_copies(Source& source);

// Sets the fields of the native config that tell which copies exist, from the tensor names in
// `found`. Then calls select_copies().
Result<void> settle_copies(Source& source, const std::set<std::string>& found);

// Add to the model those tensors of `found` that the family lists as carried (copied unchanged).
// carry_hf() takes HuggingFace names, and carry_native() takes native names. Every rank of a
// carried tensor's pipeline stage holds the whole tensor.
void carry_hf(Source& source, const Shapes& found);
void carry_native(Source& source, const Shapes& found);

// Adds the family's carried tensors that are in `file`, the file of the first rank of pipeline
// stage `pp`.
Result<void> carry_rank(Source& source, const formats::TorchFile& file, int pp);

}  // namespace roll::convert
