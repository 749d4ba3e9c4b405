// What a stored tensor is: its name, type and shape, and its bytes where they lie.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "common/error.hpp"
#include "common/tensor/dtype.hpp"

namespace roll::tensor {

using Shape = std::vector<std::int64_t>;

struct TensorInfo {
    std::string name;
    DType dtype = DType::F32;
    Shape shape;
    friend bool operator==(const TensorInfo&, const TensorInfo&) = default;
};

// Row-major and contiguous. The bytes belong to whoever opened the file, and may be unaligned.
struct TensorView {
    TensorInfo info;
    std::span<const std::byte> bytes;
};

// A tensor inside a storage that may hold more: what torch saves for a slice. Strides count
// elements; whoever made the view checked that every element lies in the storage.
struct StridedView {
    TensorInfo info;
    std::vector<std::int64_t> strides;
    const std::byte* first = nullptr;  // element [0, 0, ...]
};

StridedView strided(const TensorView& view);

// The strides of a contiguous tensor.
std::vector<std::int64_t> row_major(const Shape& shape);

// Sizes of shapes that come from files: no dim is negative and nothing overflows, or Corrupt.
Result<std::int64_t> element_count(const Shape& shape);
Result<std::int64_t> byte_count(DType dtype, const Shape& shape);

// "[4, 128]"
std::string to_string(const Shape& shape);

}  // namespace roll::tensor
