// The router of a layer with experts: chooses the experts of each row, and orders the choices by
// expert, so that each expert multiplies consecutive rows. All numbers are in the type of the
// logits.
//
// Dimensions: M rows, E experts, K choices of each row, N = M K choices, C channels. A choice has
// two numbers: m K + k, in the order of the rows, and its place in the order of the experts. In the
// order of the experts, the choices of an expert are in the order of the rows.
#pragma once

#include <cstdint>
#include <vector>

#include <ATen/core/Tensor.h>

namespace roll::ops {

struct RouterRule {
    std::int64_t choices = 1;  // number of experts of a row
    bool normalizes = false;   // true: the weights of a row's experts are divided by their sum
};

struct Routing {
    RouterRule rule = {};
    at::Tensor probs_ME = {};    // softmax of the logits
    at::Tensor experts_MK = {};  // the experts of a row, those with the highest probabilities first
    at::Tensor weights_MK = {};
    at::Tensor place_MK = {};              // places of the choices in the order of the experts
    at::Tensor choice_N = {};              // numbers of the choices, in the order of the experts
    std::vector<std::int64_t> begin = {};  // E + 1 numbers: place of each expert's first choice

    std::int64_t experts() const { return probs_ME.size(1); }
    std::int64_t rows() const { return probs_ME.size(0); }
    std::int64_t count_of(std::int64_t expert) const {
        const auto e = static_cast<std::size_t>(expert);
        return begin[e + 1] - begin[e];
    }
    // Returns an expert's part of a tensor that is in the order of the experts.
    at::Tensor part_of(std::int64_t expert, const at::Tensor& all_NX) const {
        return all_NX.narrow(0, begin[static_cast<std::size_t>(expert)], count_of(expert));
    }
    // Return the rows, and the weights, of an expert's choices.
    at::Tensor rows_of(std::int64_t expert) const;
    at::Tensor weights_of(std::int64_t expert) const;
};

// Of equal probabilities, the one of the first expert counts as the highest.
Routing route(const at::Tensor& logits_ME, const RouterRule& rule);

// Returns start_MC plus, for each row, the sum of the rows of its choices in out_NC, which are in
// the order of the experts. Adds the choices in the order k = 0, 1, ... in the type of start_MC.
at::Tensor combined(const Routing& routing, const at::Tensor& start_MC, const at::Tensor& out_NC);

// Returns the load-balancing loss, E / K times the sum over the experts of (share of the rows that
// chose the expert) x (mean probability of the expert). The loss is 1 if all experts have equally
// many rows. It is Megatron's, and 1 / K times transformers' loss of one layer.
double balance_loss(const Routing& routing);

// Returns dlogits_ME. dweights_N: gradient of the weights, in the order of the experts. `balance`:
// factor of the gradient of balance_loss().
at::Tensor route_backward(const Routing& routing, const at::Tensor& dweights_N, double balance);

}  // namespace roll::ops
