#include "worker/convert/checkpoint/delta.hpp"

#include <algorithm>
#include <array>
#include <cstring>

#include "common/check.hpp"
#include "common/tensor/bfloat.hpp"
#include "common/tensor/vectorized.hpp"

namespace roll::convert {
namespace {

constexpr std::int64_t kRows = 4;      // number of rows that are computed at a time
constexpr std::int64_t kColumns = 32;  // number of columns of a tile

struct F32 {
    using Bits = float;
    static float widen(Bits bits) { return bits; }
    static Bits narrow(float value) { return value; }
};
struct BF16 {
    using Bits = std::uint16_t;
    static float widen(Bits bits) { return tensor::bfloat_to_float(bits); }
    static Bits narrow(float value) { return tensor::float_to_bfloat(value); }
};

// The operands of change_tiles(), which changes kRows rows of `tiles` consecutive tiles. Each tile
// has kColumns columns. Strides are in elements.
struct Tiles {
    const float* left = nullptr;   // matrix [kRows, lora_rank]
    const float* right = nullptr;  // matrices [tiles, lora_rank, kColumns]
    std::int64_t lora_rank = 0;
    std::int64_t tiles = 1;
    float scale = 1;
    std::array<float, kRows> row_scale{};
    std::int64_t from_stride = kColumns;
    std::int64_t to_stride = kColumns;
};

// Computes to = (from + left * right * scale) * row_scale. A tile's sums stay in registers until
// all terms are added, so each element is read and written once.
template <class Element>
ROLL_VECTORIZED void change_tiles(const Tiles& of, const std::byte* from, std::byte* to) {
    using Bits = typename Element::Bits;
    constexpr auto kSize = static_cast<std::int64_t>(sizeof(Bits));
    const float* right = of.right;
    for (std::int64_t tile = 0; tile < of.tiles; ++tile) {
        float sums[kRows][kColumns] = {};  // an array that the compiler can keep in registers
        for (std::int64_t k = 0; k < of.lora_rank; ++k, right += kColumns)
            for (std::int64_t i = 0; i < kRows; ++i)
                for (std::int64_t j = 0; j < kColumns; ++j)
                    sums[i][j] += of.left[i * of.lora_rank + k] * right[j];
        for (std::int64_t i = 0; i < kRows; ++i) {
            Bits row[kColumns];  // read the row before writing it, because `from` may be `to`
            std::memcpy(row, from + (i * of.from_stride + tile * kColumns) * kSize, sizeof row);
            const float row_scale = of.row_scale[static_cast<std::size_t>(i)];
            for (std::int64_t j = 0; j < kColumns; ++j)
                row[j] =
                    Element::narrow((Element::widen(row[j]) + sums[i][j] * of.scale) * row_scale);
            std::memcpy(to + (i * of.to_stride + tile * kColumns) * kSize, row, sizeof row);
        }
    }
}

// A part of one tile, used at the edges of a box or for elements with a stride.
struct TilePart {
    std::int64_t rows = 0, columns = 0;
    std::int64_t begin = 0;  // first column inside the tile
};

// Like change_tiles(), but changes only a part of one tile.
template <class Element>
void change_part(const Tiles& of, const TilePart& part, const BoxSource& from,
                 const ChangedBox& box, std::byte* to) {
    using Bits = typename Element::Bits;
    constexpr auto kSize = static_cast<std::int64_t>(sizeof(Bits));
    std::array<Bits, kRows * kColumns> tile{};
    const auto each = [&](const auto& copy) {
        for (std::int64_t i = 0; i < part.rows; ++i)
            for (std::int64_t j = 0; j < part.columns; ++j)
                copy(tile[static_cast<std::size_t>(i * kColumns + part.begin + j)], i, j);
    };
    each([&](Bits& bits, std::int64_t i, std::int64_t j) {
        std::memcpy(&bits, from.first + (i * from.row_stride + j * from.column_stride) * kSize,
                    sizeof bits);
    });
    auto* const bytes = reinterpret_cast<std::byte*>(tile.data());  // NOLINT: bytes of numbers
    change_tiles<Element>(of, bytes, bytes);
    each([&](const Bits& bits, std::int64_t i, std::int64_t j) {
        std::memcpy(to + (i * box.row_stride + j * box.column_stride) * kSize, &bits, sizeof bits);
    });
}

// Changes at most kRows rows of a box. `from` and `to` point to the first of these rows. The tiles
// `of` have the operands for these rows.
template <class Element>
void change_rows(const Delta& delta, const ChangedBox& box, std::int64_t rows, Tiles of,
                 const BoxSource& from, std::byte* to) {
    constexpr auto kSize = static_cast<std::int64_t>(sizeof(typename Element::Bits));
    const bool in_rows = from.column_stride == 1 && box.column_stride == 1 && rows == kRows;
    for (std::int64_t done = 0; done < box.columns;) {
        const std::int64_t tile = (box.column + done) / kColumns;
        const std::int64_t begin = (box.column + done) % kColumns;
        const std::int64_t left = box.columns - done;
        const BoxSource at{from.first + done * from.column_stride * kSize, from.row_stride,
                           from.column_stride};
        std::byte* const target = to + done * box.column_stride * kSize;
        of.right = delta.right_tiles.data() + tile * delta.lora_rank * kColumns;
        if (in_rows && begin == 0 && left >= kColumns) {
            of.tiles = left / kColumns;
            of.from_stride = from.row_stride;
            of.to_stride = box.row_stride;
            change_tiles<Element>(of, at.first, target);
            done += of.tiles * kColumns;
        } else {
            of.tiles = 1;
            of.from_stride = of.to_stride = kColumns;
            const TilePart part{rows, std::min(kColumns - begin, left), begin};
            change_part<Element>(of, part, at, box, target);
            done += part.columns;
        }
    }
}

template <class Element>
void change_box(const Delta& delta, const ChangedBox& box, const BoxSource& from, std::byte* to) {
    constexpr auto kSize = static_cast<std::int64_t>(sizeof(typename Element::Bits));
    std::vector<float> last(static_cast<std::size_t>(kRows * delta.lora_rank));
    for (std::int64_t first = 0; first < box.rows; first += kRows) {
        const std::int64_t rows = std::min(kRows, box.rows - first);
        Tiles of;
        of.left = delta.left.data() + (box.row + first) * delta.lora_rank;
        of.lora_rank = delta.lora_rank;
        of.scale = delta.scale;
        // pad the last rows with zeros, because change_tiles() needs kRows rows
        if (rows < kRows) {
            std::copy_n(of.left, rows * delta.lora_rank, last.begin());
            of.left = last.data();
        }
        of.row_scale.fill(1);
        if (!delta.row_scale.empty())
            std::copy_n(delta.row_scale.begin() + box.row + first, rows, of.row_scale.begin());
        change_rows<Element>(
            delta, box, rows, of,
            {from.first + first * from.row_stride * kSize, from.row_stride, from.column_stride},
            to + first * box.row_stride * kSize);
    }
}

// Returns true if all elements are finite: in infinities and NaNs, all exponent bits are set.
template <class Word>
ROLL_VECTORIZED bool no_full_exponent(const std::byte* elements, std::size_t bytes, Word exponent) {
    unsigned found = 0;
    for (std::size_t at = 0; at < bytes; at += sizeof(Word)) {
        Word word = 0;
        std::memcpy(&word, elements + at, sizeof(Word));
        found |= static_cast<unsigned>((word & exponent) == exponent);
    }
    return found == 0;
}

}  // namespace

bool all_finite(tensor::DType dtype, std::span<const std::byte> elements) {
    const std::byte* const first = elements.data();
    switch (dtype) {
        case tensor::DType::BF16:
            return no_full_exponent<std::uint16_t>(first, elements.size(), 0x7F80);
        case tensor::DType::F16:
            return no_full_exponent<std::uint16_t>(first, elements.size(), 0x7C00);
        case tensor::DType::F64:
            return no_full_exponent<std::uint64_t>(first, elements.size(), 0x7FF0000000000000);
        default: return no_full_exponent<std::uint32_t>(first, elements.size(), 0x7F800000);
    }
}

std::vector<float> in_tiles(const std::vector<float>& matrix, std::int64_t rows,
                            std::int64_t columns) {
    const std::int64_t tiles = (columns + kColumns - 1) / kColumns;
    std::vector<float> result(static_cast<std::size_t>(tiles * rows * kColumns));
    for (std::int64_t i = 0; i < rows; ++i)
        for (std::int64_t tile = 0; tile < tiles; ++tile)
            std::copy_n(matrix.begin() + i * columns + tile * kColumns,
                        std::min(kColumns, columns - tile * kColumns),
                        result.begin() + (tile * rows + i) * kColumns);
    return result;
}

bool is_changed_in_place(tensor::DType dtype) {
    return dtype == tensor::DType::BF16 || dtype == tensor::DType::F32;
}

void apply(const Delta& delta, const ChangedBox& box, tensor::DType dtype, const BoxSource& from,
           std::byte* to) {
    ROLL_CHECK(is_changed_in_place(dtype));
    if (dtype == tensor::DType::BF16)
        change_box<BF16>(delta, box, from, to);
    else
        change_box<F32>(delta, box, from, to);
}

}  // namespace roll::convert
