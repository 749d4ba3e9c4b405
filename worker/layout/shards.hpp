// Determines the part of each tensor that a rank holds. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/error.hpp"
#include "common/tensor/view.hpp"
#include "worker/families/native_tensor.hpp"
#include "worker/formats/mca.hpp"

namespace roll::layout {

using tensor::Shape;

// A block (range of elements in each dimension) of a shard. It holds the elements [begin, begin +
// size) of NativeTensor::sources[source]. In the shard, the block begins at index `local`.
struct Box {
    std::size_t source = 0;
    Shape begin;
    Shape size;
    Shape local;
};

// The part of a native tensor that one rank holds. Elements outside all boxes are padding.
struct Shard {
    Shape shape;
    std::vector<Box> boxes;
};

// Returns the shard of a native tensor that tensor-parallel rank `rank` of `tp` ranks holds. With
// tp 1, the shard is the whole tensor. The fused query, key and value tensor is usually cut between
// key-value groups. If tp is a multiple of the number of groups, the tensor's rows are cut into tp
// equal parts, as in Megatron since 0.16. A rank may then have only a part of a group. Fails with
// InvalidArgument if a size is not divisible by the number of parts; the message has the size and
// the number of parts.
Result<Shard> shard_of(const families::NativeTensor& tensor, int tp, int rank);

// A range of a native tensor that a rank holds. The range begins at `whole` in the native tensor
// and at `local` in the rank's tensor.
struct Part {
    Shape whole;
    Shape size;
    Shape local;
};

// The part of a native tensor that one rank holds, as ranges of the native tensor itself. Elements
// outside all parts are padding.
struct Slice {
    Shape shape;
    std::vector<Part> parts;
};

// Like shard_of(), but returns ranges of the native tensor. If `padded_rows` is not 0, first pads
// the tensor to this number of rows.
Result<Slice> slice_of(const families::NativeTensor& tensor, int tp, int rank,
                       std::int64_t padded_rows);

// One tensor of a rank. `name` is the tensor's name on the rank. In this name, layers are counted
// from the chunk's first layer, and experts from the rank's first expert.
struct Held {
    std::size_t tensor = 0;  // index in the list of native tensors
    int chunk = 0;
    std::string name;
    std::optional<std::int64_t> expert;  // the expert's index on the rank
    Shard shard;
    // True on exactly one of the ranks that hold this part of the model. The other ranks hold
    // copies. There are copies of a tensor that is not split over the ranks, and of the embedding,
    // which the last stage also holds.
    bool owner = false;
    // true: the tensor is the output layer, which copies the tied embedding
    bool tied_output = false;
};

// Returns all tensors of a rank, chunk by chunk. `padded_vocab` is the number of rows of the
// embedding and of the output layer; 0: the size of the vocabulary. mca_has_rank(layout, rank) must
// be true. Fails with InvalidArgument if the layout does not fit the model; the message has the
// tensor's name, its size and the number of parts.
Result<std::vector<Held>> held_by(const std::vector<families::NativeTensor>& native,
                                  const formats::McaLayout& layout, std::int64_t padded_vocab,
                                  const formats::McaRank& rank);

}  // namespace roll::layout
