// The baseline that a trained model has to beat: an order-2 model of bytes, which predicts each
// byte from the two before it. Interpolated Kneser-Ney: one absolute discount an order, n1 / (n1 +
// 2 n2), estimated on the training text; lower orders count in how many contexts a byte was seen;
// below them all 256 bytes are equally likely. Nothing of it is tuned on the held-out text.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "worker/train/data/sampler.hpp"

namespace roll::data {

class NgramModel {
  public:
    // Counts the training part of every file. Memory: 16 bytes * (distinct bytes)^3 at most.
    explicit NgramModel(const Corpus& corpus);

    // p(byte | the two before it).
    double probability(std::uint8_t before2, std::uint8_t before1, std::uint8_t byte) const;

  private:
    // One order: what is subtracted from every count, and how much of a context the counts hold.
    struct Row {
        std::uint32_t total = 0;  // of the counts
        std::uint32_t kinds = 0;  // bytes with a count
    };
    double unigram(std::uint8_t byte) const;
    double bigram(std::size_t b1, std::uint8_t byte) const;
    std::size_t place(std::size_t a, std::size_t b, std::size_t c) const {
        return (a * size_ + b) * size_ + c;
    }

    std::array<int, 256> code_{};       // of a byte; -1: not in the training text
    std::size_t size_ = 0;              // distinct bytes
    std::vector<std::uint32_t> three_;  // counts of byte triples
    std::vector<std::uint32_t> two_;    // number of bytes seen before a pair
    std::vector<std::uint32_t> one_;    // number of bytes seen before a byte
    std::vector<Row> rows3_, rows2_;
    Row row1_;
    std::array<double, 4> discount_{};  // by order 1, 2, 3
};

// Mean of -log2 p over every byte that the windows predict, here with the two bytes before it
// always known where the file has them. REQUIRES: are_bytes(windows).
double valid_bits_per_byte(const NgramModel& model, const std::vector<Window>& windows);

bool are_bytes(const std::vector<Window>& windows);

}  // namespace roll::data
