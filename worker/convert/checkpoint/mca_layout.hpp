// Maps the model's tensors to the rank files of an MCA (ROLL's Megatron-based) checkpoint of a
// given layout. Reading and writing use the same list, so each reverses the other. Pure.
#pragma once

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

// Returns a native tensor as a checkpoint without tensor parallelism stores it, with an empty
// `file`.
Result<Stored> whole_native(const families::NativeTensor& tensor, const Model& model);

// Checks that each rank has whole key-value groups. Fails with InvalidArgument otherwise, because
// only Megatron 0.16 and later support parts of groups.
Result<void> check_whole_groups(const formats::McaConfig& config);

// Return the tensor's name in a model without TransformerEngine (local), and in a model with it.
std::string local_spelling(const std::string& name);
std::string transformer_engine_spelling(const std::string& name);

// Splits a tensor of Megatron's GroupedMLP into one transposed view per expert, named as the config
// says. …experts.weight1 has the shape [hidden, experts * rows], but the order of its elements is
// that of [experts, hidden, rows]; …experts.weight2 is [experts * rows, hidden]. Returns an empty
// list if `grouped` is not such a tensor or has another shape.
std::vector<tensor::StridedView> experts_of(const tensor::StridedView& grouped,
                                            const formats::McaConfig& config);

// older_spelling() returns the name that a tensor had before Megatron 0.17, newer_spelling() the
// name since then. Megatron 0.17 renamed the layer inside a multi-token prediction module. Roll
// writes the older name by default.
std::string older_spelling(const std::string& name);
std::string newer_spelling(const std::string& name);

}  // namespace roll::convert
