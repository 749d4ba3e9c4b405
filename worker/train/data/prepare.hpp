// Tokenizing ahead: text files become token files in a directory beside the jobs' outputs, once for
// each text, tokenizer and set of rules. Only files and threads: no rank waits in a collective for
// it. Every rank may call it at once; one of them works, the others wait for its lock.
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
    std::string tokenizer;            // what tells it from others: part of the token file's name
    EncodeRules rules;                // but json_lines, which the source's name says
    bool skip_bad_lines = false;      // else the first one is an error
    int threads = 1;
    std::chrono::seconds sync_every{1};  // what a kill costs at most; 0: after each slice
    std::vector<std::filesystem::path> elsewhere = {};  // more directories of token files
    std::vector<std::string> hashes = {};               // whole_hash of token files that are wanted
};

struct Prepared {
    std::filesystem::path bin;
    std::uint64_t bad_lines = 0;  // left out, listed in the .bad file beside bin
    TokenRecord record = {};
    bool source_is_gone = false;  // the tokens are of an earlier job
    bool was_stale = false;       // there were tokens of another text of the same size and time
};

// The token file of a .txt or .jsonl; nothing if it was told to stop. InvalidArgument names file,
// line and reason of a bad line. Of a text that is gone, the token file that was made of it in
// `directory` or one of `elsewhere`: the one whose hash is among `hashes`, or the only one.
// NotFound if there is none, InvalidArgument if there are several.
Result<std::optional<Prepared>> prepare(const std::filesystem::path& source,
                                        const tokenizer::Tokenizer& tokenizer,
                                        const PrepareOptions& options, const GoOn& go_on);

// Reads all of a text. False: it is not the one that its tokens were made of; nullopt if it was
// told to stop, or nothing is known of it.
Result<std::optional<bool>> verify_text(const std::filesystem::path& source,
                                        const tokenizer::Tokenizer& tokenizer,
                                        const PrepareOptions& options, const TokenRecord& record,
                                        const GoOn& go_on);

}  // namespace roll::data
