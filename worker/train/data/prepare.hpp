// Tokenizing ahead: text files become token files in a directory beside the jobs' outputs, once for
// each text, tokenizer and set of rules. Only files and threads: no rank waits in a collective for
// it. Every rank may call it at once; one of them works, the others wait for its lock.
#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "worker/train/data/text_source.hpp"
#include "worker/train/data/token_file.hpp"

namespace roll::data {

struct PrepareOptions {
    std::filesystem::path directory;  // of token files
    std::string tokenizer;            // what tells it from others: part of the token file's name
    EncodeRules rules;                // but json_lines, which the source's name says
    bool skip_bad_lines = false;      // else the first one is an error
    int threads = 1;
    std::chrono::seconds sync_every{1};  // what a kill costs at most; 0: after each slice
};

// How much of a source is done, in bytes, here or by the process that is waited for.
struct PrepareProgress {
    std::uint64_t done = 0;
    std::uint64_t size = 0;
};
// Asked now and then; false: stop here, to go on another time.
using GoOn = std::function<bool(const PrepareProgress&)>;

struct Prepared {
    std::filesystem::path bin;
    std::uint64_t bad_lines = 0;  // left out, listed in the .bad file beside bin
};

// The token file of a .txt or .jsonl; nothing if it was told to stop. InvalidArgument names file,
// line and reason of a bad line.
Result<std::optional<Prepared>> prepare(const std::filesystem::path& source,
                                        const tokenizer::Tokenizer& tokenizer,
                                        const PrepareOptions& options, const GoOn& go_on);

}  // namespace roll::data
