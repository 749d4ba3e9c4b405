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

// Opens a data file. If the file holds text, first tokenizes the text into options.directory. A
// .txt for the byte tokenizer is opened directly, because the bytes of the text are the tokens.
// Throws RankFailure.
data::TokenFile open_tokens(const std::filesystem::path& path,
                            const tokenizer::TextTokenizer& tokenizer,
                            const data::PrepareOptions& options);

}  // namespace roll::train
