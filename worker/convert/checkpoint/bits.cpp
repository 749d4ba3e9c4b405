#include "worker/convert/checkpoint/bits.hpp"

#include <algorithm>

namespace roll::convert {
namespace {

// 1 / 127, rounded as bitsandbytes does
constexpr float kOf127 = 7.874015718698502e-3F;

float element(const BitsWeight& weight, std::int64_t row, std::int64_t column) {
    const std::int64_t at = row * weight.columns + column;
    if (weight.block == 0)
        return static_cast<float>(static_cast<std::int8_t>(weight.codes[at])) *
               weight.scales[static_cast<std::size_t>(row)] * kOf127;
    const auto pair = static_cast<std::uint8_t>(weight.codes[at / 2]);
    const std::uint8_t code = at % 2 == 0 ? pair >> 4U : pair & 15U;
    return weight.map[code] * weight.scales[static_cast<std::size_t>(at / weight.block)];
}

constexpr const char* kScaleSuffix = "_scale_inv";

double scale_at(const BlockScale& scale, std::int64_t row, std::int64_t column) {
    const tensor::StridedView& view = scale.scales;
    const std::int64_t at = row * view.strides[0] + column * view.strides[1];
    return tensor::load_float(view.info.dtype,
                              view.first + at * tensor::bits_of(view.info.dtype) / 8);
}

}  // namespace

void decode(const BitsWeight& weight, const ChangedBox& box, float* to) {
    for (std::int64_t i = 0; i < box.rows; ++i)
        for (std::int64_t j = 0; j < box.columns; ++j)
            to[i * box.row_stride + j * box.column_stride] =
                element(weight, box.row + i, box.column + j);
}

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
