// Values that several operators take, return, or keep for the backward pass. The letters at the end
// of a tensor's name are its dimensions; rope.hpp explains them.
#pragma once

#include <array>
#include <cstdint>
#include <functional>

#include <ATen/ATen.h>

namespace roll::ops {

// Determines whether an operator's result replaces a tensor's content or is added to it.
enum class Sum { Replace, Add };

// A function that allocates the tensor for an operator's result. If the function is empty, the
// operator allocates new memory.
using Place = std::function<at::Tensor(at::IntArrayRef sizes, const at::TensorOptions& options)>;

inline at::Tensor made_in(const Place& place, at::IntArrayRef sizes,
                          const at::TensorOptions& options) {
    return place ? place(sizes, options) : at::empty(sizes, options);
}

inline constexpr std::int64_t kIgnored = -100;  // target value that marks a row without loss

// Values that rms_norm() saves for its backward. M rows, C channels.
struct RmsNormSaved {
    at::Tensor x_MC;
    at::Tensor rstd_M;  // 1 / sqrt(mean(x^2) + eps), one value per row
};

// Angles of the rotary position embedding, as rope_table() returns them.
struct RopeTable {
    at::Tensor cos_TE;  // dimensions [T, E] with E = D / 2
    at::Tensor sin_TE;
};

// Queries, keys and values in the layout of attention.
struct Heads {
    at::Tensor q_BHTD;
    at::Tensor k_BGTD;
    at::Tensor v_BGTD;
};

struct AttentionRule {
    double scale = 0;  // factor by which the scores are multiplied; 0: 1 / sqrt(D)
    // bound on the scores' magnitude: a score becomes cap * tanh(score / cap); 0: no bound
    double soft_cap = 0;
    std::int64_t window = 0;  // number of keys that a position sees, including its own; 0: no limit
};

struct AttentionSaved {
    AttentionRule rule;  // the rule of forward, with its scale filled in
    Heads heads;
    at::Tensor out_BTA;
    at::Tensor logsumexp_BHT;
    std::array<at::Tensor, 2> flash;  // values that a GPU's flash attention saves
};

}  // namespace roll::ops
