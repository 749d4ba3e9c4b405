#include "worker/train/data/corpus/learned.hpp"

#include <algorithm>
#include <array>
#include <limits>

#include "worker/train/data/corpus/sampler.hpp"

namespace roll::data {
namespace {

// Number of tokens that are scanned at a time; this limits the size of the list that
// starts_within() returns
constexpr std::size_t kTokensAtOnce = std::size_t{1} << 26U;

// Returns true if a token of the document counts in the loss.
bool has_target(const Tokens& document, const LearnRules& rules) {
    if (!rules.completions) return document.size() > (rules.apart ? 1 : 0);
    const bool first = !rules.apart && !document.empty() && document[0] >= 0;
    return first || has_target(document);
}

// Returns the two documents of a pair. If the rejected answer is followed by the pair's margin,
// leaves the margin out.
std::array<Tokens, 2> answers_of(const Window& pair, std::size_t second, const RowRules& rules) {
    const Tokens tokens = pair.tokens();
    const std::size_t first = second - pair.begin;
    return {tokens.first(first),
            tokens.first(tokens.size() - (rules.margins ? kMarginTokens : 0)).subspan(first)};
}

LearnedDocuments count_pairs(const Corpus& corpus, const RowRules& rules) {
    LearnedDocuments counts;
    for (const CorpusFile& file : corpus.files()) {
        for_pairs(file, 0, file.train.size(), [&](const Window& window, std::size_t second) {
            bool cut = false, dropped = false, unlearned = false;
            for (const Tokens& answer : answers_of(window, second, rules)) {
                const Piece kept = kept_piece(answer, rules);
                cut |= kept.size < answer.size();
                dropped |= rules.drops(answer.size());
                unlearned |= !has_target(answer.subspan(kept.begin, kept.size));
                counts.longest = std::max(counts.longest, static_cast<std::int64_t>(answer.size()));
            }
            ++counts.documents;
            counts.dropped += dropped;
            counts.cut += cut && !dropped;
            counts.unlearned += unlearned && !dropped;
        });
    }
    return counts;
}

// Adds a document to the counts. `used` has the rules that decide which tokens of the document are
// used.
void count(const Tokens& document, const RowRules& used, const LearnRules& rules,
           LearnedDocuments& counts) {
    ++counts.documents;
    counts.longest = std::max(counts.longest, static_cast<std::int64_t>(document.size()));
    if (used.drops(document.size())) return static_cast<void>(++counts.dropped);
    std::size_t seen = 0;
    bool learned = false;
    for_pieces(document, used, [&](const Piece& piece) {
        seen += piece.size;
        learned = learned || has_target(document.subspan(piece.begin, piece.size), rules);
    });
    counts.cut += seen < document.size();
    counts.unlearned += !learned;
    counts.one_token += !learned && document.size() == 1;
}

}  // namespace

LearnedDocuments count_learned(const Corpus& corpus, const LearnRules& rules) {
    if (corpus.cut() == Cut::BetweenPairs) return count_pairs(corpus, rules.rows);
    RowRules used = rules.rows;
    // With Cut::Anywhere, a window may end inside a document, and the next window continues the
    // document. Therefore, no document is too long.
    if (corpus.cut() == Cut::Anywhere)
        used = {.seq_length = std::numeric_limits<std::int64_t>::max() - 1};
    LearnedDocuments counts;
    for (const CorpusFile& file : corpus.files()) {
        const std::size_t size = file.train.size();
        std::size_t begin = 0;  // index of the current document's first token
        const auto add = [&](std::size_t end) {
            count(file.train.subspan(begin, end - begin), used, rules, counts);
            begin = end;
        };
        for (std::size_t at = 0; at < size; at += kTokensAtOnce) {
            // Start one token before `at`, because starts_within() excludes its first argument.
            // Token 0 always begins a document, so no check is needed there.
            const std::size_t from = at == 0 ? 0 : at - 1;
            for (const std::size_t start :
                 file.file.starts_within(from, std::min(at + kTokensAtOnce, size)))
                add(start);
        }
        if (begin < size) add(size);
    }
    return counts;
}

std::optional<LongDocument> find_long(const Corpus& corpus, const RowRules& rules) {
    const bool pairs = corpus.cut() == Cut::BetweenPairs;
    for (const CorpusFile& file : corpus.files()) {
        for (std::size_t i = 0; i < file.file.documents(); ++i) {
            std::size_t size = file.file.document(i).size();
            if (rules.margins && i % 2 == 1) size -= kMarginTokens;
            if (size <= rules.most()) continue;
            return LongDocument{file.name, static_cast<std::int64_t>(pairs ? i / 2 : i) + 1, size};
        }
    }
    return std::nullopt;
}

}  // namespace roll::data
