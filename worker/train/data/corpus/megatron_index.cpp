#include "worker/train/data/corpus/megatron_index.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <limits>
#include <numeric>

#include <fmt/format.h>

#include "common/check.hpp"

namespace roll::data {
namespace {

constexpr std::size_t kEntries = 64;
constexpr std::size_t kAhead = 16;   // a size is fetched this many documents before it is read
constexpr std::size_t kDraws = 512;  // number of elements whose partners are drawn at once
// The last epoch is shuffled separately from the other epochs if less than this share of its
// samples is needed.
constexpr double kSeparateBelow = 0.80;
// If there are more samples than this, Megatron's shuffle_index has 64-bit numbers, and Megatron
// shuffles these in a different way.
constexpr std::uint64_t kSamplesMost = std::numeric_limits<std::uint32_t>::max() - 2;
constexpr std::uint64_t kSequencesMost = std::numeric_limits<std::int32_t>::max();

// Returns how often the sequences are repeated: the smallest number of epochs that has enough
// tokens for the samples.
std::uint64_t epochs_of(std::uint64_t tokens, const MegatronSampling& sampling) {
    if (!sampling.samples) return 1;
    const std::uint64_t needed =
        *sampling.samples * static_cast<std::uint64_t>(sampling.seq_length) + 1;
    return std::max<std::uint64_t>((needed + tokens - 1) / tokens, 1);
}

}  // namespace

// For i from the last element down to 1, swaps element i with the element of a number in [0, i].
// Like numpy's random_interval(), draws words until the low bits of a word are at most i. The
// numbers do not depend on the values, so they are drawn some hundred at a time, without a branch
// for rejected words, and the memory of the elements is fetched meanwhile.
template <class T>
void numpy_shuffle(MersenneTwister& random, std::span<T> values) {
    std::array<std::uint32_t, kDraws> partner{};
    for (std::size_t i = values.size() - std::min<std::size_t>(values.size(), 1); i > 0;) {
        const std::size_t mask = std::bit_ceil(i + 1) - 1;  // the same for all i above mask / 2
        const std::size_t count = std::min(kDraws, i - mask / 2);
        for (std::size_t k = 0; k < count;) {
            const std::size_t number = random() & mask;
            partner[k] = static_cast<std::uint32_t>(number);
            __builtin_prefetch(&values[std::min(number, i)], 1);
            k += number <= i - k ? 1 : 0;
        }
        for (std::size_t k = 0; k < count; ++k) std::swap(values[i - k], values[partner[k]]);
        i -= count;
    }
}

template void numpy_shuffle(MersenneTwister&, std::span<std::int32_t>);
template void numpy_shuffle(MersenneTwister&, std::span<std::uint32_t>);

Result<MegatronIndex> MegatronIndex::make(const TokenFile& file, std::size_t begin, std::size_t end,
                                          const MegatronSampling& sampling) {
    MegatronIndex index(file);
    index.length_ = static_cast<std::uint64_t>(sampling.seq_length);
    std::uint64_t tokens = 0;
    for (std::size_t i = begin; i < end; ++i) tokens += file.sequence_size(i);
    if (tokens <= index.length_ && !sampling.samples)
        return fail(
            ErrorCode::InvalidArgument,
            fmt::format("has {} tokens to train on; a sample needs {}", tokens, index.length_ + 1));
    if (tokens < 2)
        return fail(ErrorCode::InvalidArgument,
                    fmt::format("has {} tokens to train on; needed: 2 or more", tokens));
    const std::uint64_t epochs = epochs_of(tokens, sampling);
    const std::uint64_t samples = (epochs * tokens - 1) / index.length_;
    const std::uint64_t an_epoch = (tokens - 1) / index.length_;
    if (samples > kSamplesMost || epochs > kSequencesMost / std::max<std::size_t>(end - begin, 1))
        return fail(ErrorCode::InvalidArgument,
                    fmt::format("gives {} samples from {} sequences in Megatron's order; allowed: "
                                "at most {} samples and {} sequences",
                                samples, epochs * (end - begin), kSamplesMost, kSequencesMost));
    const std::uint64_t first = ((epochs - 1) * tokens - (epochs > 1 ? 1 : 0)) / index.length_;
    const bool apart = epochs > 1 && *sampling.samples - first <
                                         static_cast<std::uint64_t>(kSeparateBelow *
                                                                    static_cast<double>(an_epoch));
    MersenneTwister random(sampling.seed);
    index.shuffle_documents(random, begin, end, apart ? epochs - 1 : epochs);
    if (apart) index.shuffle_documents(random, begin, end, 1);
    index.shuffle_samples(random, 0, apart ? first : samples);
    if (apart) index.shuffle_samples(random, first, samples);
    index.add_up();
    return index;
}

void MegatronIndex::shuffle_documents(MersenneTwister& random, std::size_t begin, std::size_t end,
                                      std::uint64_t epochs) {
    const std::size_t at = documents_.size(), count = end - begin;
    documents_.resize(at + epochs * count);
    for (std::uint64_t epoch = 0; epoch < epochs; ++epoch) {
        const std::span<std::int32_t> added = std::span(documents_).subspan(at + epoch * count);
        std::iota(added.begin(), added.begin() + static_cast<std::ptrdiff_t>(count),
                  static_cast<std::int32_t>(begin));
    }
    numpy_shuffle(random, std::span(documents_).subspan(at));
}

void MegatronIndex::shuffle_samples(MersenneTwister& random, std::uint64_t begin,
                                    std::uint64_t end) {
    shuffle_.resize(end);
    const std::span<std::uint32_t> added = std::span(shuffle_).subspan(begin);
    std::iota(added.begin(), added.end(), static_cast<std::uint32_t>(begin));
    numpy_shuffle(random, added);
}

void MegatronIndex::add_up() {
    std::uint64_t tokens = 0;
    before_.reserve(documents_.size() / kEntries + 1);
    for (std::size_t i = 0; i < documents_.size(); ++i) {
        if (i % kEntries == 0) before_.push_back(tokens);
        const std::size_t later = std::min(i + kAhead, documents_.size() - 1);
        file_->prefetch_size(static_cast<std::size_t>(documents_[later]));
        tokens += file_->sequence_size(static_cast<std::size_t>(documents_[i]));
    }
}

MegatronIndex::Place MegatronIndex::begin_of(std::uint64_t unshuffled) const {
    const std::uint64_t token = unshuffled * length_;
    const auto after = std::upper_bound(before_.begin(), before_.end(), token);
    const auto block = static_cast<std::size_t>(after - before_.begin()) - 1;
    std::uint64_t left = token - before_[block];
    for (std::size_t position = block * kEntries;; ++position) {
        ROLL_CHECK(position < documents_.size());
        const std::size_t size =
            file_->sequence_size(static_cast<std::size_t>(documents_[position]));
        if (left < size) return {position, static_cast<std::size_t>(left)};
        left -= size;
    }
}

GatheredTokens MegatronIndex::gather(std::uint64_t sample) const {
    ROLL_CHECK(sample < shuffle_.size());
    const std::size_t wanted = length_ + 1;
    auto [position, offset] = begin_of(shuffle_[sample]);
    GatheredTokens gathered;
    gathered.tokens.reserve(wanted);
    for (; gathered.tokens.size() < wanted; ++position, offset = 0) {
        const Tokens all = file_->sequence(static_cast<std::size_t>(documents_[position]));
        if (offset == 0 && !gathered.tokens.empty() && !all.empty())
            gathered.starts.push_back(gathered.tokens.size());
        const std::size_t end = std::min(all.size(), offset + wanted - gathered.tokens.size());
        for (std::size_t i = offset; i < end; ++i) gathered.tokens.push_back(all[i]);
    }
    return gathered;
}

}  // namespace roll::data
