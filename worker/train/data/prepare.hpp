// Tokenizes text files ahead of training, once for each text, tokenizer and set of rules. Token
// files go to a directory next to the jobs' outputs. Uses only files and threads, no collectives.
// Every rank may call it at the same time: one works, the others wait for its lock.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "worker/train/data/text_source.hpp"
#include "worker/train/data/token_file.hpp"
#include "worker/train/data/token_record.hpp"

namespace roll::data {

struct PrepareOptions {
    std::filesystem::path directory;  // of token files
    std::string tokenizer;            // identity; part of the token file's name
    EncodeRules rules;                // json_lines is ignored: the extension decides
    bool skip_bad_lines = false;      // false: the first bad line is an error
    int threads = 1;
    std::chrono::seconds sync_every{1};  // most work lost by a kill; 0: sync each slice
    std::vector<std::filesystem::path> elsewhere = {};  // more directories of token files
    std::vector<std::string> hashes = {};               // whole_hash of preferred token files
};

struct Prepared {
    std::filesystem::path bin;
    std::uint64_t bad_lines = 0;  // skipped; listed in the .bad file next to `bin`
    TokenRecord record = {};
    bool source_is_gone = false;  // the tokens were made by an earlier job
    bool was_stale = false;       // replaced tokens of another text with this size and time
};

// Returns the token file of a .txt or .jsonl, making it if necessary; nullopt if told to stop.
// Fails with InvalidArgument for a bad line, naming file, line and reason.
// If the text no longer exists, returns the token file made from it in `directory` or one of
// `elsewhere`: the one whose hash is in `hashes`, or the only one. Fails with NotFound if there is
// none, with InvalidArgument if there are several.
Result<std::optional<Prepared>> prepare(const std::filesystem::path& source,
                                        const tokenizer::Tokenizer& tokenizer,
                                        const PrepareOptions& options, const GoOn& go_on);

// Reads the whole text. Returns false if its tokens were made from another text; nullopt if told to
// stop or if the record has no text hash.
Result<std::optional<bool>> verify_text(const std::filesystem::path& source,
                                        const tokenizer::Tokenizer& tokenizer,
                                        const PrepareOptions& options, const TokenRecord& record,
                                        const GoOn& go_on);

}  // namespace roll::data
