// Maps the model's tensors to the rank files of an MCA (ROLL's Megatron-based) checkpoint with a
// given layout. Reading and writing use the same map, so each reverses the other. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/error.hpp"
#include "worker/convert/checkpoint/pieces.hpp"
#include "worker/formats/mca.hpp"

namespace roll::convert {

// Returns every tensor of every rank's file, file by file. Fails with InvalidArgument if a tensor
// cannot be split evenly; the message has the tensor's name, its size and the number of parts.
Result<std::vector<Stored>> mca_layout(const std::vector<families::NativeTensor>& native,
                                       const Model& model, const formats::McaConfig& config);

// Returns a native tensor as a checkpoint without tensor parallelism stores it, in one piece.
// `file` of the result is empty.
Result<Stored> whole_native(const families::NativeTensor& tensor, const Model& model);

// Checks that each rank has only whole key-value groups. Otherwise fails with InvalidArgument,
// because only Megatron 0.16 and later support parts of groups.
Result<void> check_whole_groups(const formats::McaConfig& config);

// Returns the grouped name of an expert's tensor: "…experts.linear_fc1.weight1" for
// "…experts.local_experts.1.linear_fc1.weight".
std::string grouped_spelling(std::string name, std::int64_t expert);

// Return the tensor's name in a model without TransformerEngine (local), or with TransformerEngine.
std::string local_spelling(const std::string& name);
std::string transformer_engine_spelling(const std::string& name);

// Splits a tensor of Megatron's GroupedMLP into one transposed view per expert. `config` determines
// the names of the views. GroupedMLP has two tensors:
// - `experts.weight1`: shape [hidden, experts * rows], stored in the order [experts, hidden, rows]
// - `experts.weight2`: shape [experts * rows, hidden]
// Returns an empty list if `grouped` is neither of them, or has another shape.
std::vector<tensor::StridedView> experts_of(const tensor::StridedView& grouped,
                                            const formats::McaConfig& config);

// Convert a tensor's name between Megatron versions. Megatron 0.17 renamed the layer inside a
// multi-token prediction module. older_spelling() returns the name in versions before 0.17, and
// newer_spelling() the name since 0.17. Roll writes the older name by default.
std::string older_spelling(const std::string& name);
std::string newer_spelling(const std::string& name);

}  // namespace roll::convert
