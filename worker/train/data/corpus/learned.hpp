// Counts the documents of a corpus that contribute to the training loss.
#pragma once

#include <cstdint>

#include "worker/train/data/corpus/corpus.hpp"

namespace roll::data {

// The rules that decide which targets of a window count in the loss.
struct LearnRules {
    std::int64_t seq_length = 0;
    bool completions = false;  // true: negative tokens are context only (tokens.hpp)
    bool margins = false;      // true: each pair ends with a margin
};

// Counts of documents in the training part of a corpus. A target is a token that follows another
// token of the same document. If the corpus is cut between pairs, a pair counts as one document. A
// pair is counted in `cut` if one of its answers is cut, and in `unlearned` if one of its answers
// has no target in the loss.
struct LearnedDocuments {
    std::int64_t documents = 0;
    // documents that are longer than a window; training never uses the tokens beyond the window
    std::int64_t cut = 0;
    std::int64_t unlearned = 0;  // documents without a target that counts in the loss
    std::int64_t one_token = 0;  // documents of one token; `unlearned` includes them
    std::int64_t longest = 0;    // number of tokens in the longest document

    bool nothing() const { return documents > 0 && unlearned == documents; }
};

// Counts the documents of a corpus in which documents are kept apart, so that no token is predicted
// from another document. Reads each document up to its first target that counts. This takes a few
// seconds for 10^8 documents.
LearnedDocuments count_learned(const Corpus& corpus, const LearnRules& rules);

}  // namespace roll::data
