// torch's own values in pickles: element types, sizes, and the call that makes a tensor from a
// storage.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "common/error.hpp"
#include "common/tensor/view.hpp"
#include "worker/formats/pickle.hpp"
#include "worker/formats/pickle_writer.hpp"

namespace roll::formats {

// Return the element type for the name of a legacy storage class ("torch FloatStorage") or of a
// dtype ("torch float32"). Return nullopt if the name is unknown.
std::optional<tensor::DType> dtype_of_storage(std::string_view global);
std::optional<tensor::DType> dtype_of_torch(std::string_view global);

// Returns the values of a tuple or list of integers, or of a torch.Size; nullopt for other nodes.
std::optional<std::vector<std::int64_t>> integers_of(const Pickle& pickle, PickleId id);

// Fails with InvalidArgument if torch does not have the tensor's type. write_tensor() requires that
// torch has the type.
Result<void> check_torch_type(const tensor::TensorInfo& info);

// Writes a contiguous tensor that fills the storage "data/KEY", as a call of
// torch._utils._rebuild_tensor_v2(storage, 0, size, stride, False, OrderedDict()). If the type has
// no storage class, calls _rebuild_tensor_v3 with an untyped storage and the type as the last
// argument.
void write_tensor(PickleWriter& out, const tensor::TensorInfo& info, std::size_t key);

}  // namespace roll::formats
