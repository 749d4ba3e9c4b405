// A baseline for trained models: a byte trigram model, which predicts each byte from the two bytes
// before it. The model uses interpolated Kneser-Ney smoothing with one absolute discount per order,
// n1 / (n1 + 2 n2), estimated on the training text. Lower orders count the contexts in which a byte
// occurred. Below the lowest order, all 256 bytes are equally likely. Nothing is tuned on the
// held-out text.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "worker/train/data/corpus/sampler.hpp"

namespace roll::data {

class NgramModel {
  public:
    // Counts the bytes in the training part of every file. Uses at most 16 * (number of distinct
    // bytes)^3 bytes of memory.
    explicit NgramModel(const Corpus& corpus);

    // Returns p(byte | the two bytes before it).
    double probability(std::uint8_t before2, std::uint8_t before1, std::uint8_t byte) const;

  private:
    // Sums of the counts in one context.
    struct Row {
        std::uint32_t total = 0;  // sum of the context's counts
        std::uint32_t kinds = 0;  // number of distinct byte values seen in this context
    };
    double unigram(std::uint8_t byte) const;
    double bigram(std::size_t b1, std::uint8_t byte) const;
    std::size_t place(std::size_t a, std::size_t b, std::size_t c) const {
        return (a * size_ + b) * size_ + c;
    }

    // code_[byte]: index of the byte among the distinct bytes; -1 if the text lacks it
    std::array<int, 256> code_{};
    std::size_t size_ = 0;              // number of distinct bytes
    std::vector<std::uint32_t> three_;  // for each byte triple, the number of times that it occurs
    // for each byte pair, the number of distinct bytes that precede the pair
    std::vector<std::uint32_t> two_;
    // for each byte, the number of distinct bytes that precede the byte
    std::vector<std::uint32_t> one_;
    std::vector<Row> rows3_, rows2_;
    Row row1_;
    std::array<double, 4> discount_{};  // discounts of orders 1 to 3; the index is the order
};

// Returns the mean of -log2 p over all bytes that the windows predict. The two bytes before a
// predicted byte are read from the file, even if they are before the window. Requires
// are_bytes(windows).
double valid_bits_per_byte(const NgramModel& model, const std::vector<Window>& windows);

bool are_bytes(const std::vector<Window>& windows);

}  // namespace roll::data
