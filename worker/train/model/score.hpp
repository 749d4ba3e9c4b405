// The score layer of a reward model takes the place of the output layer. The score layer is a
// linear layer with one output, applied to the last row of each sequence (transformers:
// ...ForSequenceClassification with one label).
//
// M rows, C channels, S sequences. With tensor parallelism, each rank has the whole layer and
// computes the whole result.
#pragma once

#include <span>
#include <vector>

#include "worker/train/model/chunk_spec.hpp"

namespace roll::train {

// Returns the score of each sequence. h_MC: output of the final norm.
std::vector<double> score_values(const at::Tensor& h_MC, const at::Tensor& w_1C,
                                 const Microbatch& data);

struct ScoreGrads {
    at::Tensor dh_MC;
    at::Tensor dw_1C;  // has the type of the main weights
};

// Returns the gradients of the sum of coefficients[i] * score(i) over the sequences i.
ScoreGrads score_backward(const at::Tensor& h_MC, const at::Tensor& w_1C, const Microbatch& data,
                          std::span<const double> coefficients);

}  // namespace roll::train
