#include "common/tensor/view.hpp"

#include <algorithm>

namespace roll::tensor {

Result<std::int64_t> element_count(const Shape& shape) {
    std::int64_t count = 1;
    bool overflow = false;
    bool empty = false;
    for (const std::int64_t dim : shape) {
        if (dim < 0)
            return fail(ErrorCode::Corrupt, "shape " + to_string(shape) + " has a negative size");
        empty |= dim == 0;
        if (dim != 0) overflow |= __builtin_mul_overflow(count, dim, &count);
    }
    if (overflow) return fail(ErrorCode::Corrupt, "shape " + to_string(shape) + " is too large");
    return empty ? 0 : count;
}

Result<std::int64_t> byte_count(DType dtype, const Shape& shape) {
    ROLL_TRY(const std::int64_t count, element_count(shape));
    std::int64_t bits = 0;
    if (__builtin_mul_overflow(count, static_cast<std::int64_t>(bits_of(dtype)), &bits))
        return fail(ErrorCode::Corrupt, "shape " + to_string(shape) + " is too large");
    if (bits % 8 != 0)
        return fail(ErrorCode::Corrupt, "shape " + to_string(shape) + " of " + name_of(dtype) +
                                            " is not a whole number of bytes");
    return bits / 8;
}

std::vector<std::int64_t> row_major(const Shape& shape) {
    std::vector<std::int64_t> strides(shape.size(), 1);
    for (std::size_t dim = shape.size(); dim-- > 1;)
        strides[dim - 1] = strides[dim] * std::max<std::int64_t>(shape[dim], 1);
    return strides;
}

StridedView strided(const TensorView& view) {
    return {view.info, row_major(view.info.shape), view.bytes.data()};
}

std::int64_t volume(const Shape& shape) {
    std::int64_t product = 1;
    for (const std::int64_t dim : shape) product *= dim;
    return product;
}

std::string to_string(const Shape& shape) {
    std::string text = "[";
    for (const std::int64_t dim : shape) {
        if (text.size() > 1) text += ", ";
        text += std::to_string(dim);
    }
    return text + "]";
}

}  // namespace roll::tensor
