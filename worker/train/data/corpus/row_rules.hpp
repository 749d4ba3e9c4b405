// The rules that limit the length of rows, and what happens to a document that is longer than a
// row.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "worker/train/data/corpus/tokens.hpp"

namespace roll::data {

// The tokens that are left out of a document that is longer than a row:
// - End: the end of the document (TRL's keep_start).
// - Start: the start of the document (TRL's keep_end).
// - Prompt: the start of the prompt. If the answer alone is too long, the prompt except its last
//   token, and the end of the answer.
// - Split: no token. The document continues in further rows (TRL's bfd_split).
// - Drop: the whole document.
enum class Truncate { End, Start, Prompt, Split, Drop };

struct RowRules {
    std::int64_t seq_length = 0;
    Truncate truncate = Truncate::End;
    // true: a row is an answer of a reward model and has at most seq_length tokens; false: a row
    // has at most seq_length + 1 tokens, because its first token is not predicted
    bool scores = false;
    bool margins = false;  // true: the margin of a pair follows its second document

    // Returns the maximum number of tokens of a row, or of an answer.
    std::size_t most() const { return static_cast<std::size_t>(seq_length) + (scores ? 0 : 1); }
    bool drops(std::size_t size) const { return truncate == Truncate::Drop && size > most(); }
};

// A range of the tokens of a document.
struct Piece {
    std::size_t begin = 0, size = 0;
};

// Returns the number of tokens of the prompt: the context-only tokens at the start.
std::size_t prompt_size(const Tokens& document);

// Returns the tokens that remain of a document after truncation to one row or answer. With Split
// and Drop, these are the document's first tokens.
Piece kept_piece(const Tokens& document, const RowRules& rules);

// Calls visit(piece) for each piece of a document that is used, in order.
template <class Visit>
void for_pieces(const Tokens& document, const RowRules& rules, const Visit& visit) {
    if (rules.drops(document.size())) return;
    if (rules.truncate != Truncate::Split) return visit(kept_piece(document, rules));
    for (std::size_t begin = 0; begin < document.size(); begin += rules.most())
        visit(Piece{begin, std::min(rules.most(), document.size() - begin)});
}

}  // namespace roll::data
