#include "worker/train/data/corpus.hpp"

#include <algorithm>
#include <cmath>

namespace roll::data {
namespace {

Result<CorpusFile> open_file(const std::string& path, double valid_fraction) {
    auto file = MappedFile::open(path);
    if (!file) {
        return fail(ErrorCode::InvalidArgument, "data.train: " + file.error().message,
                    "give the path of a text file; relative ones are taken from the job file");
    }
    const std::span<const std::byte> bytes = file->bytes();
    if (bytes.empty()) return fail(ErrorCode::InvalidArgument, "data.train: " + path + " is empty");
    const Tokens tokens(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size());
    const auto held_out =
        static_cast<std::size_t>(std::llround(valid_fraction * static_cast<double>(tokens.size())));
    const std::size_t cut = tokens.size() - std::min(held_out, tokens.size());
    return CorpusFile{*std::move(file), tokens.first(cut), tokens.subspan(cut)};
}

}  // namespace

Result<Corpus> Corpus::open(const std::vector<std::string>& paths, double valid_fraction,
                            std::int64_t seq_length) {
    Corpus corpus;
    std::size_t longest = 0;
    for (const std::string& path : paths) {
        ROLL_TRY(CorpusFile file, open_file(path, valid_fraction));
        longest = std::max(longest, file.train.size());
        corpus.files_.push_back(std::move(file));
    }
    if (longest < static_cast<std::size_t>(seq_length) + 1) {
        return fail(ErrorCode::InvalidArgument,
                    "data.train: no file has the " + std::to_string(seq_length + 1) +
                        " tokens that train.seq_length " + std::to_string(seq_length) +
                        " asks for; the longest has " + std::to_string(longest) +
                        " beside its held-out tail");
    }
    return corpus;
}

std::int64_t Corpus::train_tokens() const {
    std::int64_t total = 0;
    for (const CorpusFile& file : files_) total += std::ssize(file.train);
    return total;
}

std::int64_t Corpus::valid_tokens() const {
    std::int64_t total = 0;
    for (const CorpusFile& file : files_) total += std::ssize(file.valid);
    return total;
}

}  // namespace roll::data
