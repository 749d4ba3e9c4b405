#include "worker/convert/checkpoint/bits.hpp"

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

}  // namespace

void decode(const BitsWeight& weight, const ChangedBox& box, float* to) {
    for (std::int64_t i = 0; i < box.rows; ++i)
        for (std::int64_t j = 0; j < box.columns; ++j)
            to[i * box.row_stride + j * box.column_stride] =
                element(weight, box.row + i, box.column + j);
}

}  // namespace roll::convert
