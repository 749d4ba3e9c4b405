#include "worker/train/ops/packed.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <span>

#include "worker/train/ops/kernel.hpp"

namespace roll::ops {
namespace {

using spec::kPackedBlock;
using spec::kPackedScales;
using spec::LoraBase;
using spec::PackedForm;

// The table NF4 of bitsandbytes: quantiles of the normal distribution, scaled to [-1, 1].
constexpr std::array<float, 16> kNf4{-1.0F,
                                     -0.6961928009986877F,
                                     -0.5250730514526367F,
                                     -0.39491748809814453F,
                                     -0.28444138169288635F,
                                     -0.18477343022823334F,
                                     -0.09105003625154495F,
                                     0.0F,
                                     0.07958029955625534F,
                                     0.16093020141124725F,
                                     0.24611230194568634F,
                                     0.33791524171829224F,
                                     0.44070982933044434F,
                                     0.5626170039176941F,
                                     0.7229568362236023F,
                                     1.0F};

// 1 / 127, rounded as bitsandbytes does
constexpr float kOf127 = 7.874015718698502e-3F;

// Returns the dynamic map of bitsandbytes (arXiv 1511.04561): signed numbers with a decimal
// exponent and a fraction. The fraction has more bits for large numbers. Ascending.
std::array<float, 256> dynamic_map() {
    std::vector<float> map{0, 1};
    for (int i = 0; i < 7; ++i) {
        const int items = 1 << i;
        const auto scale = static_cast<float>(std::pow(10.0, i - 6));
        const float step = (1 - 0.1F) / static_cast<float>(items);
        // Returns the border k of `items` equal parts of [0.1, 1]. Computes it from the nearer end
        // and rounds once, as torch.linspace() does.
        const auto border = [&](int k) {
            return 2 * k < items ? std::fma(step, static_cast<float>(k), 0.1F)
                                 : std::fma(-step, static_cast<float>(items - k), 1.0F);
        };
        for (int k = 0; k < items; ++k) {
            const float mean = scale * ((border(k) + border(k + 1)) / 2);
            map.push_back(mean);
            map.push_back(-mean);
        }
    }
    std::ranges::sort(map);
    std::array<float, 256> sorted{};
    std::ranges::copy(map, sorted.begin());
    return sorted;
}

const std::array<float, 256>& scale_map() {
    static const std::array<float, 256> map = dynamic_map();
    return map;
}

// Returns the index of the number in an ascending table that is nearest to `value`.
std::uint8_t nearest(std::span<const float> table, float value) {
    const auto above = std::ranges::lower_bound(table, value);
    if (above == table.begin()) return 0;
    if (above == table.end()) return static_cast<std::uint8_t>(table.size() - 1);
    const float middle = (above[-1] + above[0]) / 2;
    return static_cast<std::uint8_t>(above - table.begin() - (value <= middle ? 1 : 0));
}

float largest(const float* values, std::int64_t count) {
    float most = 0;
    for (std::int64_t i = 0; i < count; ++i) most = std::max(most, std::abs(values[i]));
    return most;
}

// The packed scales of one row, as they are stored before the row's weights (PackedForm).
struct PackedScales {
    float offset = 0;
    std::uint32_t phase = 0;  // position of the row's first scale within its group of scales
    std::vector<float> groups;
    std::vector<std::uint8_t> codes;
};

// The scales of one matrix of a fused weight, packed together.
struct MatrixScales {
    float offset = 0;
    std::vector<float> groups;
    std::vector<std::uint8_t> codes;
};

MatrixScales pack_scales(std::vector<float> scales) {
    MatrixScales packed;
    double sum = 0;
    for (const float scale : scales) sum += scale;
    packed.offset = static_cast<float>(sum / static_cast<double>(scales.size()));
    for (float& scale : scales) scale -= packed.offset;
    for (std::size_t begin = 0; begin < scales.size(); begin += kPackedScales) {
        const std::size_t count = std::min<std::size_t>(kPackedScales, scales.size() - begin);
        const float most = largest(scales.data() + begin, static_cast<std::int64_t>(count));
        packed.groups.push_back(most);
        const float inverse = most > 0 ? 1 / most : 0;
        for (std::size_t i = begin; i < begin + count; ++i)
            packed.codes.push_back(nearest(scale_map(), scales[i] * inverse));
    }
    return packed;
}

// Returns the indices of the rows of the weight that belong to matrix `k`, in the order of the
// matrix.
std::vector<std::int64_t> matrix_rows(const FusedRows& fused, std::size_t k) {
    std::int64_t length = 0, begin = 0;
    for (std::size_t i = 0; i < fused.runs.size(); ++i) {
        if (i == k) begin = length;
        length += fused.runs[i];
    }
    std::vector<std::int64_t> rows;
    for (std::int64_t group = 0; group < fused.groups; ++group)
        for (std::int64_t row = 0; row < fused.runs[k]; ++row)
            rows.push_back(group * length + begin + row);
    return rows;
}

// Returns the packed scales of each row, for the blocks that contain the columns of `form`.
// `scale_OB`: the scales of all blocks of the rows.
std::vector<PackedScales> packed_scales(const PackedForm& form, const at::Tensor& scale_OB,
                                        const FusedRows& fused) {
    const std::int64_t blocks = scale_OB.size(1);
    const auto* scale = scale_OB.const_data_ptr<float>();
    std::vector<PackedScales> of_rows(static_cast<std::size_t>(scale_OB.size(0)));
    for (std::size_t k = 0; k < fused.runs.size(); ++k) {
        const std::vector<std::int64_t> rows = matrix_rows(fused, k);
        std::vector<float> scales;
        for (const std::int64_t row : rows)
            scales.insert(scales.end(), scale + row * blocks, scale + (row + 1) * blocks);
        const MatrixScales matrix = pack_scales(std::move(scales));
        for (std::int64_t i = 0; i < std::ssize(rows); ++i) {
            const std::int64_t first = i * blocks + form.first_block();
            const std::int64_t last = (first + form.blocks() - 1) / kPackedScales;
            PackedScales& row = of_rows[static_cast<std::size_t>(rows[i])];
            row.offset = matrix.offset;
            row.phase = static_cast<std::uint32_t>(first % kPackedScales);
            row.groups.assign(matrix.groups.begin() + first / kPackedScales,
                              matrix.groups.begin() + last + 1);
            row.codes.assign(matrix.codes.begin() + first,
                             matrix.codes.begin() + first + form.blocks());
        }
    }
    return of_rows;
}

void write_scales(const PackedForm& form, const PackedScales& scales, std::byte* to) {
    std::memcpy(to, &scales.offset, 4);
    std::memcpy(to + 4, &scales.phase, 4);
    std::memcpy(to + 8, scales.groups.data(), 4 * scales.groups.size());
    std::memcpy(to + 8 + 4 * form.scale_groups(), scales.codes.data(), scales.codes.size());
}

// Reads the scales of a row's blocks.
void read_scales(const PackedForm& form, const std::byte* row, float* scale_B) {
    if (!form.packs_scales) {
        std::memcpy(scale_B, row, static_cast<std::size_t>(4 * form.blocks()));
        return;
    }
    const auto* floats = reinterpret_cast<const float*>(row);
    std::uint32_t phase = 0;
    std::memcpy(&phase, row + 4, 4);
    const auto* codes = reinterpret_cast<const std::uint8_t*>(row + 8 + 4 * form.scale_groups());
    for (std::int64_t block = 0; block < form.blocks(); ++block) {
        const float group = floats[2 + (phase + block) / kPackedScales];
        scale_B[block] = scale_map()[codes[block]] * group + floats[0];
    }
}

// Returns the scales of all blocks of a row. `columns`: length of a block; the last block may be
// shorter.
at::Tensor block_scales(const at::Tensor& w_OI, std::int64_t columns) {
    const std::int64_t inputs = w_OI.size(1), blocks = (inputs + columns - 1) / columns;
    const at::Tensor scale_OB = at::empty({w_OI.size(0), blocks}, at::kFloat);
    const auto* w = w_OI.const_data_ptr<float>();
    auto* scale = scale_OB.data_ptr<float>();
    for_rows(w_OI.size(0), 1, [&](std::int64_t begin, std::int64_t count) {
        for (std::int64_t row = begin; row < begin + count; ++row)
            for (std::int64_t block = 0; block < blocks; ++block)
                scale[row * blocks + block] = largest(w + row * inputs + block * columns,
                                                      std::min(columns, inputs - block * columns));
    });
    return scale_OB;
}

void pack_int8(const PackedForm& form, const float* w_I, float scale, std::byte* row) {
    std::memcpy(row, &scale, 4);
    const float inverse = scale > 0 ? 127 / scale : 0;
    for (std::int64_t i = 0; i < form.columns; ++i)
        row[4 + i] = static_cast<std::byte>(
            static_cast<std::int8_t>(std::nearbyint(w_I[form.first_column + i] * inverse)));
}

// `scale_B`: the exact scales of all blocks of the row. The codes are chosen by these scales.
void pack_nf4(const PackedForm& form, const float* w_I, const float* scale_B, std::byte* row) {
    auto* codes = reinterpret_cast<std::uint8_t*>(row + form.scale_bytes());
    for (std::int64_t i = 0; i < form.columns; ++i) {
        const std::int64_t column = form.first_column + i;
        const float scale = scale_B[column / kPackedBlock];
        const float value = scale > 0 ? w_I[column] * (1 / scale) : 0;
        const std::uint8_t code = nearest(kNf4, value);
        codes[i / 2] = static_cast<std::uint8_t>(i % 2 == 0 ? code << 4U : codes[i / 2] | code);
    }
}

template <class S>
void unpack_row(const PackedForm& form, const std::byte* row, float* scale_B, S* to) {
    if (form.base == LoraBase::Int8) {
        float scale = 0;
        std::memcpy(&scale, row, 4);
        const auto* codes = reinterpret_cast<const std::int8_t*>(row + 4);
        for (std::int64_t i = 0; i < form.columns; ++i)
            to[i] = static_cast<S>(static_cast<float>(codes[i]) * scale * kOf127);
        return;
    }
    read_scales(form, row, scale_B);
    const auto* codes = reinterpret_cast<const std::uint8_t*>(row + form.scale_bytes());
    const std::int64_t shift = form.first_column - form.first_block() * kPackedBlock;
    for (std::int64_t i = 0; i < form.columns; ++i) {
        const std::uint8_t code = i % 2 == 0 ? codes[i / 2] >> 4U : codes[i / 2] & 15U;
        to[i] = static_cast<S>(kNf4[code] * scale_B[(shift + i) / kPackedBlock]);
    }
}

}  // namespace

at::Tensor packed(const PackedForm& form, const at::Tensor& whole_OI, const FusedRows& fused) {
    const at::Tensor w_OI = whole_OI.to(at::kFloat).contiguous();
    const std::int64_t rows = w_OI.size(0), inputs = w_OI.size(1), size = form.row_bytes();
    const bool is_int8 = form.base == LoraBase::Int8;
    const at::Tensor scale_OB = block_scales(w_OI, is_int8 ? inputs : kPackedBlock);
    std::vector<PackedScales> of_rows;
    if (form.packs_scales) of_rows = packed_scales(form, scale_OB, fused);
    const at::Tensor bytes_OR = at::zeros({rows, size}, at::kByte);
    auto* bytes = static_cast<std::byte*>(bytes_OR.data_ptr());
    const auto* w = w_OI.const_data_ptr<float>();
    const auto* scale = scale_OB.const_data_ptr<float>();
    for_rows(rows, 1, [&](std::int64_t begin, std::int64_t count) {
        for (std::int64_t row = begin; row < begin + count; ++row) {
            std::byte* const to = bytes + row * size;
            const float* const own = scale + row * scale_OB.size(1);
            if (is_int8) {
                pack_int8(form, w + row * inputs, *own, to);
                continue;
            }
            pack_nf4(form, w + row * inputs, own, to);
            if (form.packs_scales)
                write_scales(form, of_rows[static_cast<std::size_t>(row)], to);
            else
                std::memcpy(to, own + form.first_block(),
                            static_cast<std::size_t>(4 * form.blocks()));
        }
    });
    return bytes_OR;
}

at::Tensor unpacked(const PackedForm& form, const at::Tensor& bytes_OR, at::ScalarType type) {
    at::Tensor w_OI = at::empty({bytes_OR.size(0), form.columns}, type);
    const auto* bytes = static_cast<const std::byte*>(bytes_OR.const_data_ptr());
    for_float_types(w_OI, [&]<class S>(S) {
        S* const w = w_OI.data_ptr<S>();
        for_rows(w_OI.size(0), 1, [&](std::int64_t begin, std::int64_t count) {
            std::vector<float> scales(static_cast<std::size_t>(form.blocks()));
            for (std::int64_t row = begin; row < begin + count; ++row)
                unpack_row(form, bytes + row * form.row_bytes(), scales.data(),
                           w + row * form.columns);
        });
    });
    return w_OI;
}

}  // namespace roll::ops
