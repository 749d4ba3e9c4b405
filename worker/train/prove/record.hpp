// What a training run computed, as numbers and whole tensors, and the comparison of two runs.
//
// Quantities are named "STEP.loss", "STEP.grad_norm", "STEP.clip_factor", "STEP.grad_zeros",
// "STEP.grad.NAME", "STEP.weight.NAME", and for the optimizer's state, such as the first moments,
// "STEP.exp_avg.NAME". An evaluation has "valid.loss" and "valid.tokens".
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "worker/train/pipeline/train_step.hpp"

namespace roll::train {

using Named = std::map<std::string, at::Tensor>;

// Two values of one quantity that differ: those of two runs or, if `of_copies`, the copies that two
// ranks of one run have.
struct Difference {
    std::string name;
    double error = 0;  // as error_of() returns it
    // The elements that differ most; `index` is empty for a number
    std::vector<std::int64_t> index = {};
    double seen = 0, expected = 0;
    bool of_copies = false;
};

struct Record {
    Named values;
    std::vector<Difference> unequal = {};  // copies that should be bitwise equal
};

// Returns max|a - b| / max|b|, or max|a - b| if b is 0. Returns infinity for tensors of different
// sizes, and NaN if an element is NaN.
double error_of(const at::Tensor& a, const at::Tensor& b);

// Adds a number or, if another rank has already added it, compares it.
void note_number(Record& record, const std::string& name, double number);

// Copies a rank's part of a parameter's tensor to its place in the whole tensor, and compares
// elements that another rank has already copied. Elements that are NaN are not on this rank.
// Elements that no rank has copied are NaN.
void note_part(Record& record, const std::string& name, const ParameterSpec& spec,
               const at::Tensor& tensor);

// Adds all gradients, weights and optimizer states of a rank. Requires a different prefix for each
// step. If the optimizer state is shared, each rank adds the rows that it owns.
void note_state(Record& record, const std::string& prefix, TrainStep& trainer);

// Adds the numbers that a step returned. Every rank reports the same numbers for the whole model.
void note_result(Record& record, const std::string& prefix, const StepResult& result);

// Adds the sums over the preference pairs of a step or of an evaluation.
void note_pairs(Record& record, const std::string& prefix, const PairSums& sums);

// Returns the quantities of `reference` that differ by more than `limit`, and the unequal copies in
// `seen`, in the order in which a step computes them. `parameters` has the names of the model's
// parameters in the order of forward; gradients come in the opposite order.
std::vector<Difference> differences(const Record& seen, const Named& reference, double limit,
                                    std::span<const std::string> parameters = {});

}  // namespace roll::train
