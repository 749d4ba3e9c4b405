// The byte tokenizer: every token is a byte. It is written as files that transformers reads
// (AutoTokenizer.from_pretrained), so that a checkpoint trained on bytes works without Roll. The
// HuggingFace config also gets a mark ("roll_tokenizer": "bytes") for programs that do not read
// tokenizer.json.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "common/json.hpp"

namespace roll::formats {

// Returns the tokenizer's files as pairs (file name, content): tokenizer.json and
// tokenizer_config.json.
std::vector<std::pair<std::string, std::string>> bytes_tokenizer_files();

// Set, remove and test the mark of the byte tokenizer in a HuggingFace config.
void mark_bytes_tokenizer(Json& hf_config);
void unmark_bytes_tokenizer(Json& hf_config);
bool has_bytes_tokenizer(const Json& hf_config);

}  // namespace roll::formats
