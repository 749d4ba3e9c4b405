#include "worker/train/model/generate.hpp"

#include <algorithm>
#include <optional>

#include <ATen/ATen.h>

#include "common/check.hpp"
#include "worker/train/model/load_weights.hpp"
#include "worker/train/model/model_setup.hpp"
#include "worker/train/model/random.hpp"
#include "worker/train/process/failure.hpp"

namespace roll::train {
namespace {

// Returns a copy of `share_V` that keeps only the most likely tokens: the smallest number of them
// whose total probability is at least top_p. The other tokens have probability 0.
at::Tensor likeliest(const at::Tensor& share_V, double top_p) {
    auto [sorted_V, token_V] = share_V.sort(/*stable=*/true, /*dim=*/0, /*descending=*/true);
    const at::Tensor before_V = sorted_V.cumsum(0) - sorted_V;
    sorted_V.slice(0, 1).masked_fill_(before_V.slice(0, 1).ge(top_p), 0);
    return at::zeros_like(share_V).scatter_(0, token_V, sorted_V);
}

std::int64_t choose(at::Tensor logits_V, const GenerateOptions& options, std::size_t index) {
    if (options.ids > 0) logits_V = logits_V.slice(0, 0, options.ids);
    if (options.temperature <= 0) return logits_V.argmax().item<std::int64_t>();
    at::Tensor share_V = (logits_V.to(at::kDouble) / options.temperature).softmax(0);
    if (options.top_p < 1) share_V = likeliest(share_V, options.top_p);
    share_V = share_V.cumsum(0);
    const double mark = uniform(options.seed, "generate", index) * share_V[-1].item<double>();
    const std::int64_t token = share_V.le(mark).sum().item<std::int64_t>();
    return std::min(token, share_V.numel() - 1);
}

const spec::ModelConfig& config_of(const TextModel& model) {
    const auto own = std::ranges::find_if(
        model.parts, [](const TextPart& part) { return part.chunk != nullptr; });
    ROLL_CHECK(own != model.parts.end());
    return own->chunk->config();
}

// Returns the token that the last stage of the first replica chose. Replicas that share weights
// must continue with the same token. On different processors, rounding could make the replicas
// choose different tokens. One replica could then end its text earlier, and the others would wait
// for its weights.
std::int64_t agreed(const TextModel& model, std::int64_t token) {
    const at::Tensor sent = at::full({1}, token, at::kLong);
    if (model.pp != nullptr)
        broadcast_from(model.parts.back().stage, *model.pp, sent, {Site::Sample});
    if (model.dp != nullptr) broadcast_from(0, *model.dp, sent, {Site::Sample});
    return sent.item<std::int64_t>();
}

std::vector<std::int64_t> start_of(const tokenizer::TextTokenizer& text,
                                   const std::string& prompt) {
    std::vector<std::uint32_t> ids = text.tokenizer.surroundings().before;
    text.tokenizer.encode(prompt, ids, {.add_special = false});
    if (ids.empty()) text.tokenizer.encode("\n", ids, {.add_special = false});
    return {ids.begin(), ids.end()};
}

}  // namespace

std::vector<std::int64_t> generate(const TextModel& model, std::vector<std::int64_t> prompt,
                                   const GenerateOptions& options) {
    const c10::InferenceMode no_autograd;
    ROLL_CHECK(!prompt.empty());
    const spec::ModelConfig& config = config_of(model);
    const std::int64_t room = std::max<std::int64_t>(1, config.positions_max - 1);
    if (std::ssize(prompt) > room) prompt.erase(prompt.begin(), prompt.end() - room);
    const std::int64_t most = config.positions_max;
    const std::int64_t positions =
        std::min(most, std::ssize(prompt) + std::min(most, options.max_tokens));
    // A longer sequence may use other rope angles. Then the keys that were cached while the
    // sequence was short are invalid.
    const std::int64_t same = config.rope_scaling.same_up_to();
    const bool crosses = std::ssize(prompt) <= same && same < positions;
    std::optional<TextDecoder> decoder(std::in_place, model, crosses ? same : positions);
    std::vector<std::int64_t> tokens, next = prompt;
    while (std::ssize(tokens) < options.max_tokens) {
        const std::int64_t end = decoder->position() + std::ssize(next);
        if (end > positions) break;
        if (crosses && end == same + 1) {
            decoder.emplace(model, positions);
            next = prompt;
            next.insert(next.end(), tokens.begin(), tokens.end());
        }
        const at::Tensor logits_V = decoder->take(next);
        const std::int64_t chosen =
            logits_V.defined() ? choose(logits_V, options, tokens.size()) : 0;
        const std::int64_t token = agreed(model, chosen);
        next = {token};
        const auto& stops = options.stop_tokens;
        if (std::find(stops.begin(), stops.end(), token) != stops.end()) break;
        tokens.push_back(token);
    }
    return tokens;
}

std::string continue_text(const TextModel& model, const tokenizer::TextTokenizer& tokenizer,
                          const std::string& prompt, GenerateOptions options) {
    const std::vector<std::int64_t> start = start_of(tokenizer, prompt);
    options.stop_tokens.assign(tokenizer.stops.begin(), tokenizer.stops.end());
    // Choose only tokens of the vocabulary: the embedding may have more rows than these.
    options.ids = tokenizer.tokenizer.vocab_size();
    const std::vector<std::int64_t> added = generate(model, start, options);
    std::vector<std::uint32_t> ids(start.begin(), start.end());
    const std::string before = tokenizer.tokenizer.decode(ids, /*skip_special=*/true);
    ids.insert(ids.end(), added.begin(), added.end());
    std::string whole = tokenizer.tokenizer.decode(ids, true);
    // If the prompt's last token ends inside a character, let the returned text start with that
    // whole character.
    const auto [end, ignored] =
        std::mismatch(before.begin(), before.end(), whole.begin(), whole.end());
    return std::string(whole.begin() + (end - before.begin()), whole.end());
}

std::string generate_text(const std::filesystem::path& directory, const std::string& prompt,
                          const GenerateOptions& options) {
    const ModelSetup setup = setup_model(directory);
    if (setup.config.scores)
        throw RankFailure(2,
                          directory.string() +
                              " is a reward model, which has no output layer and writes no text; "
                              "name a model for text");
    if (!setup.tokenizer)
        throw RankFailure(
            2, directory.string() + " has no tokenizer.json; copy the model's tokenizer into it");
    Chunk model(setup.config, whole_chunk(setup.config), {.draw = false, .gradients = false});
    load_weights(directory, model.parameters());
    return continue_text(text_model(model), *setup.tokenizer, prompt, options);
}

}  // namespace roll::train
