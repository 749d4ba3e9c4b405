// AdamW whose moments are stored as 8-bit codes (arXiv 2110.02861), with the formulas and the code
// tables of bitsandbytes' blockwise optimizers. A value is the code's entry in a table, times the
// largest absolute value of its block of kCodeBlock elements.
//
// The blocks are those of the whole parameter. A block's largest value is reduced over the ranks
// that have parts of the block, so the codes do not depend on the layout.
#pragma once

#include <array>
#include <span>

#include "worker/train/optim/update.hpp"
#include "worker/train/optim/whole_sums.hpp"

namespace roll::train {

// Make the updates of a chunk's parameters; on a GPU, the first function calls the second, with at
// least one update. State: the codes state1 and state2 of this rank's own rows, and absmax1 and
// absmax2 of all blocks of the whole parameter. All ranks of the dp and tp groups that `sums` uses
// must call these functions with the same parameters.
void adamw_8bit(std::span<const Update> updates, const WholeSums& sums);
void adamw_8bit_on_gpu(std::span<const Update> updates, const WholeSums& sums);

// An update computes weight = (weight - step * m / (sqrt(v) + eps)) * keep.
struct EightBitFactors {
    double step, eps, keep;
};
EightBitFactors eight_bit_factors(const Update& update);

// Returns the ascending values of the codes: bitsandbytes' dynamic map, for values with or without
// a sign.
std::array<float, 256> code_table(bool is_signed);

}  // namespace roll::train
