// Computes the places in the gradients' memory at which the first micro-batch of a step stores its
// activations.
//
// Until the backward of this micro-batch reaches a layer, the memory of the layer's gradients is
// unused. Layer i may therefore store its activations in the gradient memory of earlier layers.
// Backward reads these activations in layer i, before it reaches the earlier layers. The loss may
// use the gradient memory of all layers for its temporary buffers.
//
// Pure: computes only offsets in bytes. worker/train/model/saved_room.hpp makes tensors at these
// offsets. The plan of a job subtracts the bytes of these activations from its memory estimate.
#pragma once

#include <cstdint>
#include <optional>

namespace roll::plan {

class SpareRoom {
  public:
    // `layers`: number of layers. `layer_bytes`: size of the gradients of each layer. `begin`:
    // offset of the first layer's gradients.
    SpareRoom(std::int64_t begin, std::int64_t layer_bytes, std::int64_t layers)
        : begin_(begin),
          layer_bytes_(layer_bytes),
          layers_(layers) {
        clear();
    }

    void clear() { used_ = begin_; }

    // Reserves `bytes` bytes for data of layer `layer`, behind the blocks reserved before. Returns
    // the block's offset; nullopt if the block does not fit. If `layer` is the number of layers,
    // the block is for the loss.
    std::optional<std::int64_t> take(std::int64_t layer, std::int64_t bytes) {
        const std::int64_t place = (used_ + kAlignment - 1) / kAlignment * kAlignment;
        if (layer > layers_ || place + bytes > begin_ + layer * layer_bytes_) return std::nullopt;
        used_ = place + bytes;
        return place;
    }

  private:
    // alignment of blocks in bytes: the size of a cache line and of an AVX-512 register
    static constexpr std::int64_t kAlignment = 64;

    std::int64_t begin_;
    std::int64_t layer_bytes_;
    std::int64_t layers_;
    std::int64_t used_ = 0;
};

}  // namespace roll::plan
