// Opens data files as tokens for a program that has no output directory: text is tokenized into a
// temporary directory.
#pragma once

#include <filesystem>

#include "worker/tokenizer/directory.hpp"
#include "worker/train/data/corpus/prepare.hpp"
#include "worker/train/data/corpus/token_file.hpp"

namespace roll::train {

// A temporary directory that is removed, with its files, when this object is destroyed.
struct Scratch {
    Scratch();
    ~Scratch();
    Scratch(const Scratch&) = delete;
    Scratch& operator=(const Scratch&) = delete;
    std::filesystem::path path;
};

// Opens a data file. If the file is a text whose bytes are not the tokens, first tokenizes it into
// options.directory. Throws RankFailure.
data::TokenFile open_tokens(const std::filesystem::path& path,
                            const tokenizer::TextTokenizer& tokenizer,
                            const data::PrepareOptions& options);

}  // namespace roll::train
