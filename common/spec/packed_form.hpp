// The form of a weight [rows, columns] that a LoRA job packs into few bits, as bitsandbytes does.
//
// Nf4: 4 bits per weight, and a scale for each block of 64 consecutive weights of a row; a row's
// last block may be shorter. A weight is a number of the table NF4 (arXiv 2305.14314) times the
// scale, which is the block's largest absolute value. Scales may be packed, too, in 8 bits
// each: a number of bitsandbytes' dynamic map, times a second scale shared by 256 scales, plus an
// offset. Int8: 8 bits per weight, and a scale for each row.
//
// Each row has bytes of its own, its scales before its weights, so a row can move to another rank.
// A form may describe only some columns of a row; their blocks are the blocks of the whole row.
#pragma once

#include <cstdint>

#include "common/spec/lora.hpp"

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
    // Returns the largest number of second scales that one row may need. A row may begin within a
    // group of 256 scales, which share a second scale.
    std::int64_t scale_groups() const { return (blocks() + 2 * kPackedScales - 2) / kPackedScales; }
    // Returns the number of bytes before a row's weights. They are the scales. If scales are
    // packed, they are the offset, the first scale's place in its group of 256, the second scales
    // and the packed scales.
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
