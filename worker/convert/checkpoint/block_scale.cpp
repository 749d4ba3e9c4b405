#include "worker/convert/checkpoint/block_scale.hpp"

#include <algorithm>

namespace roll::convert {
namespace {

constexpr const char* kScaleSuffix = "_scale_inv";

double scale_at(const BlockScale& scale, std::int64_t row, std::int64_t column) {
    const tensor::StridedView& view = scale.scales;
    const std::int64_t at = row * view.strides[0] + column * view.strides[1];
    return tensor::load_float(view.info.dtype,
                              view.first + at * tensor::bits_of(view.info.dtype) / 8);
}

}  // namespace

void apply(const BlockScale& scale, const ChangedBox& box, float* values) {
    for (std::int64_t i = 0; i < box.rows; ++i) {
        const std::int64_t block_row = (box.row + i) / scale.block_rows;
        float* const row = values + i * box.row_stride;
        for (std::int64_t j = 0; j < box.columns;) {
            const std::int64_t block = (box.column + j) / scale.block_columns;
            const auto factor = static_cast<float>(scale_at(scale, block_row, block));
            const std::int64_t end =
                std::min(box.columns, (block + 1) * scale.block_columns - box.column);
            for (; j < end; ++j) row[j * box.column_stride] *= factor;
        }
    }
}

std::string scaled_by(const std::string& name) {
    return name.ends_with(kScaleSuffix)
               ? name.substr(0, name.size() - std::string_view(kScaleSuffix).size())
               : "";
}

}  // namespace roll::convert
