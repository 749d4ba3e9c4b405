// The tokenizer of a HuggingFace directory: tokenizer.json, and the end-of-text tokens from the
// files beside it. Only tokenizer.json determines the tokens before and after a text. As in
// transformers 5, add_bos_token and add_eos_token of tokenizer_config.json are ignored.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "worker/tokenizer/tokenizer.hpp"

namespace roll::tokenizer {

struct TextTokenizer {
    Tokenizer tokenizer;
    // a text that is the same for equal tokenizers; "bytes" for the byte tokenizer
    std::string identity;
    // ids of bos_token and eos_token in tokenizer_config.json or, if they are absent there, in
    // special_tokens_map.json
    std::optional<std::uint32_t> bos;
    std::optional<std::uint32_t> eos;
    // tokens that end generated text: the tokens of eos_token_id or, if it is absent, `eos`
    std::vector<std::uint32_t> stops;
};

bool has_tokenizer(const std::filesystem::path& directory);

// Returns TextTokenizer::identity of the directory's tokenizer. Does not parse the tokenizer's
// file.
Result<std::string> identity_of(const std::filesystem::path& directory);

// Loads the tokenizer of a directory. Fails with NotFound or Corrupt, or with InvalidArgument if a
// part is unsupported or the vocabulary lacks a token. The message names the file.
Result<TextTokenizer> load_directory(const std::filesystem::path& directory);

TextTokenizer bytes_tokenizer();

}  // namespace roll::tokenizer
