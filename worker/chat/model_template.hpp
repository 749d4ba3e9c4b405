// The chat template of a model's directory, and the texts of conversations that it makes.
#pragma once

#include <ctime>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "common/error.hpp"
#include "worker/chat/conversation.hpp"
#include "worker/chat/template.hpp"

namespace roll::chat {

enum class TrainOn {
    Assistant,  // all turns of the assistant
    Last,       // the last turn of the assistant
    All         // all tokens
};

struct ModelTemplate {
    Template usual;
    std::optional<Template> with_tools;  // for conversations with tools; unset: `usual`
    // variables such as bos_token
    std::vector<std::pair<std::string, std::string>> tokens = {};
    std::string identity = {};  // equal for equal templates and tokens
    std::string path = {};      // file of the template, for messages
};

// Loads the template of a directory: chat_template.jinja, or else chat_template in
// tokenizer_config.json. Returns nullopt if the directory has none. Fails with Corrupt or
// InvalidArgument; the message names the file and the line.
Result<std::optional<ModelTemplate>> load_template(const std::filesystem::path& directory);

struct ChatText {
    std::string text;
    std::vector<Span> learned;  // bytes of `text` that the model learns, in order
};

struct RenderOptions {
    TrainOn train_on = TrainOn::Assistant;
    std::time_t now = 0;  // what strftime_now tells
    Limits limits = {};
};

// Renders a conversation. Learned are the spans of the template's tag `generation`. A template
// without the tag is rendered turn by turn: a turn is what the assistant's message adds to the
// messages before it with add_generation_prompt. Fails with InvalidArgument if the template refuses
// the conversation or its turns cannot be told apart.
Result<ChatText> chat_text(const ModelTemplate& model, const Conversation& conversation,
                           Arena& arena, const RenderOptions& options);

// Renders some messages of a conversation.
Result<Rendered> render(const ModelTemplate& model, const Conversation& conversation,
                        std::span<const Value> messages, bool add_generation_prompt, Arena& arena,
                        const RenderOptions& options);

}  // namespace roll::chat
