#include "worker/train/data/corpus/chat_source.hpp"

#include <algorithm>

#include "worker/chat/chat_text.hpp"
#include "worker/chat/json_value.hpp"
#include "worker/train/data/corpus/tokens.hpp"

namespace roll::data {
namespace {

using Ids = std::vector<std::uint32_t>;

bool is_text(const chat::Value& record, std::string_view field) {
    const chat::Value* const found = record.dict->find(field);
    return found != nullptr && found->is(chat::Kind::String);
}

// Encodes a text and finds the tokens that overlap a span of it.
class TokenFinder {
  public:
    TokenFinder(const tokenizer::Tokenizer& tokenizer, std::string_view text)
        : tokenizer_(tokenizer),
          text_(text),
          ids_(encoded(text)) {}

    const Ids& ids() const { return ids_; }

    // Returns, for each span, the range of the tokens that overlap the span.
    std::vector<std::pair<std::size_t, std::size_t>> ranges(
        const std::vector<chat::Span>& spans) const {
        if (auto found = by_ends(spans)) return *std::move(found);
        if (auto found = by_pieces(spans)) return *std::move(found);
        std::vector<std::pair<std::size_t, std::size_t>> found;
        for (const chat::Span& span : spans)
            found.emplace_back(position(span.begin, false), position(span.end, true));
        return found;
    }

  private:
    Ids encoded(std::string_view text) const {
        return tokenizer_.encode(text, {.add_special = false});
    }

    // Like ranges(), but encodes nothing. Returns nullopt if a token crosses the end of a span, or
    // if the tokenizer does not tell where the tokens end in the text.
    std::optional<std::vector<std::pair<std::size_t, std::size_t>>> by_ends(
        const std::vector<chat::Span>& spans) const {
        const auto ends = tokenizer_.ends_in(text_, ids_);
        if (!ends) return std::nullopt;
        bool crossed = false;
        const auto count = [&](std::size_t byte) {
            if (byte == 0) return std::size_t{0};
            const auto found = std::ranges::lower_bound(*ends, byte);
            crossed = crossed || found == ends->end() || *found != byte;
            return static_cast<std::size_t>(found - ends->begin()) + 1;
        };
        std::vector<std::pair<std::size_t, std::size_t>> found;
        for (const chat::Span& span : spans) found.emplace_back(count(span.begin), count(span.end));
        return crossed ? std::nullopt : std::optional(std::move(found));
    }

    // Like ranges(), but cuts the text at the ends of the spans and encodes each piece separately.
    // If a token of the whole text crosses a cut, the pieces give other tokens than the whole text.
    // In this case, returns nullopt.
    std::optional<std::vector<std::pair<std::size_t, std::size_t>>> by_pieces(
        const std::vector<chat::Span>& spans) const {
        std::vector<std::pair<std::size_t, std::size_t>> found;
        Ids all;
        std::size_t at = 0;
        const auto add = [&](std::size_t end) {
            if (end > at)
                tokenizer_.encode(text_.substr(at, end - at), all, {.add_special = false});
            at = end;
            return all.size();
        };
        for (const chat::Span& span : spans) {
            const std::size_t begin = add(span.begin);
            found.emplace_back(begin, add(span.end));
        }
        add(text_.size());
        if (all != ids_) return std::nullopt;
        return found;
    }

    // Returns the number of tokens before position `byte` of the text. If a token contains text on
    // both sides of this position, the token counts only if `inside` is true.
    std::size_t position(std::size_t byte, bool inside) const {
        const Ids before = encoded(text_.substr(0, byte));
        const auto same = std::ranges::mismatch(before, ids_);
        const auto count = static_cast<std::size_t>(same.in2 - ids_.begin());
        return same.in1 != before.end() && inside ? std::min(count + 1, ids_.size()) : count;
    }

    const tokenizer::Tokenizer& tokenizer_;
    std::string_view text_;
    Ids ids_;
};

}  // namespace

std::optional<chat::Form> conversation_form(std::string_view line, std::string_view prompt_field,
                                            std::string_view completion_field,
                                            const chat::Names& names) {
    chat::Arena arena(chat::Limits{}.memory);
    const auto record = chat::read_json(line, arena);
    if (!record || !record->is(chat::Kind::Dict)) return std::nullopt;
    const bool pair = is_text(*record, prompt_field) && is_text(*record, completion_field);
    if (pair && names.empty()) return std::nullopt;
    chat::Names all = names;
    all.prompt = prompt_field;
    all.completion = completion_field;
    return chat::form_of(*record, all);
}

Result<void> encode_conversation(std::string_view line, chat::Form form, const chat::Names& names,
                                 const chat::ModelTemplate& model,
                                 const chat::RenderOptions& options,
                                 const tokenizer::Tokenizer& tokenizer,
                                 std::vector<std::uint32_t>& ids) {
    chat::Arena arena(options.limits.memory);
    ROLL_TRY(const chat::Value record, chat::read_json(line, arena));
    if (!record.is(chat::Kind::Dict))
        return fail(ErrorCode::InvalidArgument, "is not a JSON object");
    ROLL_TRY(const chat::Conversation conversation,
             chat::conversation_of(record, form, arena, names));
    ROLL_TRY(const chat::ChatText made, chat::chat_text(model, conversation, arena, options));
    const TokenFinder finder(tokenizer, made.text);
    std::vector<bool> learned(finder.ids().size());
    for (const auto& [begin, end] : finder.ranges(made.learned))
        for (std::size_t i = begin; i < end; ++i) learned[i] = true;
    for (std::size_t i = 0; i < learned.size(); ++i) {
        const std::uint32_t id = finder.ids()[i];
        ids.push_back(learned[i] ? id : static_cast<std::uint32_t>(only_read(id)));
    }
    return {};
}

}  // namespace roll::data
