// Where a step's first micro-batch keeps what it saves for backward: in the memory of gradients.
//
// In each step a layer's gradients are first written when backward of that micro-batch has come to
// the layer: until then their memory is of no use. So what layer i saves may lie where the
// gradients of layers before it will be, since backward has used it up when it comes to them; and
// what the loss needs for a moment, anywhere. Pure: places alone, in bytes. The trainer makes
// tensors there (worker/train/model/saved_room.hpp), the plan counts what no other memory has to
// hold.
#pragma once

#include <cstdint>
#include <optional>

namespace roll::plan {

class SpareRoom {
  public:
    // `layers` layers of `layer_bytes` of gradients each, the first at `begin` of the memory.
    SpareRoom(std::int64_t begin, std::int64_t layer_bytes, std::int64_t layers)
        : begin_(begin),
          layer_bytes_(layer_bytes),
          layers_(layers) {
        clear();
    }

    void clear() { used_ = begin_; }

    // Where `bytes` of layer `layer` may lie (of the loss: layer = layers); nothing if there is no
    // room for them. Blocks come one after the other.
    std::optional<std::int64_t> take(std::int64_t layer, std::int64_t bytes) {
        const std::int64_t place = (used_ + kAlignment - 1) / kAlignment * kAlignment;
        if (layer > layers_ || place + bytes > begin_ + layer * layer_bytes_) return std::nullopt;
        used_ = place + bytes;
        return place;
    }

  private:
    static constexpr std::int64_t kAlignment = 64;  // a cache line, and a register of AVX-512

    std::int64_t begin_;
    std::int64_t layer_bytes_;
    std::int64_t layers_;
    std::int64_t used_ = 0;
};

}  // namespace roll::plan
