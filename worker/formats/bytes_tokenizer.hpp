// The tokenizer that needs none: a token is a byte. As files that transformers reads
// (AutoTokenizer.from_pretrained), so that a checkpoint trained on bytes is whole without Roll; and
// as a mark in the HuggingFace config, "roll_tokenizer": "bytes", for programs without a JSON
// tokenizer.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "common/json.hpp"

namespace roll::formats {

// (file name, content): tokenizer.json and tokenizer_config.json.
std::vector<std::pair<std::string, std::string>> bytes_tokenizer_files();

// Marks a HuggingFace config, takes the mark away, and asks for it.
void mark_bytes_tokenizer(Json& hf_config);
void unmark_bytes_tokenizer(Json& hf_config);
bool has_bytes_tokenizer(const Json& hf_config);

}  // namespace roll::formats
