// The update rules; each rule has its own source file. A rule is a function of one parameter's own
// rows (parameters.hpp). The rule reads the gradient and changes the main weight and the state,
// element by element. Muon needs whole matrices (muon.hpp). Adafactor and 8-bit states need sums or
// maxima over whole parameters (adafactor.hpp, eight_bit.hpp).
//
// On a GPU, AdamW updates many parameters with one call (adamw_on_gpu).
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>

#include <ATen/ATen.h>

#include "common/spec/train/optimizer.hpp"
#include "worker/train/model/parameters.hpp"
#include "worker/train/ops/cpu/simd/halves.hpp"
#include "worker/train/ops/kernel.hpp"
#include "worker/train/optim/windows.hpp"

namespace roll::train {

// The arguments of one update of one parameter.
struct Update {
    const Parameters& parameters;
    std::size_t index;  // index of the parameter
    const spec::OptimizerSpec& options;
    double lr;
    double weight_decay;
    double grad_scale;   // factor by which the gradient is multiplied first
    std::int64_t steps;  // number of updates, including this one
    // The parameter's state tensors, in the order of states_of() (rules.hpp)
    std::array<at::Tensor, 4> state = {};
};

// Updates like torch.optim.AdamW, with state exp_avg and exp_avg_sq.
void adamw(const Update& update);
// Makes AdamW updates on a GPU. All updates must have the same lr and weight_decay.
void adamw_on_gpu(std::span<const Update> updates);

// Updates like adamw(), with the states in bfloat16. The update computes with the moments before
// they are rounded. Rounding is stochastic, because most changes of the second moment are smaller
// than half a step of bfloat16. The random bits are a hash of the update's number and the element's
// index in the whole parameter. Therefore, these bits do not depend on the layout.
void adamw_bf16(const Update& update);

// Updates like torch.optim.Adam: the decay is added to the gradient. State: exp_avg and exp_avg_sq.
void adam(const Update& update);

// Updates like torch.optim.SGD: the decay is added to the gradient. State: momentum_buffer, only if
// momentum > 0.
void sgd(const Update& update);

// Updates by Lion (arXiv 2302.06675, algorithm 2). State: exp_avg.
void lion(const Update& update);

// A range of elements that a rule updates in one call, on a CPU.
template <class W>
struct Slice {
    W* weight;
    const W* grad;
    std::array<W*, 2> state;
    std::int64_t size;
};

// Calls body(S{}), where S is the type of the numbers that a rule changes. updated() returns these
// numbers for this rank's own rows of parameter `i`. If the main weights are stored as halves, the
// numbers are the first halves, in bfloat16. Otherwise, the numbers are the main weights, in their
// type. The parameters must be on the CPU.
template <class Body>
void for_updated_type(const Parameters& p, const Body& body) {
    if (p.flat_rest.defined()) return body(c10::BFloat16{});
    main_type(p) == at::kDouble ? body(double{}) : body(float{});
}
inline at::Tensor updated(const Parameters& p, std::size_t i) {
    return p.flat_rest.defined() ? own_rows(p, i, p.weight[i]) : p.main[i];
}

// Calls body(Slice<W>) for ranges of elements of this rank's own rows of parameter `i`, in
// parallel. W is the type of the main weights. The gradients of a slice are from `grad`: the
// gradient, or a tensor that the rule uses instead. The states of a slice are from the first two
// tensors of `state`. The parameter must be on the CPU.
template <class Body>
void for_slices(const Parameters& p, std::size_t i, const at::Tensor& grad,
                const std::array<at::Tensor, 4>& state, const Body& body) {
    constexpr std::int64_t kGrain = 1 << 14, kBlock = 512;
    for_updated_type(p, [&]<class S>(S) {
        using W = simd::Wide<S>;
        S* const w = updated(p, i).template data_ptr<S>();
        const W* const g = grad.const_data_ptr<W>();
        const auto at = [&](std::size_t k, std::int64_t begin) {
            return state[k].defined() ? state[k].template data_ptr<W>() + begin : nullptr;
        };
        const auto update_range = [&](std::int64_t first, std::int64_t count) {
            if constexpr (std::is_same_v<S, W>) {
                body(Slice<W>{w + first, g + first, {at(0, first), at(1, first)}, count});
            } else {
                std::int16_t* const rest = p.rest[i].data_ptr<std::int16_t>();
                W joined[kBlock];
                for (std::int64_t begin = first; begin < first + count; begin += kBlock) {
                    const std::int64_t size = std::min(kBlock, first + count - begin);
                    for (std::int64_t k = 0; k < size; ++k)
                        joined[k] = simd::join(w[begin + k], rest[begin + k]);
                    body(Slice<W>{joined, g + begin, {at(0, begin), at(1, begin)}, size});
                    for (std::int64_t k = 0; k < size; ++k) {
                        w[begin + k] = simd::nearest(joined[k]);
                        rest[begin + k] = simd::rest_of(joined[k]);
                    }
                }
            }
        };
        for_windows(state, grad.numel(), [&](std::int64_t begin, std::int64_t size) {
            ops::for_rows(size, kGrain, [&](std::int64_t first, std::int64_t count) {
                update_range(begin + first, count);
            });
        });
    });
}

}  // namespace roll::train
