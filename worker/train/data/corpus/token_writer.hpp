// Writes one token file (.bin and .idx, token_file.hpp) incrementally. If the process is killed, a
// new writer continues from the last sync and produces the same bytes. The .idx is written last and
// atomically, so a token file with an .idx is complete.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "common/error.hpp"
#include "worker/train/data/corpus/append_file.hpp"
#include "worker/train/data/corpus/text_source.hpp"
#include "worker/train/data/corpus/tokens.hpp"

namespace roll::data {

// Returns `path` with `suffix` appended to its file name.
std::filesystem::path with_suffix(std::filesystem::path path, const char* suffix);

// The progress of writing a file. Another writer can continue from this point.
struct WriteProgress {
    std::uint64_t offset = 0;  // offset in the source; all tokens before it are written
    std::uint64_t lines = 0;   // number of lines before `offset`
    std::uint64_t tokens = 0;
    std::uint64_t sequences = 0;
    std::uint64_t documents = 0;
    std::uint64_t open = 0;  // number of tokens in the unfinished document
    std::uint64_t bad_lines = 0;
    std::uint64_t bad_bytes = 0;  // size of the list of bad lines in bytes
    // hash of the source before `offset`, from join_hashes(); 0: unknown
    std::uint64_t text_hash = 0;
};

// Returns the hash of all slices up to this one. `slice` is the hash of this slice. `before` is the
// result for the slices before it, or 0 for the first slice.
std::uint64_t join_hashes(std::uint64_t before, std::uint64_t slice);

class TokenWriter {
  public:
    // Opens a writer; `base` is the token file's path without ".bin". If files of an earlier writer
    // exist, continues from their last sync; otherwise, starts from the beginning.
    static Result<TokenWriter> open(const std::filesystem::path& base, TokenType type);

    const WriteProgress& progress() const { return progress_; }

    // Appends the tokens of the next slice of the source.
    Result<void> append(const Encoded& encoded);
    Result<void> sync();

    // Syncs, writes the .idx and removes the writer's temporary files. If there are bad lines, the
    // file BASE.bad remains, with lines "line<tab>reason".
    Result<void> finish();

    // Returns the number of bytes of the source whose tokens are already on disk, in the unfinished
    // token file `base`. Any process may call this function.
    static std::uint64_t synced(const std::filesystem::path& base);

    // Removes all files of an unfinished token file.
    static void discard(const std::filesystem::path& base);

  private:
    TokenWriter(std::filesystem::path base, TokenType type);
    static Result<TokenWriter> go_on(const std::filesystem::path& base, TokenType type);
    std::filesystem::path path(const char* suffix) const;
    void end_sequence(std::uint64_t tokens, bool ends_document, std::string& records);
    Result<void> write_index();

    std::filesystem::path base_;
    TokenType type_;
    WriteProgress progress_;
    AppendFile tokens_, sequences_, bad_;
};

}  // namespace roll::data
