#include "worker/train/data/corpus/sampler.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "common/check.hpp"
#include "common/counted.hpp"

namespace roll::data {
namespace {

constexpr int kRounds = 8;

// Mixes bits as splitmix64's finalizer does, so that every input bit affects every output bit.
std::uint64_t mix(std::uint64_t x) {
    x += 0x9E3779B97F4A7C15ULL;
    x = (x ^ (x >> 30U)) * 0xBF58476D1CE4E5B9ULL;
    x = (x ^ (x >> 27U)) * 0x94D049BB133111EBULL;
    return x ^ (x >> 31U);
}

std::uint64_t mix(std::uint64_t a, std::uint64_t b) { return mix(mix(a) ^ b); }

std::uint64_t window_count(const CorpusFile& file, std::int64_t seq_length) {
    return file.train.empty() ? 0
                              : (file.train.size() - 1) / static_cast<std::uint64_t>(seq_length);
}

// Divides the tokens [begin, end) into windows of consecutive whole documents.
void pack(const CorpusFile& file, std::size_t begin, std::size_t end, const RowRules& rules,
          std::vector<Window>& windows) {
    std::vector<std::size_t> ends = file.file.starts_within(begin, end);
    ends.push_back(end);
    std::size_t first = begin, last = begin;  // range of tokens of the current window
    const auto close = [&] {
        if (last > first) windows.push_back({&file, first, last - first});
    };
    std::size_t document = begin;
    for (const std::size_t document_end : ends) {
        const Tokens tokens = file.file.tokens().subspan(document, document_end - document);
        for_pieces(tokens, rules, [&](const Piece& piece) {
            const std::size_t at = document + piece.begin;
            if (at != last || at + piece.size - first > rules.most()) {
                close();
                first = at;
            }
            last = at + piece.size;
        });
        document = document_end;
    }
    close();
}

// Adds a window for each pair that begins in the tokens [begin, end) and has tokens to learn.
void pack_pairs(const CorpusFile& file, std::size_t begin, std::size_t end, const RowRules& rules,
                std::vector<Window>& windows) {
    const Tokens all = file.file.tokens();
    const auto is_used = [&](std::size_t at, std::size_t size) {
        const Tokens document = all.subspan(at, size);
        const Piece kept = kept_piece(document, rules);
        return !rules.drops(size) && has_target(document.subspan(kept.begin, kept.size));
    };
    for_pairs(file, begin, end, [&](const Window& window, std::size_t second) {
        const std::size_t first = second - window.begin;
        const std::size_t margin = rules.margins ? kMarginTokens : 0;
        if (is_used(window.begin, first) && is_used(second, window.size - first - margin))
            windows.push_back(window);
    });
}

void pack_by(Cut cut, const CorpusFile& file, std::size_t begin, std::size_t end,
             const RowRules& rules, std::vector<Window>& windows) {
    (cut == Cut::BetweenPairs ? pack_pairs : pack)(file, begin, end, rules, windows);
}

Window gathered_window(const CorpusFile& file, GatheredTokens gathered) {
    const std::size_t size = gathered.tokens.size();
    return {&file, 0, size, 0, std::move(gathered)};
}

}  // namespace

bool has_target(const Tokens& document) {
    for (std::size_t i = 1; i < document.size(); ++i)
        if (document[i] >= 0) return true;
    return false;
}

void for_pairs(const CorpusFile& file, std::size_t begin, std::size_t end,
               const std::function<void(const Window&, std::size_t)>& visit) {
    if (begin >= end) return;
    std::vector<std::size_t> starts = file.file.starts_within(begin, end);
    starts.insert(starts.begin(), begin);
    starts.push_back(end);
    std::size_t pair = begin == 0 ? 0 : (file.file.starts_within(0, begin).size() + 1) / 2;
    for (std::size_t i = 0; i + 2 < starts.size(); i += 2, ++pair)
        visit({&file, starts[i], starts[i + 2] - starts[i], pair}, starts[i + 1]);
}

Label label_of(const Window& window) {
    const Tokens tokens = window.tokens();
    ROLL_CHECK(tokens.size() > 2);
    return {tokens[tokens.size() - 2], tokens[tokens.size() - 1] != 0};
}

Tokens mismatched_document(const Window& window) {
    const TokenFile& file = window.file->file;
    const std::size_t answers = file.documents() / 2;
    const std::size_t back = static_cast<std::size_t>(label_of(window).in_line) % answers;
    return file.document(2 * ((window.pair + answers - back) % answers));
}

Permutation::Permutation(std::uint64_t size, std::uint64_t key)
    : size_(size),
      key_(key),
      half_bits_((std::max(static_cast<int>(std::bit_width(size - 1)), 2) + 1) / 2) {
    ROLL_CHECK(size > 0);
}

std::uint64_t Permutation::encrypt(std::uint64_t value) const {
    const std::uint64_t mask = (1ULL << half_bits_) - 1;
    std::uint64_t left = value >> half_bits_, right = value & mask;
    for (int round = 0; round < kRounds; ++round) {
        const std::uint64_t turned =
            left ^ (mix(key_ + static_cast<unsigned>(round), right) & mask);
        left = right;
        right = turned;
    }
    return left << half_bits_ | right;
}

std::uint64_t Permutation::operator()(std::uint64_t index) const {
    ROLL_CHECK(index < size_);
    // The loop ends, because encrypt() is a bijection: repeated calls return to a value < size_.
    do {
        index = encrypt(index);
    } while (index >= size_);
    return index;
}

Sampler::Sampler(const Corpus& corpus, const SampleRules& rules)
    : corpus_(corpus),
      rules_(rules.rows),
      seed_(rules.seed),
      starts_{0} {}

Sampler::Sampler(const Corpus& corpus, std::int64_t seq_length, std::uint64_t seed)
    : Sampler(corpus, SampleRules{.rows = {.seq_length = seq_length}, .seed = seed}) {
    add_windows(false);
    ROLL_CHECK(windows() > 0);
}

void Sampler::add_windows(bool best_fit) {
    ROLL_CHECK(!best_fit || corpus_.cut() == Cut::BetweenDocuments);
    for (const CorpusFile& file : corpus_.files()) {
        if (best_fit) {
            rows_.emplace_back(file.file, file.train.size(), rules_);
            starts_.push_back(starts_.back() + rows_.back().size());
            continue;
        }
        const bool packs = corpus_.cut() != Cut::Anywhere;
        if (packs) pack_by(corpus_.cut(), file, 0, file.train.size(), rules_, packed_);
        starts_.push_back(packs ? packed_.size()
                                : starts_.back() + window_count(file, rules_.seq_length));
    }
}

Tokens Window::tokens() const {
    if (gathered.tokens.empty()) return file->file.tokens().subspan(begin, size);
    const auto bytes = std::as_bytes(std::span(gathered.tokens));
    return {bytes.data(), size, TokenType::Int64};
}

std::vector<std::size_t> Window::document_starts() const {
    if (!gathered.tokens.empty()) return gathered.starts;
    std::vector<std::size_t> starts = file->file.starts_within(begin, begin + size);
    for (std::size_t& start : starts) start -= begin;
    return starts;
}

namespace {

// The index of each set has this share more samples than the set's weight requires. The value is
// Megatron's default of mid_level_dataset_surplus.
constexpr double kSurplus = 0.005;

// Returns the least integer that is not below the value.
std::uint64_t ceiling(double value) { return static_cast<std::uint64_t>(std::ceil(value)); }

tl::unexpected<Error> refuse(const std::string& what) {
    return fail(ErrorCode::InvalidArgument, what);
}

}  // namespace

Result<Sampler> Sampler::make(const Corpus& corpus, const SampleRules& rules) {
    Sampler sampler(corpus, rules);
    if (rules.megatron) {
        ROLL_TRY_VOID(sampler.add_megatron(rules));
        return sampler;
    }
    sampler.add_windows(rules.best_fit);
    if (sampler.windows() == 0)
        return refuse(fmt::format(
            "no document of data.train can be trained in rows of {} tokens; set a larger "
            "train.seq_length, or another data.truncate",
            rules.rows.most()));
    if (!rules.phases.empty()) ROLL_TRY_VOID(sampler.add_blend(rules));
    return sampler;
}

// Makes the sample indexes of Megatron's order, as BlendedMegatronDatasetBuilder does. If the files
// have weights, each file's index has as many samples as its weight requires. Without weights, a
// single file's index has all samples of the job. Several files without weights have an index of
// one epoch each, and the job draws from each file in proportion to its number of samples.
Result<void> Sampler::add_megatron(const SampleRules& rules) {
    const std::vector<CorpusFile>& files = corpus_.files();
    const std::uint64_t samples = *rules.megatron;
    ROLL_CHECK(rules.phases.size() <= 1 && rules.seed <= std::numeric_limits<std::uint32_t>::max());
    std::vector<double> weights;
    if (!rules.phases.empty()) weights = normalized(rules.phases.front().weights);
    std::uint64_t total = weights.empty() ? samples : 0;
    for (std::size_t i = 0; i < files.size(); ++i) {
        MegatronSampling sampling{
            rules.rows.seq_length, static_cast<std::uint32_t>(rules.seed), {}};
        if (files.size() == 1 && weights.empty()) sampling.samples = samples;
        if (!weights.empty()) {
            const std::uint64_t target = ceiling(static_cast<double>(samples) * weights[i]);
            sampling.samples = ceiling(static_cast<double>(target) * (1 + kSurplus));
            total += target;
        }
        auto index = MegatronIndex::make(files[i].file, 0, files[i].train_sequences, sampling);
        if (!index) return refuse("data.train: " + files[i].name + " " + index.error().message);
        starts_.push_back(starts_.back() + index->size());
        indexes_.push_back(*std::move(index));
    }
    if (files.size() == 1 && weights.empty()) return {};
    if (weights.empty()) {
        if (samples > windows())
            return refuse(fmt::format(
                "data.order megatron without data.weights gives one epoch of {}, but "
                "train.steps x train.global_batch_size needs {}; set data.weights, or lower "
                "train.steps",
                counted(windows(), "sample"), samples));
        for (const MegatronIndex& index : indexes_)
            weights.push_back(static_cast<double>(index.size()));
    }
    blend_.emplace(std::vector<BlendPhase>{{0, normalized(weights)}});
    const std::vector<std::uint64_t> counts = blend_->counts(total);
    for (std::size_t i = 0; i < files.size(); ++i)
        if (counts[i] > indexes_[i].size())
            return refuse(
                fmt::format("data.weights: the job draws {} from {}, but Megatron's order has "
                            "only {} of this file; lower the weight of this file",
                            counted(counts[i], "sample"), files[i].name, indexes_[i].size()));
    return {};
}

double Sampler::mean_size(std::size_t file) const {
    if (!rows_.empty())
        return static_cast<double>(rows_[file].tokens()) / static_cast<double>(windows_of(file));
    if (packed_.empty()) return static_cast<double>(rules_.seq_length + 1);
    double tokens = 0;
    for (std::uint64_t i = starts_[file]; i < starts_[file + 1]; ++i)
        tokens += static_cast<double>(packed_[i].size);
    return tokens / static_cast<double>(windows_of(file));
}

Result<void> Sampler::add_blend(const SampleRules& rules) {
    std::vector<BlendPhase> phases = rules.phases;
    for (BlendPhase& phase : phases) {
        for (std::size_t i = 0; i < phase.weights.size(); ++i) {
            if (phase.weights[i] == 0) continue;
            if (windows_of(i) == 0)
                return refuse(
                    fmt::format("data.weights: {} has the weight {}, but too few tokens for a "
                                "sample; set its weight to 0, or set a smaller train.seq_length",
                                corpus_.files()[i].name, phase.weights[i]));
            if (rules.by_tokens) phase.weights[i] /= mean_size(i);
        }
        phase.weights = normalized(phase.weights);
    }
    blend_.emplace(std::move(phases));
    return {};
}

// Returns a window by its number. `key` identifies the epoch, and so determines the offset by which
// the windows of a file are shifted.
Window Sampler::window_of(std::uint64_t window, std::uint64_t key) const {
    if (!packed_.empty()) return packed_[window];
    const auto after = std::upper_bound(starts_.begin(), starts_.end(), window);
    const auto file = static_cast<std::size_t>(after - starts_.begin()) - 1;
    const CorpusFile& source = corpus_.files()[file];
    if (!rows_.empty()) return gathered_window(source, rows_[file].gather(window - starts_[file]));
    const auto length = static_cast<std::uint64_t>(rules_.seq_length);
    const std::uint64_t spare = (source.train.size() - 1) % length;
    const std::uint64_t offset = mix(key, file) % (spare + 1);
    return {&source, offset + (window - starts_[file]) * length, length + 1};
}

Window Sampler::sample(std::uint64_t index) const {
    const Blend::Draw draw = blend_ ? blend_->at(index) : Blend::Draw{0, index};
    if (!indexes_.empty()) {
        const CorpusFile& file = corpus_.files()[draw.set];
        return gathered_window(file, indexes_[draw.set].gather(draw.sample));
    }
    if (!blend_) {
        const std::uint64_t key = mix(seed_, index / windows());
        return window_of(Permutation(windows(), key)(index % windows()), key);
    }
    const std::uint64_t count = windows_of(draw.set);
    const std::uint64_t key = mix(mix(seed_, draw.sample / count), draw.set);
    return window_of(starts_[draw.set] + Permutation(count, key)(draw.sample % count), key);
}

std::vector<Window> valid_windows(const Corpus& corpus, const RowRules& rules) {
    std::vector<Window> windows;
    const auto length = static_cast<std::size_t>(rules.seq_length);
    for (const CorpusFile& file : corpus.files()) {
        if (corpus.cut() != Cut::Anywhere) {
            pack_by(corpus.cut(), file, file.train.size(), file.file.tokens().size(), rules,
                    windows);
            continue;
        }
        for (std::size_t begin = 0; begin + 1 < file.valid.size(); begin += length) {
            windows.push_back({&file, file.train.size() + begin,
                               std::min(length + 1, file.valid.size() - begin)});
        }
    }
    return windows;
}

}  // namespace roll::data
