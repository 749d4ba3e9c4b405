// Makes tensors in the space of plan::SpareRoom: the gradients' memory, where the first micro-batch
// of a step saves its activations. There is no such space on a GPU, or if a parameter is frozen,
// because the gradient of a frozen parameter must stay 0.
#pragma once

#include <cstdint>
#include <optional>

#include "worker/plan/spare_room.hpp"
#include "worker/train/model/parameters.hpp"
#include "worker/train/ops/values.hpp"

namespace roll::train {

class SavedRoom {
  public:
    // Uses the gradients' memory of `layers` layers with `count` parameters each, from parameter
    // `first` on. `parameters` must outlive this object and the tensors that it makes.
    SavedRoom(const Parameters& parameters, int first, int count, std::int64_t layers);

    // Starts a new step. Requires that all saved activations have been used.
    void clear();

    // Returns the allocator for the activations that layer `layer`, counted from 0, saves. The
    // allocator takes new memory if there is no space left. `layer` equal to `layers` stands for
    // the loss.
    ops::Place of_layer(std::int64_t layer);

  private:
    std::byte* gradients_ = nullptr;
    std::optional<plan::SpareRoom> room_;
};

}  // namespace roll::train
