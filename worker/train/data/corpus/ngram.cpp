#include "worker/train/data/corpus/ngram.hpp"

#include <algorithm>
#include <cmath>

namespace roll::data {
namespace {

// Returns the Kneser-Ney discount n1 / (n1 + 2 n2), or 0.5 if n1 is 0. n1 is the number of counts
// that equal 1, and n2 is the number of counts that equal 2.
double discount_of(const std::vector<std::uint32_t>& counts) {
    double once = 0, twice = 0;
    for (const std::uint32_t count : counts) {
        once += count == 1;
        twice += count == 2;
    }
    return once > 0 ? once / (once + 2 * twice) : 0.5;
}

// Returns the probability of a byte after a context: max(count - discount, 0) / total + discount *
// kinds / total * lower. `count` is the byte's count in the context, and `total` is the sum of the
// context's counts. `kinds` is the number of distinct bytes in the context. `lower` is the byte's
// probability in the next shorter context.
double interpolate(std::uint32_t count, std::uint32_t total, std::uint32_t kinds, double discount,
                   double lower) {
    if (total == 0) return lower;
    const double kept = std::max(0.0, static_cast<double>(count) - discount);
    return (kept + discount * kinds * lower) / total;
}

}  // namespace

NgramModel::NgramModel(const Corpus& corpus) {
    std::array<bool, 256> seen{};
    for (const CorpusFile& file : corpus.files())
        for (const std::uint8_t byte : file.train.bytes()) seen[byte] = true;
    for (std::size_t byte = 0; byte < 256; ++byte)
        code_[byte] = seen[byte] ? static_cast<int>(size_++) : -1;
    three_.resize(size_ * size_ * size_);
    two_.resize(size_ * size_);
    one_.resize(size_);
    rows3_.resize(size_ * size_);
    rows2_.resize(size_);
    for (const CorpusFile& file : corpus.files()) {
        const std::span<const std::uint8_t> train = file.train.bytes();
        for (std::size_t i = 2; i < train.size(); ++i) {
            ++three_[place(static_cast<std::size_t>(code_[train[i - 2]]),
                           static_cast<std::size_t>(code_[train[i - 1]]),
                           static_cast<std::size_t>(code_[train[i]]))];
        }
    }
    for (std::size_t a = 0; a < size_; ++a) {
        for (std::size_t bc = 0; bc < size_ * size_; ++bc) {
            const std::uint32_t count = three_[a * size_ * size_ + bc];
            Row& row = rows3_[a * size_ + bc / size_];
            row.total += count;
            row.kinds += count > 0;
            two_[bc] += count > 0;
        }
    }
    for (std::size_t bc = 0; bc < size_ * size_; ++bc) {
        Row& row = rows2_[bc / size_];
        row.total += two_[bc];
        row.kinds += two_[bc] > 0;
        one_[bc % size_] += two_[bc] > 0;
    }
    for (const std::uint32_t count : one_) {
        row1_.total += count;
        row1_.kinds += count > 0;
    }
    discount_ = {0, discount_of(one_), discount_of(two_), discount_of(three_)};
}

double NgramModel::unigram(std::uint8_t byte) const {
    const std::uint32_t count = code_[byte] < 0 ? 0 : one_[static_cast<std::size_t>(code_[byte])];
    return interpolate(count, row1_.total, row1_.kinds, discount_[1], 1.0 / 256);
}

double NgramModel::bigram(std::size_t b1, std::uint8_t byte) const {
    const Row& row = rows2_[b1];
    const std::uint32_t count =
        code_[byte] < 0 ? 0 : two_[b1 * size_ + static_cast<std::size_t>(code_[byte])];
    return interpolate(count, row.total, row.kinds, discount_[2], unigram(byte));
}

double NgramModel::probability(std::uint8_t before2, std::uint8_t before1,
                               std::uint8_t byte) const {
    if (code_[before1] < 0) return unigram(byte);
    const auto b1 = static_cast<std::size_t>(code_[before1]);
    if (code_[before2] < 0) return bigram(b1, byte);
    const auto b2 = static_cast<std::size_t>(code_[before2]);
    const Row& row = rows3_[b2 * size_ + b1];
    const std::uint32_t count =
        code_[byte] < 0 ? 0 : three_[place(b2, b1, static_cast<std::size_t>(code_[byte]))];
    return interpolate(count, row.total, row.kinds, discount_[3], bigram(b1, byte));
}

double valid_bits_per_byte(const NgramModel& model, const std::vector<Window>& windows) {
    double bits = 0;
    std::size_t count = 0;
    for (const Window& window : windows) {
        const std::span<const std::uint8_t> all = window.file->file.tokens().bytes();
        for (std::size_t i = window.begin + 1; i < window.begin + window.size; ++i, ++count) {
            const std::uint8_t before2 = i >= 2 ? all[i - 2] : all[i - 1];
            bits -= std::log2(model.probability(before2, all[i - 1], all[i]));
        }
    }
    return count > 0 ? bits / static_cast<double>(count) : 0;
}

bool are_bytes(const std::vector<Window>& windows) {
    return std::all_of(windows.begin(), windows.end(), [](const Window& window) {
        return window.tokens().type() == TokenType::Uint8;
    });
}

}  // namespace roll::data
