#include "worker/chat/conversation.hpp"

#include <algorithm>
#include <vector>

#include "common/counted.hpp"
#include "worker/chat/json_value.hpp"

namespace roll::chat {
namespace {

using Messages = std::vector<Value>;

struct Role {
    std::string_view name, role;
};

// Maps the names of roles in ShareGPT conversations to the roles of chat templates.
constexpr Role kRoles[] = {{"human", "user"},        {"user", "user"},
                           {"gpt", "assistant"},     {"assistant", "assistant"},
                           {"chatgpt", "assistant"}, {"model", "assistant"},
                           {"system", "system"},     {"tool", "tool"},
                           {"observation", "tool"},  {"function_response", "tool"},
                           {"function_call", "call"}};

Value at(const Value& object, std::string_view key) {
    const Value* const found = object.is(Kind::Dict) ? object.dict->find(key) : nullptr;
    return found == nullptr ? none() : *found;
}

// Returns the name that the file uses for `key`. If the file does not rename the key, returns the
// usual name.
std::string name_in(const std::map<std::string, std::string>& names, const char* key,
                    const char* usual) {
    const auto found = names.find(key);
    return found == names.end() ? usual : found->second;
}

// Returns a record's value for the column `key`, under the name that the file uses for this column.
Value column(const Value& record, const Names& names, const char* key, const char* usual) {
    return at(record, name_in(names.columns, key, usual));
}

std::string shown(const Value& value) {
    std::string text;
    append_repr(value, text);
    return text.size() > 60 ? text.substr(0, 60) + "..." : text;
}

tl::unexpected<Error> bad(std::string message) {
    return fail(ErrorCode::InvalidArgument, std::move(message));
}

Value message(std::string_view role, const Value& content, Arena& arena) {
    return dict({{"role", string(role)}, {"content", content}}, arena);
}

// Returns the message without the keys whose value is null, as transformers does. Stores the
// message's reasoning under both keys that chat templates read, thinking and reasoning_content.
Value cleaned(const Value& message, Arena& arena) {
    std::vector<Entry> entries;
    Value reasoning = none();
    for (const char* const name : {"reasoning_content", "thinking", "reasoning"})
        if (reasoning.is(Kind::None)) reasoning = at(message, name);
    if (!reasoning.is(Kind::None)) entries.push_back({"thinking", reasoning});
    for (const Entry& entry : message.dict->entries)
        if (!entry.value.is(Kind::None)) entries.push_back(entry);
    if (!reasoning.is(Kind::None)) entries.push_back({"reasoning_content", reasoning});
    return dict(std::move(entries), arena);
}

// Returns an error if the content of a message has a part that is not a text.
Result<void> check_parts(const Value& message, const std::string& where) {
    static constexpr std::string_view kMedia[] = {"image", "video", "audio", "input_audio"};
    const Value content = at(message, "content");
    for (const Value& part : content.is(Kind::List) ? content.list() : std::span<const Value>()) {
        const Value type = at(part, "type");
        if (!type.is(Kind::String)) continue;
        const std::string_view kind = type.text().substr(0, type.text().find("_url"));
        if (std::ranges::find(kMedia, kind) != std::end(kMedia))
            return bad(where + "has a part of the type " + shown(type) +
                       " in its content; Roll trains on texts only");
    }
    return {};
}

// Appends the messages of a list to `messages`.
Result<void> add_messages(const Value& record, const std::string& key, Arena& arena,
                          Messages& messages) {
    const Value list = at(record, key);
    if (!list.is(Kind::List)) return bad("has no list \"" + key + "\"");
    for (const Value& one : list.list()) {
        const std::string where = "message " + std::to_string(messages.size() + 1) + " ";
        if (!one.is(Kind::Dict)) return bad(where + "is " + shown(one) + ", not an object");
        if (!at(one, "role").is(Kind::String))
            return bad(where + "has the role " + shown(at(one, "role")) +
                       ", which is not a string");
        ROLL_TRY_VOID(check_parts(one, where));
        messages.push_back(cleaned(one, arena));
    }
    return {};
}

Result<Messages> from_messages(const Value& record, const Names& names, Arena& arena) {
    Messages messages;
    ROLL_TRY_VOID(
        add_messages(record, name_in(names.columns, "messages", "messages"), arena, messages));
    return messages;
}

Result<Messages> from_parts(const Value& record, const Names& names, Arena& arena) {
    Messages messages;
    ROLL_TRY_VOID(add_messages(record, names.prompt, arena, messages));
    const std::size_t before = messages.size();
    ROLL_TRY_VOID(add_messages(record, names.completion, arena, messages));
    if (messages.size() == before)
        return bad("has an empty list \"" + names.completion + "\"; add at least one message");
    return messages;
}

// Returns a sentence about the first role in `messages` that chat templates do not know; empty if
// there is none.
std::string unknown_role(const Messages& messages) {
    static constexpr std::string_view kKnown[] = {"user", "system", "developer", "tool"};
    for (const Value& one : messages)
        if (const Value role = at(one, "role");
            std::ranges::find(kKnown, role.text()) == std::end(kKnown))
            return " (one has the role " + shown(role) +
                   "; data.columns and data.tags give the names of a file's roles)";
    return "";
}

// Returns the assistant's message for a function call. `text` describes the call as {"name": ..,
// "arguments": ..}.
Result<Value> call_message(const Value& text, Arena& arena) {
    const auto call = text.is(Kind::String) ? read_json(text.text(), arena) : Result<Value>(text);
    if (!call || !at(*call, "name").is(Kind::String))
        return bad("has the function_call " + shown(text) +
                   ", which has no \"name\" of a function");
    const Value one = dict({{"type", string("function")}, {"function", *call}}, arena);
    return dict({{"role", string("assistant")},
                 {"content", string("")},
                 {"tool_calls", list(std::vector{one}, arena)}},
                arena);
}

// Returns the role for which `name` stands in this file; empty if the role is unknown.
std::string_view role_of(const Value& name, const Names& names) {
    static constexpr Role kTags[] = {{"user", "user"},
                                     {"assistant", "assistant"},
                                     {"observation", "tool"},
                                     {"function", "call"},
                                     {"system", "system"}};
    if (!name.is(Kind::String)) return "";
    for (const Role& tag : kTags) {
        const auto found = names.tags.find(std::string(tag.name));
        if (found != names.tags.end() && found->second == name.text()) return tag.role;
    }
    const auto* const usual =
        std::ranges::find_if(kRoles, [&](const Role& known) { return known.name == name.text(); });
    return usual == std::end(kRoles) ? "" : usual->role;
}

Result<Messages> from_sharegpt(const Value& record, const Names& names, Arena& arena) {
    const std::string key = name_in(names.columns, "messages", "conversations");
    const Value list = at(record, key);
    if (!list.is(Kind::List)) return bad("has no list \"" + key + "\"");
    const std::string role_key = name_in(names.tags, "role", "from"),
                      content_key = name_in(names.tags, "content", "value");
    Messages messages;
    const Value system = column(record, names, "system", "system");
    if (system.is(Kind::String) && system.size > 0)
        messages.push_back(message("system", system, arena));
    for (const Value& one : list.list()) {
        const std::string where = "message " + std::to_string(messages.size() + 1) + " ";
        const Value from = at(one, role_key), value = at(one, content_key);
        const std::string_view role = role_of(from, names);
        if (role.empty())
            return bad(where + "is from " + shown(from) +
                       "; allowed: human, gpt, system, function_call and observation");
        if (role == "call") {
            ROLL_TRY(const Value call, call_message(value, arena));
            messages.push_back(call);
            continue;
        }
        if (!value.is(Kind::String))
            return bad(where + "has the value " + shown(value) + ", which is not a string");
        messages.push_back(message(role, value, arena));
    }
    return messages;
}

Result<Messages> from_alpaca(const Value& record, const Names& names, Arena& arena) {
    const std::string asks = name_in(names.columns, "prompt", "instruction"),
                      answers = name_in(names.columns, "response", "output");
    const Value instruction = at(record, asks), output = at(record, answers),
                input = column(record, names, "query", "input"),
                history = column(record, names, "history", "history");
    for (const std::string& name : {asks, answers})
        if (!at(record, name).is(Kind::String)) return bad("has no text \"" + name + "\"");
    if (!input.is(Kind::None) && !input.is(Kind::String))
        return bad("has the input " + shown(input) + ", which is not a string");
    Messages messages;
    const Value system = column(record, names, "system", "system");
    if (system.is(Kind::String) && system.size > 0)
        messages.push_back(message("system", system, arena));
    if (history.is(Kind::List)) {
        for (const Value& pair : history.list()) {
            if (!pair.is(Kind::List) || pair.size != 2 || !pair.items[0].is(Kind::String) ||
                !pair.items[1].is(Kind::String))
                return bad("has the history " + shown(pair) + ", which is not a pair of strings");
            messages.push_back(message("user", pair.items[0], arena));
            messages.push_back(message("assistant", pair.items[1], arena));
        }
    }
    std::string asked(instruction.text());
    if (input.is(Kind::String) && input.size > 0) (asked += '\n') += input.text();
    messages.push_back(message("user", string(arena.copy(asked)), arena));
    messages.push_back(message("assistant", output, arena));
    return messages;
}

// Returns the tools of a record. The record has them as a list, or as a string with a JSON list.
Result<Value> tools_of(const Value& record, const Names& names, Arena& arena) {
    Value tools = column(record, names, "tools", "tools");
    if (tools.is(Kind::String)) {
        if (tools.size == 0) return none();
        auto read = read_json(tools.text(), arena);
        if (!read) return bad("has the field tools, whose text " + read.error().message);
        tools = *read;
    }
    if (!tools.is(Kind::List) && !tools.is(Kind::None))
        return bad("has the tools " + shown(tools) + "; it must be a list");
    for (const Value& tool : tools.is(Kind::List) ? tools.list() : std::span<const Value>())
        if (!tool.is(Kind::Dict))
            return bad("has the tool " + shown(tool) + ", which is not an object");
    return tools;
}

Result<Messages> messages_of(const Value& record, Form form, const Names& names, Arena& arena) {
    switch (form) {
        case Form::Messages: return from_messages(record, names, arena);
        case Form::ShareGpt: return from_sharegpt(record, names, arena);
        case Form::Parts: return from_parts(record, names, arena);
        case Form::Alpaca: break;
    }
    return from_alpaca(record, names, arena);
}

Result<Conversation> read(const Value& record, Form form, const Names& names, Arena& arena) {
    ROLL_TRY(const Messages messages, messages_of(record, form, names, arena));
    const bool answered = std::ranges::any_of(messages, [](const Value& one) {
        const Value role = at(one, "role");
        return role.is(Kind::String) && role.text() == "assistant";
    });
    if (!answered)
        return bad("has " + counted(messages.size(), "message") +
                   ", none with the role assistant, so there is nothing to learn" +
                   unknown_role(messages));
    Conversation conversation;
    if (form == Form::Parts) conversation.completion = at(record, names.completion).size;
    conversation.messages = list(messages, arena);
    ROLL_TRY(conversation.tools, tools_of(record, names, arena));
    conversation.settings = at(record, "chat_template_kwargs");
    return conversation;
}

}  // namespace

const char* name_of(Form form) {
    switch (form) {
        case Form::Messages: return "messages";
        case Form::ShareGpt: return "conversations (ShareGPT)";
        case Form::Parts: return "prompt and completion (messages)";
        case Form::Alpaca: break;
    }
    return "instruction and output (Alpaca)";
}

std::optional<Form> form_of(const Value& record, const Names& names) {
    if (at(record, names.prompt).is(Kind::List) && at(record, names.completion).is(Kind::List))
        return Form::Parts;
    const Value list = column(record, names, "messages", "messages");
    // If the file renames the column `messages`, its list may have the format Messages or ShareGpt.
    // The first message decides: in the format Messages, it has a `role`.
    const bool in_roles = !names.columns.contains("messages") ||
                          (list.size > 0 && !at(list.items[0], "role").is(Kind::None));
    if (names.tags.empty() && list.is(Kind::List) && in_roles) return Form::Messages;
    if (column(record, names, "messages", "conversations").is(Kind::List)) return Form::ShareGpt;
    if (column(record, names, "prompt", "instruction").is(Kind::String) &&
        column(record, names, "response", "output").is(Kind::String))
        return Form::Alpaca;
    return std::nullopt;
}

Result<Conversation> conversation_of(const Value& record, Form form, Arena& arena,
                                     const Names& names) {
    try {
        return read(record, form, names, arena);
    } catch (const Failure& failure) {
        return bad(failure.message);
    }
}

}  // namespace roll::chat
