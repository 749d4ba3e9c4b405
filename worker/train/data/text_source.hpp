// A text file cut into slices that are encoded one by one: a .txt, which is one document of any
// length, or a .jsonl, a document a line. Where slices end depends on the text, the tokenizer and
// where the slice before ended, on nothing else.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "common/error.hpp"
#include "common/files.hpp"
#include "worker/tokenizer/tokenizer.hpp"

namespace roll::data {

struct EncodeRules {
    bool json_lines = false;
    std::string field = "text";  // of a line's object
    bool completions = false;    // a document is a line's prompt, only read, and completion
    std::string prompt_field = "prompt", completion_field = "completion";
    bool add_special = true;            // what the tokenizer puts around a text
    std::int64_t end_token = -1;        // after each document that does not end with it; -1: none
    std::size_t slice_bytes = 1 << 20;  // about
};

struct BadLine {
    std::uint64_t line = 0;  // from 1; from the slice's first line in an Encoded
    std::string reason;
    std::string_view text = {};  // the line, or the first MiB of it, where the source has it
};

// The tokens of one slice.
struct Encoded {
    std::size_t end = 0;          // of the slice in the file
    std::uint64_t text_hash = 0;  // of the slice's bytes
    std::uint64_t lines = 0;
    std::vector<std::uint32_t> ids;          // those only read as tokens.hpp has them
    std::vector<std::size_t> document_ends;  // positions in ids
    std::vector<BadLine> bad;
};

class TextSource {
  public:
    // Errors name the path. The tokenizer outlives it.
    static Result<TextSource> open(const std::filesystem::path& path,
                                   const tokenizer::Tokenizer& tokenizer, EncodeRules rules);

    std::size_t size() const { return text_.size(); }

    // Where the slice that begins here ends. REQUIRES: begin < size().
    std::size_t slice_end(std::size_t begin) const;

    // Any number of threads may encode.
    Encoded encode(std::size_t begin, std::size_t end) const;

    std::uint64_t hash_of(std::size_t begin, std::size_t end) const;  // of a slice's bytes

  private:
    TextSource(MappedFile file, const tokenizer::Tokenizer& tokenizer, EncodeRules rules);
    std::string_view before(std::size_t at) const;
    bool is_token_boundary(std::size_t at) const;
    std::size_t cut_before(std::size_t limit, std::size_t begin) const;
    void encode_line(std::string_view line, Encoded& encoded) const;
    Result<bool> encode_document(std::string_view line, std::vector<std::uint32_t>& ids) const;
    void encode_pair(const std::string& prompt, const std::string& completion,
                     std::vector<std::uint32_t>& ids) const;
    void encode_line_within_memory(std::string_view line, Encoded& encoded) const;
    void end_document(std::size_t document_begin, Encoded& encoded) const;

    MappedFile file_;
    std::string_view text_;
    const tokenizer::Tokenizer* tokenizer_;
    EncodeRules rules_;
};

}  // namespace roll::data
