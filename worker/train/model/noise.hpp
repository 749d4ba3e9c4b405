// NEFTune's noise (spec::TokenLossSpec::neftune_alpha).
#pragma once

#include "worker/train/model/row_split.hpp"
#include "worker/train/model/sequences.hpp"

namespace roll::train {

// Adds NEFTune's noise to `x_MC`, this rank's rows of the embedding's output. Does nothing if the
// rule has no noise. The noise is drawn in `type`. An element's position among all rows of the run
// decides which random number is used. Therefore, the noise does not depend on the layout or on a
// restart.
void add_noise(const Microbatch& data, const LossRule& rule, const RowSplit& rows,
               at::ScalarType type, const at::Tensor& x_MC);

}  // namespace roll::train
