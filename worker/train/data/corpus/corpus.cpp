#include "worker/train/data/corpus/corpus.hpp"

#include <algorithm>
#include <cmath>

#include "common/counted.hpp"
#include "worker/train/data/corpus/blend.hpp"

namespace roll::data {
namespace {

// Returns the first token at or after token `at` that starts a pair. Returns the number of tokens
// if there is none.
std::size_t next_pair(const TokenFile& file, std::size_t at) {
    const std::size_t end = file.tokens().size();
    // the starts of documents 1, 2, ...; starts_within() leaves out the start of document 0
    const std::vector<std::size_t> starts = file.starts_within(0, end);
    for (std::size_t i = 1; at > 0 && i < starts.size(); i += 2)
        if (starts[i] >= at) return starts[i];
    return at == 0 ? 0 : end;
}

// Returns the first token at or after token `at` that starts a document. Returns the number of
// tokens if there is none.
std::size_t next_document(const TokenFile& file, std::size_t at) {
    const std::size_t end = file.tokens().size();
    if (at == 0 || at >= end) return at;
    const std::vector<std::size_t> starts = file.starts_within(at - 1, end);
    return starts.empty() ? end : starts.front();
}

Result<CorpusFile> cut_tail(NamedTokens named, double valid_fraction, Cut where) {
    const Tokens tokens = named.file.tokens();
    if (tokens.empty())
        return fail(ErrorCode::InvalidArgument, "data.train: " + named.name + " is empty");
    const auto held_out =
        static_cast<std::size_t>(std::llround(valid_fraction * static_cast<double>(tokens.size())));
    std::size_t cut = tokens.size() - std::min(held_out, tokens.size());
    if (where == Cut::BetweenDocuments) cut = next_document(named.file, cut);
    if (where == Cut::BetweenPairs) cut = next_pair(named.file, cut);
    return CorpusFile{std::move(named.name), std::move(named.file), tokens.first(cut),
                      tokens.subspan(cut)};
}

}  // namespace

Result<Corpus> Corpus::make(std::vector<NamedTokens> files, double valid_fraction,
                            std::int64_t seq_length, Cut cut) {
    Corpus corpus;
    corpus.cut_ = cut;
    const std::size_t enough = cut == Cut::Anywhere ? static_cast<std::size_t>(seq_length) + 1 : 1;
    std::size_t longest = 0;
    for (NamedTokens& named : files) {
        ROLL_TRY(CorpusFile file, cut_tail(std::move(named), valid_fraction, cut));
        longest = std::max(longest, file.train.size());
        corpus.files_.push_back(std::move(file));
    }
    if (longest < enough) {
        return fail(ErrorCode::InvalidArgument,
                    "data.train: the longest file has " + counted(longest, "training token") +
                        "; train.seq_length " + std::to_string(seq_length) + " requires " +
                        std::to_string(enough) +
                        "; give a longer file, or a smaller train.seq_length");
    }
    return corpus;
}

Result<Corpus> Corpus::split(std::vector<NamedTokens> files, const std::array<double, 3>& shares) {
    const std::vector<double> parts = normalized(shares);
    Corpus corpus;
    for (NamedTokens& named : files) {
        const TokenFile& file = named.file;
        const auto count = static_cast<double>(file.sequences());
        // rounds half to even, as Python's round() does
        const auto bound = [&](double share) {
            return std::min(static_cast<std::size_t>(std::nearbyint(share * count)),
                            file.sequences());
        };
        const std::size_t train = bound(parts[0]);
        const std::size_t valid = parts[1] > 0 ? bound(parts[0] + parts[1]) : train;
        const auto start = [&](std::size_t sequence) {
            if (sequence == file.sequences()) return file.tokens().size();
            return static_cast<std::size_t>(file.sequence(sequence).data() - file.tokens().data()) /
                   size_of(file.tokens().type());
        };
        if (train == 0)
            return fail(ErrorCode::InvalidArgument,
                        "data.split: " + named.name + " has " +
                            counted(file.sequences(), "sequence") +
                            ", and the training part gets none of them; raise the first share");
        const std::size_t end = start(train), valid_end = start(valid);
        const Tokens tokens = file.tokens();
        corpus.files_.push_back({std::move(named.name), std::move(named.file), tokens.first(end),
                                 tokens.subspan(end, valid_end - end), train});
    }
    return corpus;
}

Result<Corpus> Corpus::held_out(std::vector<NamedTokens> files, Cut cut) {
    Corpus corpus;
    corpus.cut_ = cut;
    for (NamedTokens& named : files) {
        const Tokens tokens = named.file.tokens();
        if (tokens.empty())
            return fail(ErrorCode::InvalidArgument, "data.valid: " + named.name + " is empty");
        corpus.files_.push_back(
            {std::move(named.name), std::move(named.file), tokens.first(0), tokens});
    }
    return corpus;
}

bool Corpus::is_bytes() const {
    return std::all_of(files_.begin(), files_.end(), [](const CorpusFile& file) {
        return file.train.type() == TokenType::Uint8;
    });
}

std::int64_t Corpus::train_tokens() const {
    std::int64_t total = 0;
    for (const CorpusFile& file : files_) total += static_cast<std::int64_t>(file.train.size());
    return total;
}

std::int64_t Corpus::valid_tokens() const {
    std::int64_t total = 0;
    for (const CorpusFile& file : files_) total += static_cast<std::int64_t>(file.valid.size());
    return total;
}

}  // namespace roll::data
