// Counts the documents of a corpus that contribute to the training loss.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "worker/train/data/corpus/corpus.hpp"
#include "worker/train/data/corpus/row_rules.hpp"

namespace roll::data {

// The rules that decide which targets of a window count in the loss.
struct LearnRules {
    RowRules rows = {};
    bool completions = false;  // true: negative tokens are context only (tokens.hpp)
    // false: the first token of a document is predicted from the tokens of the document before it
    bool apart = true;
};

// Counts of documents in the training part of a corpus. A target is a token that follows another
// token of the same document. If the corpus is cut between pairs, the counts are of pairs. A pair
// is in `cut` or `dropped` if one of its answers is longer than a window. A pair is in `unlearned`
// if one of its answers has no target that counts in the loss.
struct LearnedDocuments {
    std::int64_t documents = 0;
    // documents that are longer than a window; training never uses the tokens beyond the window
    std::int64_t cut = 0;
    std::int64_t dropped = 0;  // documents that are not used because they are longer than a window
    std::int64_t unlearned = 0;  // used documents that have no target that counts in the loss
    std::int64_t one_token = 0;  // documents of one token; `unlearned` includes them
    std::int64_t longest = 0;    // number of tokens in the longest document

    bool nothing() const { return documents > 0 && unlearned + dropped == documents; }
};

// Counts the documents of the training part of a corpus. Reads each document up to its first target
// that counts. This takes a few seconds for 10^8 documents.
LearnedDocuments count_learned(const Corpus& corpus, const LearnRules& rules);

// A document that is longer than a window, or a pair that has an answer longer than a window.
struct LongDocument {
    std::string file;
    std::int64_t number = 0;  // number of the document or pair in its file, counted from 1
    std::size_t tokens = 0;
};

// Returns the first document or pair of the corpus that is too long (LongDocument). Searches the
// training parts and the held-out parts. The corpus must be cut between documents or pairs (Cut).
std::optional<LongDocument> find_long(const Corpus& corpus, const RowRules& rules);

}  // namespace roll::data
