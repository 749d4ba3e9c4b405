// Changes the layout of rank files to the layout of checkpoints before Megatron core. Pure.
#pragma once

#include <array>
#include <vector>

#include "common/error.hpp"
#include "worker/convert/checkpoint/pieces.hpp"

namespace roll::convert {

// Suffixes for the three parts of a tensor with interleaved rows. Each part has every third row of
// NAME: "NAME#q" from row 0 on, "NAME#k" from row 1 on, and "NAME#v" from row 2 on.
constexpr std::array<const char*, 3> kInterleaved{"#q", "#k", "#v"};

// Reorders the rows of an attention tensor: first all queries, then all keys, then all values.
// Requires that the pieces of `qkv` are ordered by group, and within a group as query, key, value.
void order_by_part(Stored& qkv);
bool is_qkv(const Stored& stored);

// Checks that a checkpoint with a version below 2 can have this attention tensor. Fails with
// InvalidArgument if the model has query groups, because versions below 2 define no row order for
// groups.
Result<void> check_heads(const Stored& qkv, double version);

// Converts the layout to NeMo's layout before Megatron core. In that layout, gate and up are
// separate tensors; up is named linear_fc1_2. Attention rows are ordered by kind: all q, all k, all
// v.
std::vector<Stored> with_gate_apart(std::vector<Stored> layout);

}  // namespace roll::convert
