// LoRA training (train.lora): trains a product of two small matrices for each adapted linear layer,
// while the model's own weights stay frozen. The options have the same names and meanings as in
// PEFT's LoraConfig.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <tl/expected.hpp>

#include "common/spec/schema/problem.hpp"

namespace roll::spec {

// The linear layers of a decoder layer that can have LoRA, in the order of the forward pass.
enum class LoraPlace { Q, K, V, Out, Gate, Up, Down };

// Maps the last part of a linear layer's name in HuggingFace's models to the layer's LoraPlace
inline constexpr std::array<std::pair<std::string_view, LoraPlace>, 7> kLoraPlaces{
    {{"q_proj", LoraPlace::Q},
     {"k_proj", LoraPlace::K},
     {"v_proj", LoraPlace::V},
     {"o_proj", LoraPlace::Out},
     {"gate_proj", LoraPlace::Gate},
     {"up_proj", LoraPlace::Up},
     {"down_proj", LoraPlace::Down}}};

// The modules that train.lora.modules_to_save can name, with the native names of their parameters.
// The trainer adds the score of a reward model by itself.
inline constexpr std::array<std::pair<std::string_view, std::string_view>, 3> kSavedModules{
    {{"embed_tokens", "embedding.word_embeddings.weight"},
     {"lm_head", "output_layer.weight"},
     {"score", "score.weight"}}};

// LoRA of a linear layer: y += scale * x A^T B^T.
struct LoraModule {
    LoraPlace place = LoraPlace::Q;
    std::int64_t r = 0;  // rows of A and columns of B
    double alpha = 0;
    double scale = 1;
    std::int64_t layer = -1;  // number of the decoder layer; -1: every decoder layer
    bool is_of(std::int64_t number) const { return layer < 0 || layer == number; }
    friend bool operator==(const LoraModule&, const LoraModule&) = default;
};

// The form in which a LoRA job stores the frozen weights of the decoder layers' linear layers.
// Full: in the same form as the job's other weights. Nf4, Int8: packed (packed_form.hpp).
enum class LoraBase { Full, Nf4, Int8 };

inline constexpr std::array<std::pair<std::string_view, LoraBase>, 3> kLoraBases{
    {{"full", LoraBase::Full}, {"nf4", LoraBase::Nf4}, {"int8", LoraBase::Int8}}};

// The target that stands for all linear layers of the decoder layers
inline constexpr const char* kAllLinear = "all-linear";

// The keys of train.lora that choose modules by their full HuggingFace names, such as
// model.layers.0.self_attn.q_proj, as in PEFT.
struct LoraPatterns {
    // Names of modules. Each is a full name, or the end of a full name after a dot: "q_proj" stands
    // for all modules whose names end with ".q_proj". If `targets_match` is true, `targets` is
    // instead one regular expression that must match the whole name. `exclude_matches` has the same
    // meaning for `exclude`.
    std::vector<std::string> targets = {}, exclude = {};
    bool targets_match = false, exclude_matches = false;
    std::vector<std::int64_t> layers = {};  // numbers of the layers; empty: all layers
    // Words that may stand before a layer's number, such as "layers" in "layers.0"; empty: any.
    std::vector<std::string> layers_pattern = {};
    // Ranks and alphas of single modules. Each pair has a regular expression and a value. The value
    // applies to each module whose full name matches the regular expression. A match of the end of
    // the full name after a dot also counts.
    std::vector<std::pair<std::string, double>> ranks = {}, alphas = {};

    bool all_linear() const { return targets == std::vector<std::string>{kAllLinear}; }
    friend bool operator==(const LoraPatterns&, const LoraPatterns&) = default;
};

struct LoraSpec {
    std::int64_t r = 8;
    double alpha = 8;
    bool rslora = false;  // if true, scale is alpha / sqrt(r) instead of alpha / r
    // The adapted layers, ordered by layer, then by LoraPlace; empty: no LoRA. If `patterns` is
    // set, this list has all layers that the patterns may select. resolve_lora() then
    // replaces this list by the layers that the patterns select in a model.
    std::vector<LoraModule> modules;
    std::optional<LoraPatterns> patterns = {};
    double dropout = 0;   // probability that an element of the input of A is dropped
    bool dora = false;    // also trains the length of each row of W + scale * B A
    double lr_ratio = 1;  // LoRA+: learning rate of B divided by the learning rate of A
    // Modules that are trained whole and stored in the adapter; each is named by the last part of
    // its name
    std::vector<std::string> modules_to_save = {};
    LoraBase base = LoraBase::Full;
    bool double_quantization = false;  // also packs the scales of Nf4
    // absolute path of the PEFT adapter from which training starts; empty: a new adapter
    std::string from = {};
    bool is_set() const { return !modules.empty(); }
    friend bool operator==(const LoraSpec&, const LoraSpec&) = default;
};

// Returns the LoraPlace that the last part of a module's name stands for, such as Q for "q_proj";
// nullopt if there is no such LoraPlace.
std::optional<LoraPlace> place_of(std::string_view module);

const char* name_of(LoraPlace place);
const char* name_of(LoraBase base);

// Returns `lora` with the modules of a model that `patterns` selects. Returns `lora` unchanged if
// `patterns` is not set. `names` are the full HuggingFace names of the model's modules. Fails if a
// pattern matches no module, or if two patterns give a module different values.
tl::expected<LoraSpec, Problem> resolve_lora(const LoraSpec& lora,
                                             const std::vector<std::string>& names);

}  // namespace roll::spec
