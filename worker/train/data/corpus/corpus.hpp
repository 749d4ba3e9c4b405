// The training files of a job, as tokens. A part at the end of each file is held out for
// validation.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "common/error.hpp"
#include "worker/train/data/corpus/token_file.hpp"

namespace roll::data {

// The places at which a window, or the held-out tail of a file, may begin. Anywhere: any token.
// BetweenDocuments: only the start of a document. BetweenPairs: only the start of a document with
// an even number, because documents 2 k and 2 k + 1 are a pair (or an answer and its label).
enum class Cut { Anywhere, BetweenDocuments, BetweenPairs };

struct CorpusFile {
    std::string name;  // name in the job file, for messages
    TokenFile file;
    Tokens train;
    Tokens valid;                     // the held-out part after `train`; may be empty
    std::size_t train_sequences = 0;  // number of sequences in `train`; set only by split()
};

// A token file and its name for messages.
struct NamedTokens {
    std::string name;
    TokenFile file;
};

class Corpus {
  public:
    // Makes a corpus. Holds out a tail of round(valid_fraction * size) tokens of each file. If
    // `cut` is not Anywhere, the tail begins at the next document or pair. Fails with
    // InvalidArgument if a file has no tokens, or if no file has enough tokens to train on. Outside
    // its tail, a file needs one document or, if `cut` is Anywhere, seq_length + 1 tokens. The
    // error message is one sentence.
    static Result<Corpus> make(std::vector<NamedTokens> files, double valid_fraction,
                               std::int64_t seq_length, Cut cut = Cut::Anywhere);

    // Makes a corpus as Megatron-core's `split` does. The shares divide each file into training,
    // validation and test sequences, in this order. Test sequences are not used. The first share
    // must be above 0, and the others at least 0. Fails with InvalidArgument if a file has no
    // training sequence.
    static Result<Corpus> split(std::vector<NamedTokens> files,
                                const std::array<double, 3>& shares);

    // Makes a corpus whose files are completely held out. Fails with InvalidArgument if a file has
    // no tokens.
    static Result<Corpus> held_out(std::vector<NamedTokens> files, Cut cut = Cut::Anywhere);

    Cut cut() const { return cut_; }

    const std::vector<CorpusFile>& files() const { return files_; }
    bool is_bytes() const;  // returns true if every token of every file is a byte
    std::int64_t train_tokens() const;
    std::int64_t valid_tokens() const;

  private:
    std::vector<CorpusFile> files_;
    Cut cut_ = Cut::Anywhere;
};

}  // namespace roll::data
