// A stored tensor: name, type, shape and a view of its bytes.
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

// A row-major, contiguous tensor. The bytes belong to the owner of the file, and may be unaligned.
struct TensorView {
    TensorInfo info;
    std::span<const std::byte> bytes;
};

// A tensor inside a larger storage, as torch saves a slice. Strides count elements. The creator of
// the view has checked that every element is inside the storage.
struct StridedView {
    TensorInfo info;
    std::vector<std::int64_t> strides;
    const std::byte* first = nullptr;  // address of element [0, 0, ...]
};

StridedView strided(const TensorView& view);

// Returns the strides of a contiguous tensor, in elements.
std::vector<std::int64_t> row_major(const Shape& shape);

// Return the number of elements or bytes of a shape read from a file. Fail with Corrupt if a
// dimension is negative or the size overflows.
Result<std::int64_t> element_count(const Shape& shape);
Result<std::int64_t> byte_count(DType dtype, const Shape& shape);

// Returns the number of elements of a shape that element_count() accepts.
std::int64_t volume(const Shape& shape);

// Formats a shape as "[4, 128]".
std::string to_string(const Shape& shape);

}  // namespace roll::tensor
