#include "worker/train/data/corpus/text_source.hpp"

#include <algorithm>
#include <new>
#include <span>

#include "common/hash.hpp"
#include "common/json.hpp"
#include "common/json_records.hpp"
#include "worker/train/data/corpus/chat_source.hpp"
#include "worker/train/data/corpus/pair_source.hpp"
#include "worker/train/data/corpus/tokens.hpp"

namespace roll::data {
namespace {

// Number of bytes of text on each side of a cut that are encoded to check the cut
constexpr std::size_t kContext = 256;
// maximum number of line ends, and of spaces, at which a cut is tried
constexpr int kTriesMax = 16;
constexpr std::uint64_t kLineMax = 1ULL << 30;
// number of bytes of a bad line that are kept for messages
constexpr std::size_t kQuoted = 1 << 20;

std::string mib(std::size_t bytes) { return std::to_string(bytes >> 20) + " MiB"; }

bool is_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }
bool continues_character(char c) { return (static_cast<unsigned char>(c) & 0xC0U) == 0x80U; }

// Returns the JSON object in a line. If there is none, fails with the reason.
Result<Json> object_of(std::string_view line) {
    if (line.size() > kLineMax)
        return fail(ErrorCode::InvalidArgument,
                    "has " + mib(line.size()) + "; allowed: at most 1 GiB");
    auto json = parse_json(line);
    if (!json) return fail(ErrorCode::InvalidArgument, json.error().message);
    if (!json->is_object()) return fail(ErrorCode::InvalidArgument, "is not a JSON object");
    return json;
}

Result<std::string> text_of(const Json& object, const std::string& field) {
    const auto found = object.find(field);
    if (found == object.end())
        return fail(ErrorCode::InvalidArgument, "has no field \"" + field + "\"");
    if (!found->is_string())
        return fail(ErrorCode::InvalidArgument, "its field \"" + field + "\" is not a string");
    return found->get<std::string>();
}

// Returns whether a record is a text instead of a prompt and a completion. As in TRL, a record with
// a prompt is never a text.
bool is_whole_text(const Json& object, const EncodeRules& rules) {
    if (!rules.completions) return true;
    return rules.texts && !object.contains(rules.prompt_field) && object.contains(rules.field);
}

AnswerFields fields_of(const EncodeRules& rules) {
    return {rules.prompt_field, rules.completion_field, rules.label_field, rules.margin_field,
            rules.names};
}

}  // namespace

bool has_records(const std::filesystem::path& path) {
    return path.extension() == ".jsonl" || path.extension() == ".json";
}

std::optional<chat::Form> conversation_in(std::string_view record, const EncodeRules& rules) {
    const auto form =
        conversation_form(record, rules.prompt_field, rules.completion_field, rules.names);
    if (form != chat::Form::Alpaca || !rules.texts) return form;
    const auto object = object_of(record);
    return object && is_whole_text(*object, rules) ? std::nullopt : form;
}

Result<bool> needs_template(std::string_view record, const EncodeRules& rules) {
    if (rules.has_answers()) return has_chat_answers(record, fields_of(rules), rules.labels);
    ROLL_TRY(const Json object, object_of(record));
    if (rules.completions && conversation_in(record, rules)) return true;
    if (is_whole_text(object, rules))
        return text_of(object, rules.field).map([](auto&&) { return false; });
    ROLL_TRY_VOID(text_of(object, rules.prompt_field));
    return text_of(object, rules.completion_field).map([](auto&&) { return false; });
}

Result<TextSource> TextSource::open(const std::filesystem::path& path,
                                    const tokenizer::Tokenizer& tokenizer, EncodeRules rules) {
    ROLL_TRY(MappedFile file, MappedFile::open(path));
    TextSource source(std::move(file), tokenizer, std::move(rules));
    source.list_ = path.extension() == ".json" && is_json_list(source.text_);
    return source;
}

TextSource::TextSource(MappedFile file, const tokenizer::Tokenizer& tokenizer, EncodeRules rules)
    : file_(std::move(file)),
      text_(reinterpret_cast<const char*>(file_.bytes().data()), file_.bytes().size()),
      tokenizer_(&tokenizer),
      rules_(std::move(rules)) {}

// Returns the text before `at`: at most kContext bytes, starting with a whole character.
std::string_view TextSource::before(std::size_t at) const {
    std::size_t begin = at - std::min(at, kContext);
    while (begin < at && continues_character(text_[begin])) ++begin;
    return text_.substr(begin, at - begin);
}

