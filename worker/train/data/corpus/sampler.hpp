// Maps the index of a sample to its tokens. The mapping is a pure function of the seed and the
// index. Therefore, the order of the data does not depend on the layout, and a resumed run finds
// its position in O(1).
//
// A window has seq_length inputs and as many targets, shifted by one. A file of n training
// tokens has floor((n - 1) / seq_length) windows. A data epoch visits every window of every file
// once, in an order that is drawn for that epoch. In each epoch, all windows of a file are
// shifted by the same offset. The offset is drawn between 0 and the number of tokens that no
// window covers.
//
// If the corpus is cut between documents, a window holds whole consecutive documents, as many as
// fit into seq_length inputs. RowRules decides what happens to longer documents. With best fit, a
// window gathers documents from the whole file (gathered_rows.hpp). These windows are computed
// once. Each epoch visits them in an order that is drawn for that epoch.
//
// If the corpus is cut between pairs, a window holds the two documents of one pair. A pair is
// left out if one of its documents has no token to learn after truncation, or if RowRules drops one
// of its documents because of its length.
// A labelled answer is also stored as a pair: its second document has the two tokens of a Label.
//
// If the files have weights, a Blend draws the file of each sample, and each file has its own
// epochs of windows. In Megatron's order, the samples of a file are those of a MegatronIndex.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "worker/train/data/corpus/blend.hpp"
#include "worker/train/data/corpus/corpus.hpp"
#include "worker/train/data/corpus/gathered_rows.hpp"
#include "worker/train/data/corpus/megatron_index.hpp"
#include "worker/train/data/corpus/row_rules.hpp"

namespace roll::data {

// A bijection of [0, size), selected by a key. It applies a Feistel network repeatedly until the
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

// A range of tokens of a corpus file. The inputs are all its tokens except the last; the targets
// are all its tokens except the first.
struct Window {
    const CorpusFile* file = nullptr;  // file of the tokens; its corpus must outlive this window
    std::size_t begin = 0;             // index of the window's first token in the whole file
    std::size_t size = 0;
    std::size_t pair = 0;  // index of the pair in its file, if the corpus is cut between pairs
    // tokens that come from several places (Megatron's order, best fit); then `begin` is not used
    GatheredTokens gathered = {};

    // Returns a view of the tokens, which are in the file or in this window.
    Tokens tokens() const;

    // Returns the offsets within the window at which documents begin, ascending. Offset 0 is not
    // included.
    std::vector<std::size_t> document_starts() const;
};

// Calls visit(window, start of the second document) for each pair that begins in the tokens [begin,
// end) of a file. `begin` and `end` must be between pairs.
void for_pairs(const CorpusFile& file, std::size_t begin, std::size_t end,
               const std::function<void(const Window&, std::size_t)>& visit);

// The label of a labelled answer, which is stored as the answer's second document.
struct Label {
    // Number of labelled answers made from the same line: 2 if the line is a pair, else 1
    std::int64_t in_line = 1;
    bool chosen = false;
};

Label label_of(const Window& window);

// Returns the document (prompt and answer) whose answer is used as the mismatched answer of
// `window`. This document is the labelled answer at the same place in the previous line. For the
// first line, the previous line is the last line.
Tokens mismatched_document(const Window& window);

// Returns true if at least one token of the document counts in the loss. Context-only tokens are
// negative.
bool has_target(const Tokens& document);

// The order of a job's samples.
struct SampleRules {
    RowRules rows = {};
    std::uint64_t seed = 0;
    // Weights of the files in each phase; their sum need not be 1. Empty: an epoch visits all
    // files.
    std::vector<BlendPhase> phases = {};
    bool by_tokens = false;  // the weights are shares of the tokens, not of the samples
    bool best_fit = false;   // windows gather documents; requires a corpus cut between documents
    // If set, samples are in Megatron's order. The value is the job's number of samples, on which
    // this order depends. Requires at most one phase, Corpus::split() and a seed below 2^32.
    std::optional<std::uint64_t> megatron = {};
};

class Sampler {
  public:
    // Requires that `corpus` outlives this sampler and holds at least one window.
    Sampler(const Corpus& corpus, std::int64_t seq_length, std::uint64_t seed);

    // Like the constructor. Fails with InvalidArgument if the rules do not fit the corpus; the
    // message is one sentence.
    static Result<Sampler> make(const Corpus& corpus, const SampleRules& rules);

    std::uint64_t windows() const { return starts_.back(); }  // number of windows per data epoch

    // Returns the window of a sample. The window has seq_length + 1 tokens, or fewer if the corpus
    // is cut between documents.
    Window sample(std::uint64_t index) const;

  private:
    Sampler(const Corpus& corpus, const SampleRules& rules);
    void add_windows(bool best_fit);
    Result<void> add_megatron(const SampleRules& rules);
    Result<void> add_blend(const SampleRules& rules);
    Window window_of(std::uint64_t window, std::uint64_t key) const;
    std::uint64_t windows_of(std::size_t file) const { return starts_[file + 1] - starts_[file]; }
    double mean_size(std::size_t file) const;

    const Corpus& corpus_;
    RowRules rules_;
    std::uint64_t seed_;
    // For each file the index of its first window; at the end, the number of windows
    std::vector<std::uint64_t> starts_;
    // all windows, if the corpus is cut between documents or pairs
    std::vector<Window> packed_;
    std::vector<GatheredRows> rows_;  // one for each file, with best fit; otherwise, empty
    std::optional<Blend> blend_;      // set if the files have weights
    // one for each file, in Megatron's order; otherwise, empty
    std::vector<MegatronIndex> indexes_;
};

// Returns the files' held-out tails as windows, in order. If windows may be cut anywhere, each
// window has seq_length + 1 tokens (the last window of a tail may be shorter) and begins at the
// last token of the window before. Each token of a tail except the first is then predicted once.
// Otherwise, windows hold whole documents or pairs, as in a Sampler.
std::vector<Window> valid_windows(const Corpus& corpus, const RowRules& rules);

}  // namespace roll::data
