// NEFTune's noise (spec::TokenLossSpec::neftune_alpha).
#pragma once

#include "worker/train/model/row_split.hpp"
#include "worker/train/model/sequences.hpp"

namespace roll::train {

// Adds the noise of the rule to `x_MC`, this rank's rows of the output of the embedding, if the
// rule has any. The number of a random number is that of its element in all sequences of the
// training, so that the noise does not depend on the layout or on a restart. It is drawn in `type`.
void add_noise(const Microbatch& data, const LossRule& rule, const RowSplit& rows,
               at::ScalarType type, const at::Tensor& x_MC);

}  // namespace roll::train
