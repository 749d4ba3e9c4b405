// Text files as byte tokens, mapped: each file's tail is held out for validation. Opening costs no
// reading; a token is a byte.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "common/error.hpp"
#include "common/files.hpp"

namespace roll::data {

using Tokens = std::span<const std::uint8_t>;

struct CorpusFile {
    MappedFile file;
    Tokens train;
    Tokens valid;  // the tail; may be empty
};

class Corpus {
  public:
    // The tail of each file is round(valid_fraction * its size) bytes. InvalidArgument, one
    // sentence: a file that is missing or empty, or no file with seq_length + 1 tokens to train on.
    static Result<Corpus> open(const std::vector<std::string>& paths, double valid_fraction,
                               std::int64_t seq_length);

    const std::vector<CorpusFile>& files() const { return files_; }
    std::int64_t train_tokens() const;
    std::int64_t valid_tokens() const;

  private:
    std::vector<CorpusFile> files_;
};

}  // namespace roll::data
