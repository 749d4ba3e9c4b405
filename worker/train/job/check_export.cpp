#include "worker/train/job/check_export.hpp"

#include <algorithm>
#include <cstdio>
#include <filesystem>

#include <ATen/ATen.h>

#include "common/files.hpp"
#include "worker/checkpoint/names.hpp"
#include "worker/convert/read/job_state.hpp"
#include "worker/train/model/load_weights.hpp"
#include "worker/train/model/model_setup.hpp"
#include "worker/train/process/failure.hpp"

namespace roll::train {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kPositions = 64;

// Largest allowed difference of a logit, as a share of the largest logit. The export and the
// checkpoint have the same weights, so only the order of sums can differ. A rounded adapter differs
// more: its factors are rounded before they are multiplied with each other, but the checkpoint's
// factors are not rounded.
constexpr double kAllowed = 1e-3, kAllowedRoundedAdapter = 3e-2;

// The source of the weights of a model.
struct From {
    std::string directory;
    std::vector<std::string> adapters = {};
    std::string state = {};
};

void round_to(const Parameters& parameters, const std::string& dtype) {
    if (dtype == "fp32") return;
    const at::ScalarType type = dtype == "bf16" ? at::kBFloat16 : at::kHalf;
    const at::Tensor& weight = parameters.flat_weight;
    weight.copy_(weight.to(type));
}

// Returns tokens that depend only on the vocabulary.
at::Tensor tokens_of(const spec::ModelConfig& config) {
    const std::int64_t count = std::min<std::int64_t>(kPositions, config.positions_max);
    const at::Tensor tokens_BT = at::empty({1, count}, at::kLong);
    for (std::int64_t i = 0; i < count; ++i)
        tokens_BT[0][i] = (i * i * 7919 + 13 * i) % config.vocab;
    return tokens_BT;
}

// Returns the logits of the model or, for a reward model, the score of the tokens.
at::Tensor logits_of(const spec::ModelConfig& config, const From& from, const std::string& dtype) {
    Chunk chunk(config, whole_chunk(config), {.draw = false, .gradients = false});
    Parameters* const parameters[] = {&chunk.parameters()};
    load_weights(from.directory, parameters, chunk.parameters().specs, /*seed=*/1, from.adapters,
                 from.state);
    round_to(chunk.parameters(), dtype);
    const c10::InferenceMode no_autograd;
    const at::Tensor tokens_BT = tokens_of(config);
    if (config.scores) return chunk.log_probs({tokens_BT, tokens_BT}, {}).to(at::kDouble);
    return chunk.logits(tokens_BT).to(at::kDouble);
}

// Returns the source of the checkpoint's weights.
From source_of(const ExportCheck& check) {
    if (check.base.empty()) return {check.checkpoint, {}, check.averaged ? "ema" : ""};
    From from{check.base, check.adapters};
    from.adapters.push_back(check.averaged
                                ? need(convert::averaged_adapter(check.checkpoint, "ema")).string()
                                : check.checkpoint);
    return from;
}

// Returns the source of the export's weights.
From target_of(const ExportCheck& check) {
    if (!check.is_adapter) return {check.directory};
    From from{check.base, check.adapters};
    from.adapters.push_back(check.directory);
    return from;
}

}  // namespace

OrderedJson check_export(const ExportCheck& check) {
    const spec::ModelConfig config =
        setup_model(check.is_adapter ? check.base : check.directory).config;
    const std::string rounds = check.is_adapter ? "fp32" : check.dtype;
    const at::Tensor expected = logits_of(config, source_of(check), rounds);
    const at::Tensor found = logits_of(config, target_of(check), "fp32");
    const double largest = expected.abs().max().item<double>();
    const double difference = (found - expected).abs().max().item<double>();
    const bool rounded = check.is_adapter && check.dtype != "fp32";
    const double allowed = (rounded ? kAllowedRoundedAdapter : kAllowed) * largest;
    char text[160];
    std::snprintf(text, sizeof text,
                  "largest difference of a logit %.3g, largest logit %.4g, over %lld tokens",
                  difference, largest, static_cast<long long>(tokens_of(config).numel()));
    if (!(difference <= allowed))  // also true if a logit is not a number
        throw RankFailure(1, "the logits of the export " + check.directory +
                                 " differ from the logits of its checkpoint " + check.checkpoint +
                                 ": " + text);
    const fs::path checkpoint = check.checkpoint;
    const auto name = checkpoint::parse_final_name(checkpoint.filename().string());
    OrderedJson json = {{"schema", "roll.step_export/1"},
                        {"step", name ? name->step : 0},
                        {"checkpoint", checkpoint.filename().string()},
                        {"logit_difference", difference},
                        {"largest_logit", largest}};
    need(write_file_atomically(fs::path(check.directory) / kExportFile, json.dump(1) + "\n"));
    std::printf("the export equals its checkpoint: %s\n", text);
    return json;
}

}  // namespace roll::train
