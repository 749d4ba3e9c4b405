// Loads a model's chat template, and renders messages with it.
#pragma once

#include <ctime>
#include <filesystem>
#include <memory>
#include <mutex>
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
    Assistant,  // the loss covers all turns of the assistant
    Last,       // the loss covers the last turn of the assistant
    All         // the loss covers all tokens
};

struct ModelTemplate {
    Template usual;
    std::optional<Template> with_tools;  // template for conversations with tools
    // texts of special tokens by variable name, such as bos_token
    std::vector<std::pair<std::string, std::string>> tokens = {};
    std::string identity = {};  // a text that is the same for equal templates and tokens
    std::string path = {};      // the template's file, for error messages
    // the text between two turns of a conversation without tools and settings; chat_text.cpp
    // computes it once
    struct Separator {
        std::once_flag once;
        std::string text;
    };
    std::shared_ptr<Separator> separator = std::make_shared<Separator>();
};

// Loads the chat template of a model directory from chat_template.jinja or, if this file is
// missing, from chat_template in tokenizer_config.json. Returns nullopt if the directory has
// neither. Fails with Corrupt or InvalidArgument; the message names the file and the line.
Result<std::optional<ModelTemplate>> load_template(const std::filesystem::path& directory);

struct RenderOptions {
    TrainOn train_on = TrainOn::Assistant;
    std::time_t now = 0;  // time for the template's function strftime_now
    Limits limits = {};
};

// Returns the template for the conversation: `with_tools` if the conversation has tools and the
// model has this template, else `usual`.
const Template& template_for(const ModelTemplate& model, const Conversation& conversation);

// Renders `messages`, which are some of the messages of the conversation. For `stops`, see
// Template::render().
Result<Rendered> render(const ModelTemplate& model, const Conversation& conversation,
                        std::span<const Value> messages, bool add_generation_prompt, Arena& arena,
                        const RenderOptions& options, std::vector<Stop>* stops = nullptr);

}  // namespace roll::chat
