// Maps the model's tensors to the rank files of an MCA checkpoint of a given layout. Reading and
// writing use the same list, so one is the inverse of the other. Pure.
#pragma once

#include <string>
#include <vector>

#include "common/error.hpp"
#include "worker/convert/pieces.hpp"
#include "worker/formats/mca.hpp"

namespace roll::convert {

// Returns every tensor of every rank's file, file by file. Fails with InvalidArgument, the tensor
// and the numbers that do not divide.
Result<std::vector<Stored>> mca_layout(const std::vector<families::NativeTensor>& native,
                                       const Model& model, const formats::McaConfig& config);

// A tensor-parallel rank's shard of a native tensor. With tp 1 it is the whole tensor with the
// places of its HuggingFace parts. If tp is a multiple of the number of key-value groups, the fused
// rows are split into tp equal parts, as in Megatron since 0.16, so a rank has a part of a group.
// Fails with InvalidArgument and the numbers that do not divide.
struct Shard {
    Shape shape;
    std::vector<Piece> pieces;
};
Result<Shard> shard_of(const families::NativeTensor& tensor, const Model& model, int tp, int rank);

// Fails with InvalidArgument if a rank would have a part of a key-value group. Only Megatron 0.16
// and later support that.
Result<void> check_whole_groups(const formats::McaConfig& config);

// Return the tensor's name in a model without TransformerEngine, or with it.
std::string local_spelling(const std::string& name);
std::string transformer_engine_spelling(const std::string& name);

// Returns a transposed view per expert, named as the config says, of a tensor of Megatron's
// GroupedMLP: …experts.weight1 is [hidden, experts * rows], in memory [experts, hidden, rows];
// …experts.weight2 is [experts * rows, hidden]. Empty if `grouped` is another tensor or its shape
// does not fit.
std::vector<tensor::StridedView> experts_of(const tensor::StridedView& grouped,
                                            const formats::McaConfig& config);

// Megatron 0.17 renamed the layer inside a multi-token prediction module; the older name is the
// default.
std::string older_spelling(const std::string& name);
std::string newer_spelling(const std::string& name);

}  // namespace roll::convert
