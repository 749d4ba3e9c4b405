#include "worker/chat/conversation.hpp"

#include <algorithm>
#include <vector>

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

// Returns the message without keys whose value is null, as transformers does. Stores the
// message's reasoning under both keys that chat templates read: thinking and reasoning_content.
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

Result<Messages> from_messages(const Value& record, Arena& arena) {
    const Value list = at(record, "messages");
    if (!list.is(Kind::List)) return bad("has no list \"messages\"");
    Messages messages;
    for (const Value& one : list.list()) {
        const std::string where = "message " + std::to_string(messages.size() + 1) + " ";
        if (!one.is(Kind::Dict)) return bad(where + "is " + shown(one) + ", not an object");
        if (!at(one, "role").is(Kind::String))
            return bad(where + "has the role " + shown(at(one, "role")) +
                       ", which is not a string");
        messages.push_back(cleaned(one, arena));
    }
    return messages;
}

// Returns the assistant's message for a function call, which `text` gives as {"name": ..,
// "arguments": ..}.
Result<Value> call_message(const Value& text, Arena& arena) {
    const auto call = text.is(Kind::String) ? read_json(text.text(), arena) : Result<Value>(text);
    if (!call || !at(*call, "name").is(Kind::String))
        return bad("has the function_call " + shown(text) + ", which names no function");
    const Value one = dict({{"type", string("function")}, {"function", *call}}, arena);
    return dict({{"role", string("assistant")},
                 {"content", string("")},
                 {"tool_calls", list(std::vector{one}, arena)}},
                arena);
}

Result<Messages> from_sharegpt(const Value& record, Arena& arena) {
    const Value list = at(record, "conversations");
    if (!list.is(Kind::List)) return bad("has no list \"conversations\"");
    Messages messages;
    if (const Value system = at(record, "system"); system.is(Kind::String) && system.size > 0)
        messages.push_back(message("system", system, arena));
    for (const Value& one : list.list()) {
        const std::string where = "message " + std::to_string(messages.size() + 1) + " ";
        const Value from = at(one, "from"), value = at(one, "value");
        const auto* const role = std::ranges::find_if(kRoles, [&](const Role& known) {
            return from.is(Kind::String) && known.name == from.text();
        });
        if (role == std::end(kRoles))
            return bad(where + "is from " + shown(from) +
                       "; known are human, gpt, system, function_call and observation");
        if (role->role == "call") {
            ROLL_TRY(const Value call, call_message(value, arena));
            messages.push_back(call);
            continue;
        }
        if (!value.is(Kind::String))
            return bad(where + "has the value " + shown(value) + ", which is not a string");
        messages.push_back(message(role->role, value, arena));
    }
    return messages;
}

Result<Messages> from_alpaca(const Value& record, Arena& arena) {
    const Value instruction = at(record, "instruction"), input = at(record, "input"),
                output = at(record, "output"), history = at(record, "history");
    for (const char* const name : {"instruction", "output"})
        if (!at(record, name).is(Kind::String))
            return bad("has no text \"" + std::string(name) + "\"");
    if (!input.is(Kind::None) && !input.is(Kind::String))
        return bad("has the input " + shown(input) + ", which is not a string");
    Messages messages;
    if (const Value system = at(record, "system"); system.is(Kind::String) && system.size > 0)
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

// Returns the tools of a record: a list, or a string with a JSON list.
Result<Value> tools_of(const Value& record, Arena& arena) {
    Value tools = at(record, "tools");
    if (tools.is(Kind::String)) {
        if (tools.size == 0) return none();
        auto read = read_json(tools.text(), arena);
        if (!read) return bad("has tools as a text that " + read.error().message);
        tools = *read;
    }
    if (!tools.is(Kind::List) && !tools.is(Kind::None))
        return bad("has the tools " + shown(tools) + ", which are not a list");
    for (const Value& tool : tools.is(Kind::List) ? tools.list() : std::span<const Value>())
        if (!tool.is(Kind::Dict))
            return bad("has the tool " + shown(tool) + ", which is not an object");
    return tools;
}

Result<Messages> messages_of(const Value& record, Form form, Arena& arena) {
    switch (form) {
        case Form::Messages: return from_messages(record, arena);
        case Form::ShareGpt: return from_sharegpt(record, arena);
        case Form::Alpaca: break;
    }
    return from_alpaca(record, arena);
}

Result<Conversation> read(const Value& record, Form form, Arena& arena) {
    ROLL_TRY(const Messages messages, messages_of(record, form, arena));
    const bool answered = std::ranges::any_of(messages, [](const Value& one) {
        const Value role = at(one, "role");
        return role.is(Kind::String) && role.text() == "assistant";
    });
    if (!answered)
        return bad("has " + std::to_string(messages.size()) +
                   " messages and none of the role assistant, so that nothing is learned from it");
    Conversation conversation;
    conversation.messages = list(messages, arena);
    ROLL_TRY(conversation.tools, tools_of(record, arena));
    conversation.settings = at(record, "chat_template_kwargs");
    return conversation;
}

}  // namespace

const char* name_of(Form form) {
    switch (form) {
        case Form::Messages: return "messages";
        case Form::ShareGpt: return "conversations (ShareGPT)";
        case Form::Alpaca: break;
    }
    return "instruction and output (Alpaca)";
}

std::optional<Form> form_of(const Value& record) {
    if (at(record, "messages").is(Kind::List)) return Form::Messages;
    if (at(record, "conversations").is(Kind::List)) return Form::ShareGpt;
    if (at(record, "instruction").is(Kind::String) && at(record, "output").is(Kind::String))
        return Form::Alpaca;
    return std::nullopt;
}

Result<Conversation> conversation_of(const Value& record, Form form, Arena& arena) {
    try {
        return read(record, form, arena);
    } catch (const Failure& failure) {
        return bad(failure.message);
    }
}

}  // namespace roll::chat
