#include "worker/train/model/saved_room.hpp"

#include <algorithm>

#include <ATen/ATen.h>

namespace roll::train {

SavedRoom::SavedRoom(const Parameters& p, const std::vector<int>& first)
    : layers_(static_cast<std::int64_t>(first.size()) - 1) {
    const bool trains = p.flat_grad.defined() && p.flat_grad.is_cpu() && layers_ > 0;
    if (!trains || std::any_of(p.specs.begin(), p.specs.end(),
                               [](const ParameterSpec& spec) { return spec.frozen; }))
        return;
    const auto bytes = [&](int begin, int end) {
        std::int64_t numel = 0;
        for (int i = begin; i < end; ++i) numel += p.grad[static_cast<std::size_t>(i)].numel();
        return numel * static_cast<std::int64_t>(p.flat_grad.element_size());
    };
    gradients_ = static_cast<std::byte*>(p.flat_grad.data_ptr());
    // All layers have parameters of the same sizes. Only LoRA could make the sizes differ. With
    // LoRA, parameters are frozen, so this code is not reached.
    room_.emplace(bytes(0, first[0]), bytes(first[0], first[1]), layers_);
}

void SavedRoom::clear() {
    if (room_) room_->clear();
}

ops::Place SavedRoom::of_layer(std::int64_t layer) {
    if (!room_ || (store_ && layer < layers_)) return {};
    return [this, layer](at::IntArrayRef sizes, const at::TensorOptions& options) {
        const auto bytes =
            c10::multiply_integers(sizes) * static_cast<std::int64_t>(options.dtype().itemsize());
        const auto place = room_->take(layer, bytes);
        return place ? at::from_blob(gradients_ + *place, sizes, options)
                     : at::empty(sizes, options);
    };
}

}  // namespace roll::train
