// Where an MCA checkpoint of a given layout has what of the model. The same list says what to
// expect when reading and what to write, so one is the inverse of the other. Pure.
#pragma once

#include <string>
#include <vector>

#include "common/error.hpp"
#include "worker/convert/pieces.hpp"
#include "worker/formats/mca.hpp"

namespace roll::convert {

// Every tensor of every rank's file, file by file. InvalidArgument names the tensor and the numbers
// that do not divide.
Result<std::vector<Stored>> mca_layout(const std::vector<families::NativeTensor>& native,
                                       const Model& model, const formats::McaConfig& config);

// What a tensor-parallel rank has of a native tensor. Where tp is a multiple of the key-value
// groups a rank has a part of one: tp equal parts of the fused rows, as Megatron from 0.16 on has
// them. Of tp 1: the whole tensor, and where its HuggingFace parts are in it. InvalidArgument names
// the numbers that do not divide.
struct Shard {
    Shape shape;
    std::vector<Piece> pieces;
};
Result<Shard> shard_of(const families::NativeTensor& tensor, const Model& model, int tp, int rank);

// InvalidArgument: a rank would have a part of a key-value group, which only Megatron from 0.16 on
// knows.
Result<void> check_whole_groups(const formats::McaConfig& config);

// The same tensor's name as a model without TransformerEngine spells it, or with it.
std::string local_spelling(const std::string& name);
std::string transformer_engine_spelling(const std::string& name);

// Of a tensor of Megatron's GroupedMLP (…experts.weight1: [hidden, experts * rows], in memory
// [experts, hidden, rows]; …experts.weight2: [experts * rows, hidden]): each expert's tensor as the
// config names it, turned. Empty: it is none, or its shape does not fit.
std::vector<tensor::StridedView> experts_of(const tensor::StridedView& grouped,
                                            const formats::McaConfig& config);

// Megatron 0.17 renamed the layer inside a multi-token prediction; we write the older name.
std::string older_spelling(const std::string& name);
std::string newer_spelling(const std::string& name);

}  // namespace roll::convert
