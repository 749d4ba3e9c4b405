#include "worker/chat/content_lists.hpp"

#include <algorithm>

namespace roll::chat {
namespace {

constexpr std::string_view kText = "Rq7xVz";  // replaces each text of a list in a trial rendering
// If the template prints a list as Python does, the output contains this text for each replaced
// text.
constexpr std::string_view kPrinted = "'text': 'Rq7xVz";

bool is_list(const Value& message) {
    const Value* const content = message.dict->find("content");
    return content != nullptr && content->is(Kind::List);
}

Value with_entry(const Value& dict_value, std::string_view key, const Value& value, Arena& arena) {
    std::vector<Entry> entries(dict_value.dict->entries.begin(), dict_value.dict->entries.end());
    for (Entry& entry : entries)
        if (entry.key == key) entry.value = value;
    return dict(std::move(entries), arena);
}

// Returns a copy of a list in which kText stands for each text. Adds the number of texts to
// `texts`.
Value with_texts_replaced(const Value& content, std::size_t& texts, Arena& arena) {
    std::vector<Value> parts(content.list().begin(), content.list().end());
    for (Value& part : parts) {
        const Value* const text = part.is(Kind::Dict) ? part.dict->find("text") : nullptr;
        if (text == nullptr || !text->is(Kind::String)) continue;
        part = with_entry(part, "text", string(kText), arena);
        ++texts;
    }
    return list(parts, arena);
}

std::size_t count_of(std::string_view text, std::string_view part) {
    std::size_t count = 0;
    for (std::size_t at = text.find(part); at != text.npos; at = text.find(part, at + part.size()))
        ++count;
    return count;
}

// Returns how often the template writes kText as plain text, not as a part of a printed list.
// Returns nullopt if the template refuses the messages.
std::optional<std::size_t> written(const ModelTemplate& model, const Conversation& conversation,
                                   std::span<const Value> messages, const RenderOptions& options) {
    Arena scratch(options.limits.memory);
    const auto made = render(model, conversation, messages, false, scratch, options);
    if (!made) return std::nullopt;
    return count_of(made->text, kText) - count_of(made->text, kPrinted);
}

}  // namespace

Result<void> check_content_lists(const ModelTemplate& model, const Conversation& conversation,
                                 const RenderOptions& options) {
    const std::span<const Value> given = conversation.messages.list();
    if (std::ranges::none_of(given, is_list)) return {};
    Arena arena(options.limits.memory);
    std::vector<Value> messages(given.begin(), given.end());
    const auto replaced = [&](std::size_t i, std::size_t& texts) {
        const Value content = with_texts_replaced(*given[i].dict->find("content"), texts, arena);
        return with_entry(given[i], "content", content, arena);
    };
    std::size_t all = 0;
    for (std::size_t i = 0; i < given.size(); ++i)
        if (is_list(given[i])) messages[i] = replaced(i, all);
    const auto together = written(model, conversation, messages, options);
    if (!together || *together >= all) return {};
    messages.assign(given.begin(), given.end());
    for (std::size_t i = 0; i < given.size(); messages[i] = given[i], ++i) {
        if (!is_list(given[i])) continue;
        std::size_t texts = 0;
        messages[i] = replaced(i, texts);
        const auto as_list = written(model, conversation, messages, options);
        messages[i] = with_entry(given[i], "content", string(kText), arena);
        const auto as_string = written(model, conversation, messages, options);
        if (texts == 0 || !as_list || *as_list > 0 || !as_string || *as_string == 0) continue;
        return fail(ErrorCode::InvalidArgument,
                    "message " + std::to_string(i + 1) +
                        " has a list as its content, and the template " + model.path +
                        " writes only strings; write the content as a string");
    }
    return {};
}

}  // namespace roll::chat
