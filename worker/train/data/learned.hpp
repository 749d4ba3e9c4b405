// Counts the documents of a corpus from which training learns.
#pragma once

#include <cstdint>

#include "worker/train/data/corpus.hpp"

namespace roll::data {

// Determines which targets of a window count.
struct LearnRules {
    std::int64_t seq_length = 0;
    bool completions = false;  // negative tokens are context only (tokens.hpp)
};

// Counts over the training part of a corpus. A target is a token that follows another token of its
// document.
struct LearnedDocuments {
    std::int64_t documents = 0;
    std::int64_t cut = 0;        // longer than a window: the rest is never seen
    std::int64_t unlearned = 0;  // without a target that counts
    std::int64_t one_token = 0;  // documents of one token; also in `unlearned`
    std::int64_t longest = 0;    // tokens

    bool nothing() const { return documents > 0 && unlearned == documents; }
};

// Counts documents that are kept apart: no token is predicted from another document. Reads each
// document up to its first target that counts; a few seconds for 10^8 documents.
LearnedDocuments count_learned(const Corpus& corpus, const LearnRules& rules);

}  // namespace roll::data
