// The tokenizer of a HuggingFace directory: tokenizer.json, and what the files beside it say about
// where a text ends. As transformers 5 reads them: tokenizer.json alone says what is put around a
// text (add_bos_token and add_eos_token of tokenizer_config.json are not asked).
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
    std::string identity;              // equal for equal tokenizers; "bytes" for bytes
    std::optional<std::uint32_t> bos;  // bos_token and eos_token of tokenizer_config.json, or of
    std::optional<std::uint32_t> eos;  // special_tokens_map.json
    std::vector<std::uint32_t> stops;  // what ends generated text: eos_token_id, or eos
};

bool has_tokenizer(const std::filesystem::path& directory);

// Of the tokenizer in it, which is not parsed.
Result<std::string> identity_of(const std::filesystem::path& directory);

// Errors name the file: NotFound, Corrupt, InvalidArgument (a part that is not built, or a token
// that the vocabulary lacks).
Result<TextTokenizer> load_directory(const std::filesystem::path& directory);

TextTokenizer bytes_tokenizer();

}  // namespace roll::tokenizer
