// A baseline for trained models: an order-2 byte model, which predicts each byte from the two bytes
// before it. It is interpolated Kneser-Ney with one absolute discount per order, n1 / (n1 + 2 n2),
// estimated on the training text. Lower orders count the contexts in which a byte occurred; below
// the lowest order all 256 bytes are equally likely. Nothing is tuned on the held-out text.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "worker/train/data/corpus/sampler.hpp"

namespace roll::data {

class NgramModel {
  public:
    // Counts the bytes of every file's training part. Takes at most 16 bytes * (distinct bytes)^3
    // of memory.
    explicit NgramModel(const Corpus& corpus);

    // Returns p(byte | the two bytes before it).
    double probability(std::uint8_t before2, std::uint8_t before1, std::uint8_t byte) const;

  private:
    // Sums over the counts of one context.
    struct Row {
        std::uint32_t total = 0;  // sum of the context's counts
        std::uint32_t kinds = 0;  // number of distinct byte values seen in this context
    };
    double unigram(std::uint8_t byte) const;
    double bigram(std::size_t b1, std::uint8_t byte) const;
    std::size_t place(std::size_t a, std::size_t b, std::size_t c) const {
        return (a * size_ + b) * size_ + c;
    }

    // code_[byte]: index of the byte among the distinct bytes; -1 if the training text lacks it
    std::array<int, 256> code_{};
    std::size_t size_ = 0;              // number of distinct bytes
    std::vector<std::uint32_t> three_;  // counts of byte triples
    std::vector<std::uint32_t> two_;  // for each pair, the number of distinct bytes seen before it
    std::vector<std::uint32_t> one_;  // for each byte, the number of distinct bytes seen before it
    std::vector<Row> rows3_, rows2_;
    Row row1_;
    std::array<double, 4> discount_{};  // discount by order, 1 to 3
};

// Returns the mean of -log2 p over every byte that the windows predict. The two bytes before a
// predicted byte come from the file, even from before the window. Requires are_bytes(windows).
double valid_bits_per_byte(const NgramModel& model, const std::vector<Window>& windows);

bool are_bytes(const std::vector<Window>& windows);

}  // namespace roll::data
