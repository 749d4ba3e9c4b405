#include "worker/train/data/corpus/megatron_index.hpp"

#include <algorithm>
#include <future>
#include <limits>
#include <numeric>

#include <fmt/format.h>

#include "common/check.hpp"
#include "worker/train/data/corpus/huge_pages.hpp"
#include "worker/train/data/corpus/numpy_shuffle.hpp"

namespace roll::data {
namespace {

constexpr std::size_t kEntries = 64;
constexpr std::size_t kBlocksAhead = 2;  // sizes are prefetched this many blocks ahead
// The last epoch is shuffled separately from the other epochs if less than this share of its
// samples is needed.
constexpr double kSeparateBelow = 0.80;
// If there are more samples than this, Megatron's shuffle_index has 64-bit numbers, and Megatron
// shuffles these in a different way.
constexpr std::uint64_t kSamplesMost = std::numeric_limits<std::uint32_t>::max() - 2;
constexpr std::uint64_t kSequencesMost = std::numeric_limits<std::int32_t>::max();
constexpr std::uint64_t kSequenceMost = std::numeric_limits<std::int32_t>::max();

// Returns how often the sequences are repeated: the smallest number of epochs that has enough
// tokens for the samples.
std::uint64_t epochs_of(std::uint64_t tokens, const MegatronSampling& sampling) {
    if (!sampling.samples) return 1;
    const std::uint64_t needed =
        *sampling.samples * static_cast<std::uint64_t>(sampling.seq_length) + 1;
    return std::max<std::uint64_t>((needed + tokens - 1) / tokens, 1);
}

// Adds up the sizes of each block of kEntries documents. `sizes` begins with the size of document
// `first`.
void add_blocks(std::span<const std::int32_t> documents, std::span<const std::int32_t> sizes,
                std::size_t first, std::span<std::uint64_t> sums) {
    const auto block = [&](std::size_t i) {
        const std::size_t begin = std::min(i * kEntries, documents.size());
        return documents.subspan(begin, std::min(kEntries, documents.size() - begin));
    };
    const auto size_of = [&](std::int32_t document) -> const std::int32_t& {
        return sizes[static_cast<std::size_t>(document) - first];
    };
    for (std::size_t i = 0; i < sums.size(); ++i) {
        for (const std::int32_t document : block(i + kBlocksAhead))
            __builtin_prefetch(&size_of(document));
        std::uint64_t sum = 0;
        for (const std::int32_t document : block(i))
            sum += static_cast<std::uint64_t>(size_of(document));
        sums[i] = sum;
    }
}

}  // namespace

Result<MegatronIndex> MegatronIndex::make(const TokenFile& file, std::size_t begin, std::size_t end,
                                          const MegatronSampling& sampling) {
    MegatronIndex index(file);
    index.length_ = static_cast<std::uint64_t>(sampling.seq_length);
    if (file.sequences() == 1 && file.tokens().size() > kSequenceMost)
        return fail(ErrorCode::InvalidArgument,
                    fmt::format("is one document of {} tokens; allowed with Megatron's order: at "
                                "most {} tokens",
                                file.tokens().size(), kSequenceMost));
    const std::vector<std::int32_t> sizes = file.sequence_sizes(begin, end);
    const std::uint64_t tokens = std::accumulate(sizes.begin(), sizes.end(), std::uint64_t{0});
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
    const std::uint64_t together = apart ? epochs - 1 : epochs;  // epochs that are shuffled as one
    index.list_documents(begin, end, epochs);
    index.shuffle_ = zeros_on_huge_pages<std::uint32_t>(samples);
    std::iota(index.shuffle_.begin(), index.shuffle_.end(), 0U);
    const std::span documents(index.documents_);
    const std::size_t split = together * (end - begin);
    MersenneTwister random(sampling.seed);
    numpy_shuffle_beside(random, {documents.first(split), documents.subspan(split)}, [&] {
        const std::span shuffle(index.shuffle_);
        numpy_shuffle(random, shuffle.first(apart ? first : samples));
        numpy_shuffle(random, shuffle.subspan(apart ? first : samples));
    });
    index.add_up(sizes, begin);
    return index;
}

// Lists the sequences [begin, end) once for each epoch.
void MegatronIndex::list_documents(std::size_t begin, std::size_t end, std::uint64_t epochs) {
    const std::size_t count = end - begin;
    documents_ = zeros_on_huge_pages<std::int32_t>(epochs * count);
    for (std::uint64_t epoch = 0; epoch < epochs; ++epoch) {
        const std::span<std::int32_t> added = std::span(documents_).subspan(epoch * count, count);
        std::iota(added.begin(), added.end(), static_cast<std::int32_t>(begin));
    }
}

// Fills `before_` from the sizes of the sequences from `begin` on, in two threads.
void MegatronIndex::add_up(const std::vector<std::int32_t>& sizes, std::size_t begin) {
    const std::size_t blocks = (documents_.size() + kEntries - 1) / kEntries, half = blocks / 2;
    before_.resize(blocks);
    const std::span<const std::int32_t> documents(documents_);
    const std::span sums(before_);
    const std::future<void> first = std::async(
        [&] { add_blocks(documents.first(half * kEntries), sizes, begin, sums.first(half)); });
    add_blocks(documents.subspan(half * kEntries), sizes, begin, sums.subspan(half));
    first.wait();
    std::exclusive_scan(before_.begin(), before_.end(), before_.begin(), std::uint64_t{0});
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
