// torch's own values in pickles: element types, sizes, and the call that makes a tensor of a
// storage.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "common/tensor/view.hpp"
#include "worker/formats/pickle.hpp"
#include "worker/formats/pickle_writer.hpp"

namespace roll::formats {

// Of a legacy storage class, "torch FloatStorage"; of a dtype, "torch float32".
std::optional<tensor::DType> dtype_of_storage(std::string_view global);
std::optional<tensor::DType> dtype_of_torch(std::string_view global);

// A tuple or list of integers, or a torch.Size of one.
std::optional<std::vector<std::int64_t>> integers_of(const Pickle& pickle, PickleId id);

// Whether torch has the type, so that write_tensor() can write one of it.
bool is_torch_type(tensor::DType dtype);

// A contiguous tensor that fills the storage "data/KEY":
// torch._utils._rebuild_tensor_v2(storage, 0, size, stride, False, OrderedDict()); of a type that
// has no storage class _rebuild_tensor_v3 of an untyped storage, with the type at the end.
void write_tensor(PickleWriter& out, const tensor::TensorInfo& info, std::size_t key);

}  // namespace roll::formats
