// Maps a sample's index to its tokens. The mapping is a pure function of the seed and the index.
// The order of the data therefore does not depend on the layout, and a resumed run finds its
// position in O(1).
//
// A file of n training tokens holds floor((n - 1) / seq_length) windows; a window is seq_length
// inputs and as many targets, shifted by one. A data epoch visits every window of every file once,
// in an order drawn for that epoch. In each epoch all windows of a file are shifted by an offset.
// The offset is drawn between 0 and the number of tokens that no window covers.
//
// If the corpus is cut between documents, a window holds whole consecutive documents, as many as
// fit into seq_length inputs (a longer document is truncated). These windows are computed once;
// each epoch visits them in an order drawn for that epoch.
//
// If the corpus is cut between pairs, a window holds the two documents of one pair. Pairs of which
// a document has no token to learn among its first seq_length + 1 tokens are left out. A labelled
// answer is a pair, too: its second document has the two tokens of a Label.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "worker/train/data/corpus/corpus.hpp"

namespace roll::data {

// A bijection of [0, size), selected by a key. It is a Feistel network, applied again until the
// result is below `size`.
class Permutation {
  public:
    Permutation(std::uint64_t size, std::uint64_t key);
    std::uint64_t operator()(std::uint64_t index) const;  // requires index < size

  private:
    std::uint64_t encrypt(std::uint64_t value) const;
    std::uint64_t size_;
    std::uint64_t key_;
    int half_bits_;
};

// A range of tokens of a corpus file. Its inputs are all tokens except the last, its targets all
// except the first.
struct Window {
    const CorpusFile* file = nullptr;  // file of the tokens; its corpus must outlive this window
    std::size_t begin = 0;             // index of the window's first token in the whole file
    std::size_t size = 0;
    std::size_t pair = 0;  // number of the pair in its file, if the corpus is cut between pairs

    Tokens tokens() const { return file->file.tokens().subspan(begin, size); }

    // Returns the offsets within the window at which documents begin, ascending, without offset 0.
    std::vector<std::size_t> document_starts() const;
};

// Calls visit(window, begin of the second document) for each pair that begins in the tokens [begin,
// end) of a file, which begin and end between pairs.
void for_pairs(const CorpusFile& file, std::size_t begin, std::size_t end,
               const std::function<void(const Window&, std::size_t)>& visit);

// The second document of a labelled answer.
struct Label {
    // Number of labelled answers of its line: 1, or 2 if the line has a pair
    std::int64_t in_line = 1;
    bool chosen = false;
};

Label label_of(const Window& window);

// Returns the labelled answer, as a document with its prompt, from which the window's mismatched
// answer is taken: of the line before, and there the answer at the same place. The first line takes
// that of the last one.
Tokens mismatched_document(const Window& window);

// Returns true if one of the tokens counts in the loss. Context-only tokens are negative.
bool has_target(const Tokens& document);

class Sampler {
  public:
    // Requires that `corpus` outlives this sampler and holds at least one window.
    Sampler(const Corpus& corpus, std::int64_t seq_length, std::uint64_t seed);

    std::uint64_t windows() const { return starts_.back(); }  // number of windows per data epoch

    // Returns the window of a sample: seq_length + 1 tokens, or at most that many if the corpus is
    // cut between documents.
    Window sample(std::uint64_t index) const;

  private:
    const Corpus& corpus_;
    std::int64_t seq_length_;
    std::uint64_t seed_;
    // Index of each file's first window, then the number of windows
    std::vector<std::uint64_t> starts_;
    std::vector<Window> packed_;  // all windows, unless the corpus is cut anywhere
};

// Returns the held-out tails as windows, in order. Each window holds its inputs plus one token. If
// windows may be cut anywhere, the windows of a tail are consecutive runs of seq_length inputs (the
// last one may be shorter). Then every token of a tail except its first is predicted exactly once,
// from the tokens before it in its window. If the corpus is cut elsewhere, the windows hold whole
// documents or pairs, like a Sampler's.
std::vector<Window> valid_windows(const Corpus& corpus, std::int64_t seq_length);

}  // namespace roll::data
