// Tokenizes text files before training. Each text is tokenized once for each tokenizer and set of
// rules. The token files are stored in a directory next to the jobs' outputs. Uses only files and
// threads, no collectives. All ranks may call prepare() at the same time: one rank takes a lock and
// does the work, and the other ranks wait for this lock.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "worker/train/data/corpus/text_source.hpp"
#include "worker/train/data/corpus/token_file.hpp"
#include "worker/train/data/corpus/token_record.hpp"

namespace roll::data {

struct PrepareOptions {
    std::filesystem::path directory;  // directory of the token files
    std::string tokenizer;  // identity of the tokenizer; it is part of a token file's name
    EncodeRules rules;      // prepare() ignores `records` and `form`, and takes them from the file
    bool skip_bad_lines = false;  // false: the first bad line is an error
    int threads = 1;
    // interval at which the token file is synced to disk, so that a killed process loses only the
    // work since the last sync; 0: after each slice
    std::chrono::seconds sync_every{1};
    // further directories to search for token files
    std::vector<std::filesystem::path> elsewhere = {};
    // Hashes of token files (whole_hash). If the text no longer exists, prepare() returns a token
    // file with one of these hashes, if there is one.
    std::vector<std::string> hashes = {};
};

struct Prepared {
    std::filesystem::path bin;
    std::uint64_t bad_lines = 0;  // number of skipped lines; the .bad file next to `bin` lists them
    TokenRecord record = {};
    // true: the text no longer exists; the tokens were made by an earlier job
    bool source_is_gone = false;
    // true: prepare() replaced a token file that was made from another text of the same size and
    // time
    bool was_stale = false;
    std::optional<chat::Form> form = {};  // form of the text's conversations
};

// Returns the token file of a .txt, .jsonl or .json file. If there is none, makes it. Returns
// nullopt if `go_on` returned false. Fails with InvalidArgument for a bad line; the message names
// the file, the line and the reason.
//
// If the text no longer exists, looks in `directory` and `elsewhere` for a token file that was made
// from it. Returns the token file whose hash is in `hashes`, or the only token file. Fails with
// NotFound if there is no such token file. Fails with InvalidArgument if there are several such
// files, and none of their hashes is in `hashes`.
Result<std::optional<Prepared>> prepare(const std::filesystem::path& source,
                                        const tokenizer::Tokenizer& tokenizer,
                                        const PrepareOptions& options, const GoOn& go_on);

// Reads the whole text and compares the text with the record. Returns false if the tokens were made
// from another text. Returns nullopt if `go_on` returned false, or if the record has no text hash.
Result<std::optional<bool>> verify_text(const std::filesystem::path& source,
                                        const tokenizer::Tokenizer& tokenizer,
                                        const PrepareOptions& options, const TokenRecord& record,
                                        const GoOn& go_on);

}  // namespace roll::data
