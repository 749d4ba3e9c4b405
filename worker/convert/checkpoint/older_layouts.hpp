// Changes the layout of rank files to that of checkpoints before Megatron core. Pure.
#pragma once

#include <array>
#include <vector>

#include "common/error.hpp"
#include "worker/convert/checkpoint/pieces.hpp"

namespace roll::convert {

// Suffixes for the parts of a tensor whose rows are interleaved: "NAME#q" is every third row of
// NAME from the first row on, "NAME#k" from the second, "NAME#v" from the third.
constexpr std::array<const char*, 3> kInterleaved{"#q", "#k", "#v"};

// Reorders the rows of an attention tensor to all queries, then all keys, then all values. Requires
// that its pieces are ordered by group, each as query, key, value.
void order_by_part(Stored& qkv);
bool is_qkv(const Stored& stored);

// Checks that a checkpoint below version 2 can have this attention tensor. Fails with
// InvalidArgument if the model has query groups, because versions below 2 define no row order for
// groups.
Result<void> check_heads(const Stored& qkv, double version);

// Converts the layout to the one that NeMo used before Megatron core. In that layout, gate and up
// are separate tensors (linear_fc1_2), and attention rows are ordered by kind (all q, all k, all
// v).
std::vector<Stored> with_gate_apart(std::vector<Stored> layout);

}  // namespace roll::convert
