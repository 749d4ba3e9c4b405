// Makes tensors in plan::SpareRoom: the first micro-batch of a step saves its activations in the
// gradients' memory. On a GPU, or if a parameter is frozen (its gradient must stay 0), there is no
// such room.
#pragma once

#include <cstdint>
#include <optional>

#include "worker/plan/spare_room.hpp"
#include "worker/train/model/parameters.hpp"
#include "worker/train/ops/place.hpp"

namespace roll::train {

class SavedRoom {
  public:
    // Uses the gradients of `layers` layers with `count` parameters each, from parameter `first`
    // on. `parameters` must outlive this and its tensors.
    SavedRoom(const Parameters& parameters, int first, int count, std::int64_t layers);

    // Starts a new step; all activations must have been used.
    void clear();

    // Returns the allocator for what layer `layer`, counted from 0, saves; it uses new memory if
    // there is no room. The loss is layer `layers`.
    ops::Place of_layer(std::int64_t layer);

  private:
    std::byte* gradients_ = nullptr;
    std::optional<plan::SpareRoom> room_;
};

}  // namespace roll::train
