// The form of a weight matrix [rows, columns] that a LoRA job packs into few bits, as bitsandbytes
// does.
//
// Int8: 8 bits per weight, and one scale per row.
//
// Nf4: 4 bits per weight, and one scale per block. A block has 64 consecutive weights of a row; the
// last block of a row may be shorter. The 4 bits select a number of the table NF4 (arXiv
// 2305.14314). The weight is this number times the scale of its block. The scale is the largest
// absolute value in the block.
//
// The scales of Nf4 may be packed, too: 8 bits per scale. The 8 bits select a number of
// bitsandbytes' dynamic map. The scale is this number times a second scale, plus an offset. Each
// group of 256 scales shares one second scale.
//
// The bytes of a row are its scales, followed by its weights. Rows share no bytes, so a row can
// move to another rank. A PackedForm may describe only some columns of the rows. Its blocks are
// then still the blocks of the whole rows.
#pragma once

#include <cstdint>

#include "common/spec/train/lora.hpp"

namespace roll::spec {

inline constexpr std::int64_t kPackedBlock = 64, kPackedScales = 256;

struct PackedForm {
    LoraBase base = LoraBase::Full;
    bool packs_scales = false;
    std::int64_t first_column = 0, columns = 0;

    bool is_packed() const { return base != LoraBase::Full; }
    // Return the index of the first block that the columns touch, and the number of blocks that
    // they touch.
    std::int64_t first_block() const { return first_column / kPackedBlock; }
    std::int64_t blocks() const {
        return (first_column + columns + kPackedBlock - 1) / kPackedBlock - first_block();
    }
    // Returns the largest number of second scales that one row may need. The first scale of a row
    // may be anywhere in a group of 256 scales. The row may therefore share its first and its last
    // group with other rows.
    std::int64_t scale_groups() const { return (blocks() + 2 * kPackedScales - 2) / kPackedScales; }
    // Returns the number of bytes of a row's scales. They come before the row's weights. If the
    // scales are packed, these bytes contain the offset, the position of the first scale in its
    // group of 256, the second scales and the packed scales.
    std::int64_t scale_bytes() const {
        if (base == LoraBase::Int8) return 4;
        return packs_scales ? 8 + 4 * scale_groups() + blocks() : 4 * blocks();
    }
    // Returns the size of a packed row in bytes, a multiple of 8.
    std::int64_t row_bytes() const {
        const std::int64_t weights = base == LoraBase::Int8 ? columns : (columns + 1) / 2;
        return (scale_bytes() + weights + 7) / 8 * 8;
    }
    friend bool operator==(const PackedForm&, const PackedForm&) = default;
};

}  // namespace roll::spec
