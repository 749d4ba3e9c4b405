// The tokenizer of a HuggingFace directory: tokenizer.json, and the end-of-text tokens from the
// files beside it. The tokens that are put around a text come from tokenizer.json alone: as in
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
    // text that is equal for equal tokenizers; "bytes" for the byte tokenizer
    std::string identity;
    // Ids of bos_token and eos_token, from tokenizer_config.json or else from
    // special_tokens_map.json.
    std::optional<std::uint32_t> bos;
    std::optional<std::uint32_t> eos;
    // tokens that end generated text: those of eos_token_id, or else `eos`
    std::vector<std::uint32_t> stops;
};

bool has_tokenizer(const std::filesystem::path& directory);

// Returns the identity of the directory's tokenizer, as in TextTokenizer, without parsing the file.
Result<std::string> identity_of(const std::filesystem::path& directory);

// Loads the tokenizer of a directory. Fails with NotFound, Corrupt or InvalidArgument (an
// unsupported part, or a token that the vocabulary lacks); the message names the file.
Result<TextTokenizer> load_directory(const std::filesystem::path& directory);

TextTokenizer bytes_tokenizer();

}  // namespace roll::tokenizer
