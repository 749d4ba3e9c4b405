#include "worker/train/model/generate_text.hpp"

#include "worker/train/model/load_weights.hpp"
#include "worker/train/model/model_setup.hpp"
#include "worker/train/process/failure.hpp"

namespace roll::train {
namespace {

std::vector<std::int64_t> start_of(const tokenizer::TextTokenizer& text,
                                   const std::string& prompt) {
    std::vector<std::uint32_t> ids = text.tokenizer.surroundings().before;
    text.tokenizer.encode(prompt, ids, {.add_special = false});
    if (ids.empty()) text.tokenizer.encode("\n", ids, {.add_special = false});
    return {ids.begin(), ids.end()};
}

}  // namespace

std::string continue_text(const TextModel& model, const tokenizer::TextTokenizer& tokenizer,
                          const std::string& prompt, const TextOptions& options) {
    const std::vector<std::int64_t> start = start_of(tokenizer, prompt);
    const std::vector<std::int64_t> stops(tokenizer.stops.begin(), tokenizer.stops.end());
    // Choose only tokens of the vocabulary: the embedding may have more rows than these.
    const std::vector<std::int64_t> added =
        generate(model, start,
                 {options.max_tokens, options.temperature, options.top_p, options.seed, stops,
                  tokenizer.tokenizer.vocab_size()});
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
                          const TextOptions& options) {
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
