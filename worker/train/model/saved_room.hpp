// Tensors in plan::SpareRoom: what a step's first micro-batch saves lies where gradients will be.
// There is no room on a GPU, nor where a parameter is frozen: its gradient stays 0.
#pragma once

#include <cstdint>
#include <optional>

#include "worker/plan/spare_room.hpp"
#include "worker/train/model/parameters.hpp"
#include "worker/train/ops/place.hpp"

namespace roll::train {

class SavedRoom {
  public:
    // Of `layers` layers of `count` parameters each, from number `first` on. The parameters outlive
    // this and what is made here.
    SavedRoom(const Parameters& parameters, int first, int count, std::int64_t layers);

    // A new step: what was saved is used up.
    void clear();

    // Who makes what a layer saves, counted from 0; new memory where there is no room. Of the loss:
    // layer `layers`.
    ops::Place of_layer(std::int64_t layer);

  private:
    std::byte* gradients_ = nullptr;
    std::optional<plan::SpareRoom> room_;
};

}  // namespace roll::train
