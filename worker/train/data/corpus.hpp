// The files that a job trains on, as tokens: each file's tail is held out for validation.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/error.hpp"
#include "worker/train/data/token_file.hpp"

namespace roll::data {

// Where windows of a file's tokens, and its held-out tail, may begin: at any token, or only where a
// document does.
enum class Cut { Anywhere, BetweenDocuments };

struct CorpusFile {
    std::string name;  // for messages: what the job file calls it
    TokenFile file;
    Tokens train;
    Tokens valid;  // the tail; may be empty
};

// A named file of tokens.
struct NamedTokens {
    std::string name;
    TokenFile file;
};

class Corpus {
  public:
    // The tail of each file is round(valid_fraction * its size) tokens, less what a document lacks.
    // InvalidArgument, one sentence: a file without tokens, or no file with something to train on:
    // seq_length + 1 tokens, or a document.
    static Result<Corpus> make(std::vector<NamedTokens> files, double valid_fraction,
                               std::int64_t seq_length, Cut cut = Cut::Anywhere);

    // Files that are held out as a whole. InvalidArgument: one without tokens.
    static Result<Corpus> held_out(std::vector<NamedTokens> files, Cut cut = Cut::Anywhere);

    Cut cut() const { return cut_; }

    const std::vector<CorpusFile>& files() const { return files_; }
    bool is_bytes() const;  // every file is of byte-sized tokens
    std::int64_t train_tokens() const;
    std::int64_t valid_tokens() const;

  private:
    std::vector<CorpusFile> files_;
    Cut cut_ = Cut::Anywhere;
};

}  // namespace roll::data
