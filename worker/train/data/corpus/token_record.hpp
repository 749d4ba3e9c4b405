// The record of a token file's origin, in BASE.made next to BASE.bin, in JSON (roll.tokens/1). Roll
// uses the record to find a token file whose text no longer exists, and to detect changes of the
// text or the tokens.
#pragma once

#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/error.hpp"
#include "common/json.hpp"
#include "worker/train/data/corpus/fingerprint.hpp"

namespace roll::data {

struct TokenRecord {
    std::string source;          // absolute path of the text from which the tokens were made
    Json rules;                  // all other inputs on which the tokens depend
    std::string source_samples;  // sample_hash of the text
    std::string text_hash;  // hash of the whole text, combined from its slices; empty if unknown
    std::string samples;    // sample_hash of the .bin
    std::string hash;       // whole_hash of the .bin
};

// Reads the record of a token file; `base` is the token file's path without ".bin". Returns nullopt
// if there is no record. Token files of earlier versions have none.
Result<std::optional<TokenRecord>> read_record(const std::filesystem::path& base);
Result<void> write_record(const std::filesystem::path& base, const TokenRecord& record);

// Returns the finished token files in `directory` that were made with these rules from the text at
// path `source`. The text may have had another size or time. Each result has the token file's path
// without ".bin". The results are ordered by file name.
std::vector<std::pair<std::filesystem::path, TokenRecord>> find_records(
    const std::filesystem::path& directory, const std::string& source, const Json& rules);

// Compares the sample_hash of a .bin file with its record and, if `all` is true, the whole_hash,
// too. Fails with Corrupt if a hash differs. Returns false if `go_on` returned false.
Result<bool> check_tokens(const std::filesystem::path& bin, std::span<const std::byte> bytes,
                          const TokenRecord& record, bool all, const GoOn& go_on);

}  // namespace roll::data