// Returns true if the tokens of the text before `at` do not change when that text is encoded
// together with the text after it.
bool TextSource::is_token_boundary(std::size_t at) const {
    const std::string_view left = before(at);
    std::size_t end = std::min(at + kContext, text_.size());
    while (end < text_.size() && continues_character(text_[end])) ++end;
    const std::string_view both(left.data(), left.size() + (end - at));
    const auto ids = tokenizer_->encode(left, {.add_special = false});
    const auto all = tokenizer_->encode(both, {.add_special = false});
    return all.size() > ids.size() && std::equal(ids.begin(), ids.end(), all.begin());
}

// Returns the position at which a slice ends; at most `limit`. If possible, this is the end of a
// line. Otherwise, it is a position before a space between words or, if there is none, between two
// characters.
std::size_t TextSource::cut_before(std::size_t limit, std::size_t begin) const {
    const std::size_t low = begin + (limit - begin) / 2;
    const auto word_at = [&](std::size_t i) { return i < text_.size() && !is_space(text_[i]); };
    for (const char mark : {'\n', ' '}) {
        int tries = 0;
        for (std::size_t at = limit; at > low && tries < kTriesMax; --at) {
            if (text_[at - 1] != mark || !word_at(at) || at < 2 || !word_at(at - 2)) continue;
            const std::size_t cut = mark == '\n' ? at : at - 1;
            if (is_token_boundary(cut)) return cut;
            ++tries;
        }
    }
    std::size_t at = limit;
    while (at > low && continues_character(text_[at])) --at;
    return at;
}

std::size_t TextSource::slice_end(std::size_t begin) const {
    if (text_.size() - begin <= rules_.slice_bytes) return text_.size();
    const std::size_t limit = begin + rules_.slice_bytes;
    if (!rules_.records) return cut_before(limit, begin);
    if (!list_) return record_at(text_, false, limit).end;
    std::size_t end = begin;
    while (end < limit) end = record_at(text_, true, end).end;
    return end;
}

void TextSource::end_document(std::size_t document_begin, Encoded& encoded) const {
    std::vector<std::uint32_t>& ids = encoded.ids;
    const auto end_token = static_cast<std::uint32_t>(rules_.end_token);
    const bool ended = ids.size() > document_begin && ids.back() == end_token;
    // Adds no end token to a conversation here, because the template writes one.
    if (rules_.end_token >= 0 && !ended && !rules_.form) ids.push_back(end_token);
    if (ids.size() > document_begin) encoded.document_ends.push_back(ids.size());
}

// Encodes the concatenation of prompt and completion, as TRL does. The completion begins at the
// first token that differs from the tokens of the prompt alone. Therefore, the loss also counts
// a token that spans prompt and completion, and the tokens that the tokenizer adds after a
// text.
void TextSource::encode_pair(const std::string& prompt, const std::string& completion,
                             std::vector<std::uint32_t>& ids) const {
    const std::size_t begin = ids.size();
    tokenizer_->encode(prompt + completion, ids, {.add_special = rules_.add_special});
    if (rules_.render.train_on == chat::TrainOn::All) return;
    const auto alone = tokenizer_->encode(prompt, {.add_special = rules_.add_special});
    const std::span<std::uint32_t> joined = std::span(ids).subspan(begin);
    const auto learned = std::ranges::mismatch(alone, joined).in2;
    for (auto id = joined.begin(); id != learned; ++id)
        *id = static_cast<std::uint32_t>(only_read(*id));
}

// Encodes a document. Returns false if none of its tokens counts in the loss.
Result<bool> TextSource::encode_document(std::string_view line,
                                         std::vector<std::uint32_t>& ids) const {
    if (rules_.form && line.size() <= kLineMax) {
        ROLL_TRY_VOID(encode_conversation(line, *rules_.form, rules_.names, *rules_.chat,
                                          rules_.render, *tokenizer_, ids));
        return true;
    }
    ROLL_TRY(const Json object, object_of(line));
    if (!is_whole_text(object, rules_)) {
        ROLL_TRY(const std::string prompt, text_of(object, rules_.prompt_field));
        ROLL_TRY(const std::string completion, text_of(object, rules_.completion_field));
        if (!completion.empty()) encode_pair(prompt, completion, ids);
        return !completion.empty();
    }
    ROLL_TRY(const std::string text, text_of(object, rules_.field));
    if (!text.empty()) tokenizer_->encode(text, ids, {.add_special = rules_.add_special});
    return !text.empty();
}

// Adds an answer as a document.
void TextSource::add_answer(const std::vector<std::uint32_t>& answer, bool conversation,
                            Encoded& encoded) const {
    const auto end_token = static_cast<std::uint32_t>(rules_.end_token);
    encoded.ids.insert(encoded.ids.end(), answer.begin(), answer.end());
    const bool ends = rules_.end_token >= 0 && !conversation;
    if (ends && encoded.ids.back() != end_token) encoded.ids.push_back(end_token);
    encoded.document_ends.push_back(encoded.ids.size());
}

