// Decides where forward stores the values that it saves for backward.
//
// The first micro-batch of a step saves its activations in the memory of the gradients
// (plan::SpareRoom). This memory is not used on a GPU. If a parameter is frozen, this memory is not
// used either, because the gradient of a frozen parameter must stay 0. If there is a store, all
// saved values go to the store, and only the loss uses the memory of the gradients.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "worker/plan/spare_room.hpp"
#include "worker/train/model/parameters.hpp"
#include "worker/train/model/saved_store.hpp"
#include "worker/train/ops/values.hpp"

namespace roll::train {

class SavedRoom {
  public:
    // Uses the memory of the gradients of the layers. `first` has the index of each layer's first
    // parameter, then the index after the last layer. `parameters` must outlive this object and the
    // tensors that this object makes.
    SavedRoom(const Parameters& parameters, const std::vector<int>& first);

    // Starts a new step. Requires that all saved activations have been used.
    void clear();

    // Returns the allocator for the activations that layer `layer`, counted from 0, saves. When the
    // gradients' memory is full, the allocator takes new memory. If `layer` is the number of
    // layers, returns the allocator for the loss.
    ops::Place of_layer(std::int64_t layer);

    // From now on, saved values go to `store`.
    void use(std::shared_ptr<SavedStore> store) { store_ = std::move(store); }
    SavedStore* store() const { return store_.get(); }

  private:
    std::byte* gradients_ = nullptr;
    std::int64_t layers_ = 0;
    std::optional<plan::SpareRoom> room_;
    std::shared_ptr<SavedStore> store_;
};

}  // namespace roll::train
