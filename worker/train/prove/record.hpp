// The numbers and whole tensors that a training run computed, and the comparison of two runs.
//
// Quantities are named "STEP.loss", "STEP.grad_norm", "STEP.clip_factor", "STEP.grad_zeros",
// "STEP.grad.NAME", "STEP.weight.NAME" and "STEP.norms.LAYER.KIND". The optimizer's state, such as
// the first moments, is named "STEP.exp_avg.NAME". An evaluation has "valid.loss" and
// "valid.tokens".
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "worker/train/pipeline/train_step.hpp"

namespace roll::train {

using Named = std::map<std::string, at::Tensor>;

// Two different values of one quantity. The values are from two runs or, if `of_copies`, from two
// ranks of one run that hold copies.
struct Difference {
    std::string name;
    double error = 0;  // the error, as error_of() computes it
    // The values of the element that differs most, and its index; `index` is empty if the quantity
    // is a plain number
    std::vector<std::int64_t> index = {};
    double seen = 0, expected = 0;
    bool of_copies = false;
};

struct Record {
    Named values;
    std::vector<Difference> unequal = {};  // copies that should be bitwise equal
};

// Returns max|a - b| / max|b|, or max|a - b| if all elements of b are 0. Returns infinity if the
// tensors have different sizes, and NaN if an element is NaN.
double error_of(const at::Tensor& a, const at::Tensor& b);

// Adds a number. If another rank has already added it, compares the two numbers.
void note_number(Record& record, const std::string& name, double number);

// Copies a rank's part of a parameter's tensor to its place in the whole tensor. If another rank
// has already copied an element, compares the two values. If an element of `tensor` is NaN, this
// rank does not have this element. If an element of the whole tensor is NaN, no rank has copied it.
void note_part(Record& record, const std::string& name, const ParameterSpec& spec,
               const at::Tensor& tensor);

// Adds all gradients, weights and optimizer states of a rank. Each step must have another prefix.
// If ranks share optimizer state, each rank adds its own rows.
void note_state(Record& record, const std::string& prefix, TrainStep& trainer);

// Adds the numbers that a step returned. These numbers describe the whole model, so every rank adds
// the same numbers.
void note_result(Record& record, const std::string& prefix, const StepResult& result);

// Adds the sums over the preference pairs of a step or of an evaluation.
void note_pairs(Record& record, const std::string& prefix, const PairSums& sums);

// Returns the quantities of `seen` that differ from `reference` by more than `limit`, and the
// unequal copies in `seen`. The result is in the order in which a step computes the quantities.
// `parameters` lists the names of the model's parameters in the order of forward; gradients are in
// the opposite order.
std::vector<Difference> differences(const Record& seen, const Named& reference, double limit,
                                    std::span<const std::string> parameters = {});

}  // namespace roll::train
