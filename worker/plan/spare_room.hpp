// Computes offsets in the gradients' memory at which the first micro-batch of a step saves its
// activations.
//
// The memory of a layer's gradients is free until this micro-batch's backward reaches the layer and
// writes them. Layer i may therefore save its activations in the gradient memory of the layers
// before it: backward uses these activations in layer i, before it reaches those layers. The loss
// may use all of this memory for its temporary buffers.
//
// Pure: computes offsets in bytes only. worker/train/model/saved_room.hpp makes tensors at these
// offsets; the plan subtracts the bytes that fit here from the memory that it reports.
#pragma once

#include <cstdint>
#include <optional>

namespace roll::plan {

class SpareRoom {
  public:
    // Requires `layers` layers with `layer_bytes` of gradients each; the first layer's gradients
    // begin at offset `begin`.
    SpareRoom(std::int64_t begin, std::int64_t layer_bytes, std::int64_t layers)
        : begin_(begin),
          layer_bytes_(layer_bytes),
          layers_(layers) {
        clear();
    }

    void clear() { used_ = begin_; }

    // Reserves `bytes` for data of one layer, behind the previous block. Returns the block's
    // offset, or nullopt if the block does not fit. If `layer` is the number of layers, the block
    // is for the loss.
    std::optional<std::int64_t> take(std::int64_t layer, std::int64_t bytes) {
        const std::int64_t place = (used_ + kAlignment - 1) / kAlignment * kAlignment;
        if (layer > layers_ || place + bytes > begin_ + layer * layer_bytes_) return std::nullopt;
        used_ = place + bytes;
        return place;
    }

  private:
    // Alignment of blocks in bytes: a cache line, which is also an AVX-512 register
    static constexpr std::int64_t kAlignment = 64;

    std::int64_t begin_;
    std::int64_t layer_bytes_;
    std::int64_t layers_;
    std::int64_t used_ = 0;
};

}  // namespace roll::plan
