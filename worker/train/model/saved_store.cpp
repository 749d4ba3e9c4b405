#include "worker/train/model/saved_store.hpp"

#include <algorithm>
#include <utility>

#include <ATen/ATen.h>
#include <c10/core/TensorImpl.h>

namespace roll::train {
namespace {

// Returns a tensor with the memory and the device of `of`, and another type and other sizes.
at::Tensor in_memory_of(const at::Tensor& of, caffe2::TypeMeta type, at::IntArrayRef sizes,
                        at::IntArrayRef strides, std::int64_t offset) {
    at::Tensor tensor =
        at::detail::make_tensor<c10::TensorImpl>(c10::Storage(of.storage()), of.key_set(), type);
    tensor.unsafeGetTensorImpl()->set_storage_offset(offset);
    tensor.unsafeGetTensorImpl()->set_sizes_and_strides(sizes, strides);
    return tensor;
}

// Returns the whole memory of a tensor as bytes.
at::Tensor bytes_of(const at::Tensor& tensor) {
    const auto size = static_cast<std::int64_t>(tensor.storage().nbytes());
    return in_memory_of(tensor, caffe2::TypeMeta::Make<std::uint8_t>(), {size}, {1}, 0);
}

}  // namespace

SavedStore::SavedStore(at::Device device, std::int64_t least) : device_(device), least_(least) {}

bool SavedStore::takes(const at::Tensor& tensor) const {
    return tensor.defined() && tensor.device() == device_ &&
           static_cast<std::int64_t>(tensor.storage().nbytes()) >= least_;
}

void SavedStore::count(std::int64_t bytes) {
    now_ += bytes;
    most_ = std::max(most_, now_);
}

void ParkedValues::park(SavedStore& store, std::span<at::Tensor* const> values) {
    std::vector<const c10::StorageImpl*> memories;
    for (std::size_t place = 0; place < values.size(); ++place) {
        at::Tensor& value = *values[place];
        if (!store.takes(value)) continue;
        const c10::StorageImpl* const memory = value.storage().unsafeGetStorageImpl();
        const auto found = std::ranges::find(memories, memory);
        const auto index = static_cast<std::size_t>(found - memories.begin());
        if (found == memories.end()) {
            kept_.push_back(store.keep(bytes_of(value)));
            memories.push_back(memory);
        }
        views_.push_back({place, index, value.dtype(), value.sizes().vec(), value.strides().vec(),
                          value.storage_offset()});
    }
    // Free the memory at the end. If memory were freed in the loop, a later value could get memory
    // at the same address.
    for (const View& view : views_) values[view.place]->reset();
}

void ParkedValues::fetch() {
    for (const std::unique_ptr<KeptBytes>& kept : kept_) kept->fetch();
}

void ParkedValues::restore(std::span<at::Tensor* const> values) {
    std::vector<at::Tensor> memories;
    for (std::unique_ptr<KeptBytes>& kept : std::exchange(kept_, {}))
        memories.push_back(kept->take());
    for (const View& view : std::exchange(views_, {}))
        *values[view.place] =
            in_memory_of(memories[view.memory], view.type, view.sizes, view.strides, view.offset);
}

}  // namespace roll::train