// Encodes the answers of a line as documents. After each labelled answer, adds a document with its
// label.
Result<void> TextSource::encode_answers(std::string_view line, Encoded& encoded) const {
    if (line.size() > kLineMax)
        return fail(ErrorCode::InvalidArgument,
                    "has " + mib(line.size()) + "; allowed: at most 1 GiB");
    const PairRules rules{*tokenizer_,       rules_.chat.get(), rules_.no_chat,
                          fields_of(rules_), rules_.render,     rules_.add_special};
    if (rules_.pairs) {
        ROLL_TRY(const AnswerPair pair, read_pair(line, rules));
        add_answer(pair.chosen, pair.conversation, encoded);
        add_answer(pair.rejected, pair.conversation, encoded);
        if (rules_.margin_field.empty()) return {};
        for (const std::int32_t token : margin_tokens(pair.margin))
            encoded.ids.push_back(static_cast<std::uint32_t>(token));
        encoded.document_ends.back() = encoded.ids.size();
        return {};
    }
    ROLL_TRY(const std::vector<LabelledAnswer> answers, read_labelled(line, rules));
    for (const LabelledAnswer& answer : answers) {
        add_answer(answer.tokens, answer.conversation, encoded);
        encoded.ids.push_back(static_cast<std::uint32_t>(answers.size()));
        encoded.ids.push_back(answer.chosen ? 1 : 0);
        encoded.document_ends.push_back(encoded.ids.size());
    }
    return {};
}

void TextSource::encode_line(std::string_view line, Encoded& encoded) const {
    ++encoded.lines;
    if (std::all_of(line.begin(), line.end(), is_space)) return;
    if (rules_.has_answers()) {
        const auto done = encode_answers(line, encoded);
        if (!done)
            encoded.bad.push_back({encoded.lines, done.error().message, line.substr(0, kQuoted)});
        return;
    }
    const std::size_t begin = encoded.ids.size();
    const auto done = encode_document(line, encoded.ids);
    if (!done)
        encoded.bad.push_back({encoded.lines, done.error().message, line.substr(0, kQuoted)});
    else if (*done)
        end_document(begin, encoded);
}

// Encodes a line. If a document does not fit in memory, reports it as a bad line.
void TextSource::encode_line_within_memory(std::string_view line, Encoded& encoded) const {
    const std::uint64_t lines = encoded.lines;
    const std::size_t ids = encoded.ids.size(), documents = encoded.document_ends.size();
    try {
        encode_line(line, encoded);
    } catch (const std::bad_alloc&) {
        encoded.ids.resize(ids);
        encoded.document_ends.resize(documents);
        encoded.lines = lines + 1;
        encoded.bad.push_back({encoded.lines,
                               "has " + mib(line.size()) + ", which do not fit in memory",
                               line.substr(0, kQuoted)});
    }
}

std::uint64_t TextSource::hash_of(std::size_t begin, std::size_t end) const {
    return hash64(text_.substr(begin, end - begin));
}

// Encodes a slice. If the slice begins inside a .txt, encodes the slice together with some text
// before it, and drops the tokens of that text. Otherwise, the slice's first word would be encoded
// as the start of a text. In a .txt, the tokenizer's special tokens (BOS, EOS) are added only at
// the start and the end of the file.
Encoded TextSource::encode(std::size_t begin, std::size_t end) const {
    Encoded encoded;
    encoded.end = end;
    encoded.text_hash = hash_of(begin, end);
    if (rules_.records) {
        for (std::size_t at = begin; at < end;) {
            const JsonRecord record = record_at(text_, list_, at);
            encode_line_within_memory(record.text, encoded);
            at = record.end;
        }
        return encoded;
    }
    const std::string_view left = before(begin);
    const std::string_view text(left.data(), left.size() + (end - begin));
    encoded.ids = tokenizer_->encode(text, {.add_special = false});
    const auto known = tokenizer_->encode(left, {.add_special = false}).size();
    encoded.ids.erase(
        encoded.ids.begin(),
        encoded.ids.begin() + static_cast<std::ptrdiff_t>(std::min(known, encoded.ids.size())));
    const tokenizer::Surroundings around =
        rules_.add_special ? tokenizer_->surroundings() : tokenizer::Surroundings{};
    if (begin == 0)
        encoded.ids.insert(encoded.ids.begin(), around.before.begin(), around.before.end());
    if (end < text_.size()) return encoded;
    encoded.ids.insert(encoded.ids.end(), around.after.begin(), around.after.end());
    end_document(0, encoded);
    return encoded;
}

}  // namespace roll::data
