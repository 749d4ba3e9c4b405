#include "worker/train/generate_text.hpp"

#include "worker/train/failure.hpp"
#include "worker/train/model_setup.hpp"

namespace roll::train {

std::string continue_text(Chunk& model, const std::string& prompt, const TextOptions& options) {
    const std::string start = prompt.empty() ? "\n" : prompt;
    std::vector<std::int64_t> tokens;
    for (const char c : start) tokens.push_back(static_cast<unsigned char>(c));
    std::string text;
    for (const std::int64_t token :
         generate(model, tokens, {options.max_tokens, options.temperature, options.seed}))
        if (token < 256) text.push_back(static_cast<char>(token));
    return text;
}

std::string generate_text(const std::filesystem::path& directory, const std::string& prompt,
                          const TextOptions& options) {
    const ModelSetup setup = setup_model(directory);
    if (setup.config.vocab < 256) {
        throw RankFailure(2, directory.string() + " has a vocabulary of " +
                                 std::to_string(setup.config.vocab) +
                                 "; only models of bytes can be sampled");
    }
    Chunk model(setup.config, split_layers(setup.config, 0, 1), {});
    load_weights(directory, model.parameters());
    return continue_text(model, prompt, options);
}

}  // namespace roll::train
