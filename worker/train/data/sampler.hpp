// Which tokens a sample is: a pure function of the seed and the sample's index, so the order of the
// data depends on no layout and a resumed run starts anywhere in O(1).
//
// A file of n training tokens holds floor((n - 1) / seq_length) windows; window w is seq_length
// inputs and as many targets, the inputs moved by one. A data epoch visits every window of every
// file once, in an order drawn for that epoch; what a file's length leaves over shifts its windows
// by an offset drawn for the epoch too.
//
// Of a corpus that is cut between documents, windows are whole documents one after the other, as
// many as fit into seq_length inputs (what is longer is cut off there). They are found once, and
// visited likewise.
#pragma once

#include <cstdint>
#include <vector>

#include "worker/train/data/corpus.hpp"

namespace roll::data {

// A bijection of [0, size) drawn by the key: a Feistel network, walked until it falls inside.
class Permutation {
  public:
    Permutation(std::uint64_t size, std::uint64_t key);
    std::uint64_t operator()(std::uint64_t index) const;  // index < size

  private:
    std::uint64_t encrypt(std::uint64_t value) const;
    std::uint64_t size_;
    std::uint64_t key_;
    int half_bits_;
};

// A run of a corpus file's tokens: inputs are all but the last, targets all but the first.
struct Window {
    const CorpusFile* file = nullptr;  // of a corpus that outlives this
    std::size_t begin = 0;             // in all of the file's tokens
    std::size_t size = 0;

    Tokens tokens() const { return file->file.tokens().subspan(begin, size); }

    // Where documents begin in it, but at its start: ascending, in tokens from its start.
    std::vector<std::size_t> document_starts() const;
};

class Sampler {
  public:
    // The corpus outlives it and holds at least one window.
    Sampler(const Corpus& corpus, std::int64_t seq_length, std::uint64_t seed);

    std::uint64_t windows() const { return starts_.back(); }  // of a data epoch

    // seq_length + 1 tokens, or at most so many.
    Window sample(std::uint64_t index) const;

  private:
    const Corpus& corpus_;
    std::int64_t seq_length_;
    std::uint64_t seed_;
    std::vector<std::uint64_t> starts_;  // of each file's windows; then their number
    std::vector<Window> packed_;         // all windows, where they are not cut anywhere
};

// The held-out tails as windows: consecutive inputs of seq_length (the last of a file may be
// shorter), so that every token of a tail but its first is predicted exactly once, from what stands
// before it in its window; or whole documents, as a Sampler's. Each holds its inputs and one token
// more. In order.
std::vector<Window> valid_windows(const Corpus& corpus, std::int64_t seq_length);

}  // namespace roll::data
