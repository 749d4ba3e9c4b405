#include "worker/train/model/tokenizer_check.hpp"

#include "worker/formats/bytes_tokenizer.hpp"
#include "worker/tokenizer/same_ids.hpp"
#include "worker/train/process/failure.hpp"

namespace roll::train {

std::string check_tokenizer(const tokenizer::TextTokenizer& tokenizer, const std::string& name,
                            const WeightsHome& weights) {
    const std::string home = weights.directory.string();
    if (!tokenizer::has_tokenizer(weights.directory)) return {};
    const bool bytes = formats::has_bytes_tokenizer(weights.hf_config);
    const auto identity = bytes ? tokenizer::bytes_tokenizer().identity
                                : need(tokenizer::identity_of(weights.directory));
    if (identity == tokenizer.identity) return {};
    const auto own = tokenizer::load_directory(weights.directory);
    if (!own)
        return "tokenizer: " + name + " is not the tokenizer of " + home +
               ", which cannot be read (" + own.error().message +
               "): the token ids of the two may differ";
    const auto compared = tokenizer::compare_ids(tokenizer.tokenizer, own->tokenizer);
    const std::string found = std::to_string(compared.differ) + " of " +
                              std::to_string(compared.looked_at) +
                              " compared token ids decode to different text in the two tokenizers";
    if (!compared.of_one_vocabulary())
        throw RankFailure(2, "tokenizer: " + name + " is not the tokenizer of the weights in " +
                                 home + ": " + found + "; set tokenizer to " + home +
                                 ", or, to train all ids anew, start from a copy of that directory "
                                 "without tokenizer.json");
    return "tokenizer: " + name + " is not the tokenizer of the weights in " + home + ": " + found;
}

}  // namespace roll::train
