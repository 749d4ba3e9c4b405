// The order in which Megatron-core's GPTDataset samples an indexed token file, to the last bit
// (gpt_dataset.py and helpers.cpp of Megatron-core 0.16.1).
//
// All sequences of a range are repeated as often as needed, then shuffled and joined. Sample k has
// the seq_length + 1 tokens from token k x seq_length on. A second shuffle gives the order of the
// samples. Both shuffles are those of numpy.random.RandomState(seed).
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "common/error.hpp"
#include "worker/train/data/corpus/token_file.hpp"

namespace roll::data {

struct MegatronSampling {
    std::int64_t seq_length = 0;
    std::uint32_t seed = 0;
    // Number of samples that are needed; nullopt: one epoch. The index may have more samples.
    std::optional<std::uint64_t> samples;
};

// The tokens of a sample, and the offsets (ascending, without 0) at which its sequences begin.
struct GatheredTokens {
    std::vector<std::int64_t> tokens;
    std::vector<std::size_t> starts;
};

class MegatronIndex {
  public:
    // Makes the index of the sequences [begin, end) of `file`, which must outlive the index. Fails
    // with InvalidArgument if these sequences have too few tokens for a sample, or if there are too
    // many samples or sequences. The message names no file.
    static Result<MegatronIndex> make(const TokenFile& file, std::size_t begin, std::size_t end,
                                      const MegatronSampling& sampling);

    std::uint64_t size() const { return shuffle_.size(); }  // number of samples

    // Returns the tokens of a sample. Requires sample < size().
    GatheredTokens gather(std::uint64_t sample) const;

    // Megatron's document_index and shuffle_index.
    const std::vector<std::int32_t>& documents() const { return documents_; }
    const std::vector<std::uint32_t>& shuffle() const { return shuffle_; }

    // A row of Megatron's sample_index. The row says at which token a sample begins. `position`:
    // index in documents() of the sequence with this token. `offset`: index of the token in the
    // sequence. The rows are in the order of the samples before the second shuffle.
    struct Place {
        std::size_t position = 0, offset = 0;
    };
    Place begin_of(std::uint64_t unshuffled) const;  // requires unshuffled <= size()

  private:
    explicit MegatronIndex(const TokenFile& file) : file_(&file) {}
    void list_documents(std::size_t begin, std::size_t end, std::uint64_t epochs);
    void add_up(const std::vector<std::int32_t>& sizes, std::size_t begin);

    const TokenFile* file_;
    std::uint64_t length_ = 0;
    std::vector<std::int32_t> documents_;
    std::vector<std::uint32_t> shuffle_;
    // Number of tokens before each kEntries-th entry of documents_
    std::vector<std::uint64_t> before_;
};

}  // namespace roll::data
