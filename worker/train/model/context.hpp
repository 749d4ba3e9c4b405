// Context parallelism (parallel.cp): the ranks of a group share each sequence of a micro-batch.
//
// A sequence is cut into 2 * ranks slices of the same length. Rank r has the slices r and
// 2 * ranks - 1 - r, so all ranks have about the same number of attention scores. Everything but
// attention is computed row by row. For attention, the ranks gather the keys and values of all
// rows, in forward and again in backward. Backward then sums the gradients of keys and values over
// the ranks. A row's position, mask and window are those that it has in the whole sequence.
//
// For the sums over weights' gradients, losses and tokens, the ranks of a context-parallel group
// are replicas like any others (Groups::dp).
#pragma once

#include <span>
#include <vector>

#include "worker/train/comm/communicator.hpp"
#include "worker/train/model/chunk_spec.hpp"

namespace roll::train {

// Returns the micro-batches with the rows that rank `rank` of `ranks` has. With one rank, the
// micro-batches are unchanged. Each sequence is padded to a multiple of 2 * ranks positions.
std::vector<Microbatch> context_parts(std::span<const Microbatch> batch, int ranks, int rank);

// Like the function above, for this rank of the group. If `cp` is null, there is one rank.
std::vector<Microbatch> context_parts(std::span<const Microbatch> batch, const Communicator* cp);

// The exchange of keys and values between the ranks.
struct ContextGroup {
    Communicator* cp = nullptr;  // null: each rank has all rows
    at::Tensor row_W = {};       // ContextRows::row_W, on the device
    at::Tensor place_W = {};     // for each whole row, its index in row_W

    bool is_split() const { return cp != nullptr; }
};

// Returns the exchange of a micro-batch. `device`: the device of the heads.
ContextGroup context_group(const Microbatch& data, Communicator* cp, at::Device device);

// Returns `own` with the keys and values of all whole rows.
ops::Heads gather_keys(const ContextGroup& group, const ops::Heads& own, Tag tag);

// Takes the gradients of q, k and v. The gradients of k and v have all whole rows. Sums these two
// gradients over the ranks. Returns the gradient of q, and this rank's rows of the two sums, in the
// type of the gradient of q.
ops::Heads reduce_keys(const ContextGroup& group, const ops::Heads& d, Tag tag);

}  // namespace roll::train
