#include "worker/train/data/corpus/learned.hpp"

#include <algorithm>

#include "worker/train/data/corpus/sampler.hpp"

namespace roll::data {
namespace {

// Number of tokens that are scanned at a time; this limits the size of the list that
// starts_within() returns
constexpr std::size_t kTokensAtOnce = std::size_t{1} << 26U;

bool has_target(const Tokens& document, const LearnRules& rules) {
    return rules.completions ? has_target(document) : document.size() > 1;
}

LearnedDocuments count_pairs(const Corpus& corpus, const LearnRules& rules) {
    const std::size_t most = static_cast<std::size_t>(rules.seq_length) + 1;
    const std::size_t margin = rules.margins ? kMarginTokens : 0;
    LearnedDocuments counts;
    for (const CorpusFile& file : corpus.files()) {
        for_pairs(file, 0, file.train.size(), [&](const Window& window, std::size_t second) {
            const Tokens tokens = window.tokens().first(window.size - margin);
            const std::size_t first = second - window.begin;
            const Tokens answers[] = {tokens.first(first), tokens.subspan(first)};
            bool cut = false, unlearned = false;
            for (const Tokens& answer : answers) {
                cut |= answer.size() > most;
                unlearned |= !has_target(answer.first(std::min(answer.size(), most)));
                counts.longest = std::max(counts.longest, static_cast<std::int64_t>(answer.size()));
            }
            ++counts.documents;
            counts.cut += cut;
            counts.unlearned += unlearned;
        });
    }
    return counts;
}

}  // namespace

LearnedDocuments count_learned(const Corpus& corpus, const LearnRules& rules) {
    if (corpus.cut() == Cut::BetweenPairs) return count_pairs(corpus, rules);
    // If windows begin at documents, a document that is longer than a window is truncated.
    // Otherwise, the next window has the rest of the document.
    const bool cuts = corpus.cut() == Cut::BetweenDocuments;
    const std::size_t most = static_cast<std::size_t>(rules.seq_length) + 1;
    LearnedDocuments counts;
    for (const CorpusFile& file : corpus.files()) {
        const std::size_t size = file.train.size();
        std::size_t begin = 0;  // index of the current document's first token
        const auto count = [&](std::size_t end) {
            const std::size_t length = end - begin, seen = cuts ? std::min(length, most) : length;
            ++counts.documents;
            counts.cut += seen < length;
            counts.longest = std::max(counts.longest, static_cast<std::int64_t>(length));
            if (!has_target(file.train.subspan(begin, seen), rules)) {
                ++counts.unlearned;
                counts.one_token += length == 1;
            }
            begin = end;
        };
        for (std::size_t at = 0; at < size; at += kTokensAtOnce) {
            // Start one token before `at`, because starts_within() excludes its first argument.
            // Token 0 always begins a document, so no check is needed there.
            const std::size_t from = at == 0 ? 0 : at - 1;
            for (const std::size_t start :
                 file.file.starts_within(from, std::min(at + kTokensAtOnce, size)))
                count(start);
        }
        if (begin < size) count(size);
    }
    return counts;
}

}  // namespace roll::data
