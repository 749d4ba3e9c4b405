// How many documents of a corpus training learns from.
#pragma once

#include <cstdint>

#include "worker/train/data/corpus.hpp"

namespace roll::data {

// Which targets of a window count.
struct LearnRules {
    std::int64_t seq_length = 0;
    bool completions = false;  // tokens less than 0 are only read (tokens.hpp)
};

// Documents of the training part of a corpus. A target is a token that follows another token of
// its document.
struct LearnedDocuments {
    std::int64_t documents = 0;
    std::int64_t cut = 0;        // longer than a window: their ends are never seen
    std::int64_t unlearned = 0;  // without a target that counts
    std::int64_t one_token = 0;  // of the unlearned, those of a single token
    std::int64_t longest = 0;    // tokens

    bool nothing() const { return documents > 0 && unlearned == documents; }
};

// Counts documents that are kept apart: no token is predicted from another document. Reads each
// document up to its first target that counts; a few seconds for 10^8 documents.
LearnedDocuments count_learned(const Corpus& corpus, const LearnRules& rules);

}  // namespace roll::data
