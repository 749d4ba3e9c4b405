// Reads conversations from records of .jsonl files. Supports four common formats.
#pragma once

#include <array>
#include <cstddef>
#include <map>
#include <optional>
#include <string>

#include "common/error.hpp"
#include "worker/chat/value.hpp"

namespace roll::chat {

enum class Form {
    Messages,  // {"messages": [{"role": .., "content": ..}, ..]}
    ShareGpt,  // {"conversations": [{"from": .., "value": ..}, ..]}
    Alpaca,    // {"instruction": .., "input": .., "output": ..}
    Parts      // {"prompt": [{"role": .., ..}, ..], "completion": [{"role": .., ..}, ..]}
};

inline constexpr std::array kForms{Form::Messages, Form::ShareGpt, Form::Alpaca, Form::Parts};

// Names that a file uses instead of the usual names. The maps' keys are the usual names, and their
// values are the names in the file.
struct Names {
    // keys of a record: messages, prompt, query, response, history, system, tools
    std::map<std::string, std::string> columns = {};
    // keys of a message (role, content), and names of roles: user, assistant, observation,
    // function, system
    std::map<std::string, std::string> tags = {};
    std::string prompt = "prompt", completion = "completion";  // keys of a record of the form Parts

    bool empty() const { return columns.empty() && tags.empty(); }
};

const char* name_of(Form form);
// Returns the format of a record; nullopt if the record has none of these formats.
std::optional<Form> form_of(const Value& record, const Names& names = {});

// A conversation in the form of the variables that a chat template reads.
struct Conversation {
    Value messages;  // list of dicts; keys whose value is null are removed
    Value tools;     // list of JSON schemas, or None
    // the record's `chat_template_kwargs`: a dict of additional variables for the template
    Value settings;
    // number of messages at the end that are the completion of a prompt; 0: there is no completion,
    // and the loss covers the assistant's turns
    std::size_t completion = 0;
};

// Reads a conversation from a record. Fails with InvalidArgument if the record does not have the
// format `form`, or has no message of the assistant. The error message begins with a verb; the
// caller puts the position of the record in front of the message.
Result<Conversation> conversation_of(const Value& record, Form form, Arena& arena,
                                     const Names& names = {});

}  // namespace roll::chat
