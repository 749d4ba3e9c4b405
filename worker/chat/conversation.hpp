// Conversations in the records of a .jsonl file, in the forms that users have.
#pragma once

#include <array>
#include <optional>
#include <string_view>

#include "common/error.hpp"
#include "worker/chat/value.hpp"

namespace roll::chat {

enum class Form {
    Messages,  // {"messages": [{"role": .., "content": ..}, ..]}
    ShareGpt,  // {"conversations": [{"from": .., "value": ..}, ..]}
    Alpaca     // {"instruction": .., "input": .., "output": ..}
};

inline constexpr std::array kForms{Form::Messages, Form::ShareGpt, Form::Alpaca};

const char* name_of(Form form);
// Returns the form of a record; nullopt if it has none of these forms.
std::optional<Form> form_of(const Value& record);

// A conversation as templates read it.
struct Conversation {
    Value messages;  // list of dicts, without keys that are null
    Value tools;     // list of JSON schemas, or None
    Value settings;  // dict of further variables of the template, `chat_template_kwargs`
};

// Reads a conversation from a record. Fails with InvalidArgument if the record has another form or
// no turn of the assistant; the message is the end of a sentence whose subject is the line.
Result<Conversation> conversation_of(const Value& record, Form form, Arena& arena);

}  // namespace roll::chat
