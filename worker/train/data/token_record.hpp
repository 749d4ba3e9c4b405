// What a token file was made of: BASE.made beside BASE.bin, JSON (roll.tokens/1). By it a token
// file is found again when its text is gone, and changed bytes of either are noticed.
#pragma once

#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/error.hpp"
#include "common/json.hpp"
#include "worker/train/data/fingerprint.hpp"

namespace roll::data {

struct TokenRecord {
    std::string source;          // absolute path of the text
    Json rules;                  // all else that the tokens depend on: tokenizer, fields, ...
    std::string source_samples;  // sample_hash of the text
    std::string text_hash;       // of all of it, slice by slice; empty: not known
    std::string samples;         // sample_hash of the .bin
    std::string hash;            // whole_hash of the .bin
};

// `base` is the path without .bin. nullopt if there is none, as of a version before it.
Result<std::optional<TokenRecord>> read_record(const std::filesystem::path& base);
Result<void> write_record(const std::filesystem::path& base, const TokenRecord& record);

// Finished token files of this text and these rules in a directory, whatever the text's size and
// time were: paths without .bin, in the order of names.
std::vector<std::pair<std::filesystem::path, TokenRecord>> find_records(
    const std::filesystem::path& directory, const std::string& source, const Json& rules);

// Error Corrupt if the bytes of a .bin are not those that were written: of its samples, or of all
// of them. False if `go_on` said no.
Result<bool> check_tokens(const std::filesystem::path& bin, std::span<const std::byte> bytes,
                          const TokenRecord& record, bool all, const GoOn& go_on);

}  // namespace roll::data
