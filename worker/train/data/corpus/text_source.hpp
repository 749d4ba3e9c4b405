// A text file, read in slices that are encoded separately. A .txt is one document of any length, a
// .jsonl has one document per line. The end of a slice depends only on the slice's begin, the text
// and the tokenizer.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/error.hpp"
#include "common/files.hpp"
#include "worker/chat/model_template.hpp"
#include "worker/tokenizer/tokenizer.hpp"

namespace roll::data {

struct EncodeRules {
    bool json_lines = false;
    std::string field = "text";  // key of the text in the JSON object of a line
    // true: a document is a prompt (context only) followed by a completion
    bool completions = false;
    std::string prompt_field = "prompt", completion_field = "completion", label_field = "label";
    // true: a line has two completions, and gives two documents (pair_source.hpp); `form` is unset
    bool pairs = false;
    // true: a line has a completion with a label, or two completions, and gives two documents for
    // each: the completion with its prompt, and the label (sampler.hpp)
    bool labels = false;

    bool has_answers() const { return pairs || labels; }
    // Chat template, for conversations in place of prompts and completions. Null if there is none;
    // `no_chat` then says why.
    std::shared_ptr<const chat::ModelTemplate> chat = {};
    std::string no_chat = "the tokenizer has no chat template";
    std::optional<chat::Form> form = {};  // form of the file's conversations; unset if it has none
    chat::Names names = {};  // names that the conversations have in place of the usual ones
    chat::RenderOptions render = {};
    bool add_special = true;  // true: add the tokens that the tokenizer puts around a text
    // token appended to a document that does not end with it; -1: none
    std::int64_t end_token = -1;
    std::size_t slice_bytes = 1 << 20;  // approximate size of a slice in bytes
};

struct BadLine {
    // number of the line, counted from 1; in an Encoded, relative to the slice
    std::uint64_t line = 0;
    std::string reason;
    std::string_view text = {};  // the line's text, cut to 1 MiB; empty if not available
};

// The tokens of one slice.
struct Encoded {
    std::size_t end = 0;          // offset in the file at which the slice ends
    std::uint64_t text_hash = 0;  // hash of the slice's bytes
    std::uint64_t lines = 0;
    std::vector<std::uint32_t> ids;  // token ids; context-only ones are stored as ~id (tokens.hpp)
    // position in `ids` behind each document; with EncodeRules::has_answers(), an even number of
    // positions
    std::vector<std::size_t> document_ends;
    std::vector<BadLine> bad;
};

class TextSource {
  public:
    // Opens a text. Errors name the path. `tokenizer` must outlive this source.
    static Result<TextSource> open(const std::filesystem::path& path,
                                   const tokenizer::Tokenizer& tokenizer, EncodeRules rules);

    std::size_t size() const { return text_.size(); }

    // Returns the end of the slice that starts at `begin`. Requires begin < size().
    std::size_t slice_end(std::size_t begin) const;

    // Encodes the slice [begin, end). Thread-safe.
    Encoded encode(std::size_t begin, std::size_t end) const;

    // Returns the hash of the bytes of the slice [begin, end).
    std::uint64_t hash_of(std::size_t begin, std::size_t end) const;

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
    Result<void> encode_answers(std::string_view line, Encoded& encoded) const;
    void add_answer(const std::vector<std::uint32_t>& answer, bool conversation,
                    Encoded& encoded) const;

    MappedFile file_;
    std::string_view text_;
    const tokenizer::Tokenizer* tokenizer_;
    EncodeRules rules_;
};

}  // namespace roll::data
