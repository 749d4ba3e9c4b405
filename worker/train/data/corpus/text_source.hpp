// A text file that is read in slices. Each slice is encoded separately. A .txt is one document of
// any length; a .jsonl has one document per line, and a .json has a list of documents. The end of a
// slice depends only on its beginning, the text and the tokenizer.
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
    bool records = false;        // true: the file is a .jsonl or a .json
    std::string field = "text";  // key of the text in the JSON object of a line
    // true: a document is a prompt (context only) followed by a completion
    bool completions = false;
    // true: a line without a prompt may have a text under `field` instead, which is learned whole
    bool texts = false;
    std::string prompt_field = "prompt", completion_field = "completion", label_field = "label";
    // true: a line has two answers to a prompt and gives two documents (pair_source.hpp); `form` is
    // unset
    bool pairs = false;
    std::string margin_field = {};  // key of a pair's margin; empty: pairs have no margin
    // true: a line has one answer with a label, or a pair. In a pair, the chosen answer gets the
    // label true, and the rejected answer gets the label false. Each answer gives two documents:
    // the prompt with the answer, and the label (sampler.hpp).
    bool labels = false;

    bool has_answers() const { return pairs || labels; }
    // Chat template for conversations. Null if there is none; `no_chat` then has the reason.
    std::shared_ptr<const chat::ModelTemplate> chat = {};
    std::string no_chat = "the tokenizer has no chat template";
    // form of the conversations in the file; unset if it has none
    std::optional<chat::Form> form = {};
    chat::Names names = {};  // names of the conversations' fields, if they are not the usual ones
    chat::RenderOptions render = {};
    bool add_special = true;  // true: add the tokens that the tokenizer puts around a text
    // token that ends each document; appended if the document's last token is another one; -1: none
    std::int64_t end_token = -1;
    std::size_t slice_bytes = 1 << 20;  // approximate size of a slice in bytes
};

struct BadLine {
    // In a .jsonl: the number of the line. In a .json: the number of the record in the list.
    // Numbers start at 1. In an Encoded, the numbers count from the beginning of the slice.
    std::uint64_t line = 0;
    std::string reason;
    std::string_view text = {};  // text of the line, cut to 1 MiB; empty if not available
};

// The tokens of one slice.
struct Encoded {
    std::size_t end = 0;          // offset in the file at which the slice ends
    std::uint64_t text_hash = 0;  // hash of the slice's bytes
    std::uint64_t lines = 0;
    // token ids; a context-only token is stored as ~id (tokens.hpp)
    std::vector<std::uint32_t> ids;
    // for each document, the position in `ids` after its last token; with
    // EncodeRules::has_answers(), there is an even number of documents
    std::vector<std::size_t> document_ends;
    std::vector<BadLine> bad;
};

// Returns whether a file has records: it is a .jsonl or a .json.
bool has_records(const std::filesystem::path& path);

// Returns the form of the conversation in a record of a file with completions. Returns nullopt if
// the record is not a conversation. As in TRL, a record with instruction, output and a text under
// `rules.field` is a text, if the rules allow texts.
std::optional<chat::Form> conversation_in(std::string_view record, const EncodeRules& rules);

// Returns whether a chat template must write the text of a record. Encodes nothing. Fails with the
// reason if the record does not have the fields that the rules name.
Result<bool> needs_template(std::string_view record, const EncodeRules& rules);

class TextSource {
  public:
    // Opens a text. Errors name the path. `tokenizer` must outlive this source.
    static Result<TextSource> open(const std::filesystem::path& path,
                                   const tokenizer::Tokenizer& tokenizer, EncodeRules rules);

    std::size_t size() const { return text_.size(); }
    // Returns "record" if the file is a list of records, otherwise "line". BadLine::line counts
    // these units.
    const char* unit() const { return list_ ? "record" : "line"; }

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
    bool list_ = false;  // true: the file is a .json with a list of records
};

}  // namespace roll::data
