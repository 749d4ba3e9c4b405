// Options of the loss per token, for the objectives pretrain, sft and distill (`objective` in a job
// file).
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "common/json.hpp"

namespace roll::spec {

struct TokenLossSpec {
    // The loss of a token has two terms, as in transformers and torch: (1 - label_smoothing) times
    // -log p of the target, and label_smoothing times the mean of -log p over the vocabulary.
    double label_smoothing = 0;
    // z_loss times the square of log Z is added to the loss of a token, where Z is the denominator
    // of the softmax (arXiv:2204.02311).
    double z_loss = 0;
    // In training, noise is added to the output of the embedding. The noise is uniform in (-1, 1),
    // times neftune_alpha / sqrt(T C) for T positions and C channels (arXiv:2310.05914). 0: no
    // noise.
    double neftune_alpha = 0;
    // The loss of a token has two terms: (1 - teacher_weight) times the loss above, and
    // teacher_weight times temperature^2 times the divergence from the teacher
    // (worker/train/ops/teacher.hpp). 0: no teacher.
    double teacher_weight = 0;
    double temperature = 1;

    bool has_teacher() const { return teacher_weight > 0; }
    friend bool operator==(const TokenLossSpec&, const TokenLossSpec&) = default;
};

// The keys of `objective` that set the options of TokenLossSpec.
inline constexpr std::array<std::string_view, 3> kTokenLossKeys{"label_smoothing", "z_loss",
                                                                "neftune_alpha"};

// The model whose predictions a job learns (objective distill).
struct TeacherSpec {
    std::string from = {};  // absolute path of the teacher's directory; empty: there is no teacher
    std::int64_t top_k = 64;  // number of tokens whose probabilities are stored for each target

    friend bool operator==(const TeacherSpec&, const TeacherSpec&) = default;
};

// Read `objective`, a string or an object whose types the schema's checker has accepted.
inline TokenLossSpec token_loss_spec(const Json& json) {
    if (!json.is_object()) return {};
    const Json teacher = json.value("teacher", Json());
    return {json.value("label_smoothing", 0.0), json.value("z_loss", 0.0),
            json.value("neftune_alpha", 0.0),
            teacher.is_object() ? teacher.value("weight", 0.5) : 0.0,
            teacher.is_object() ? teacher.value("temperature", 1.0) : 1.0};
}
inline TeacherSpec teacher_spec(const Json& json) {
    const Json teacher = json.is_object() ? json.value("teacher", Json()) : Json();
    if (!teacher.is_object()) return {};
    return {teacher.value("from", std::string()), teacher.value("top_k", TeacherSpec{}.top_k)};
}

}  // namespace roll::spec
