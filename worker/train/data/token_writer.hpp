// Writes one token file (.bin and .idx, token_file.hpp) in pieces, so that a writer that was killed
// goes on where it last synced and the bytes come out the same. The .idx appears last, whole: where
// it is, the token file is finished.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "common/error.hpp"
#include "worker/train/data/append_file.hpp"
#include "worker/train/data/text_source.hpp"
#include "worker/train/data/tokens.hpp"

namespace roll::data {

// How far a file has come: what a writer that takes over needs to know.
struct WriteProgress {
    std::uint64_t offset = 0;  // of the source that is written
    std::uint64_t lines = 0;   // before it
    std::uint64_t tokens = 0;
    std::uint64_t sequences = 0;
    std::uint64_t documents = 0;
    std::uint64_t open = 0;  // tokens of the document that has not ended
    std::uint64_t bad_lines = 0;
    std::uint64_t bad_bytes = 0;  // of the list of bad lines
    std::uint64_t text_hash = 0;  // join_hashes of the slices before offset; 0: not known
};

// The hash of a text whose slices' hashes are joined one after the other, from 0.
std::uint64_t join_hashes(std::uint64_t before, std::uint64_t slice);

class TokenWriter {
  public:
    // `base` is the path without .bin. Goes on from what was synced last, if anything was and is
    // still there; anew otherwise.
    static Result<TokenWriter> open(const std::filesystem::path& base, TokenType type);

    const WriteProgress& progress() const { return progress_; }

    // Slices in the order of the source.
    Result<void> append(const Encoded& encoded);
    Result<void> sync();

    // Syncs, writes the .idx and removes what only a writer needs. The list of bad lines stays if
    // there are any: BASE.bad, "line<tab>reason".
    Result<void> finish();

    // How much of the source of an unfinished file is safe, in bytes; any process may ask.
    static std::uint64_t synced(const std::filesystem::path& base);

    // Removes all of an unfinished file.
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
