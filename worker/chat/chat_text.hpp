// Renders a conversation, and finds the turns of the assistant in its text.
#pragma once

#include <string>
#include <vector>

#include "worker/chat/model_template.hpp"

namespace roll::chat {

struct ChatText {
    std::string text;
    std::vector<Span> learned;  // byte ranges of `text` that the loss covers, in ascending order
};

// Renders a conversation and finds the spans that the loss covers. If the template has the tag
// `generation`, the spans are the texts inside this tag. Otherwise, there is a span for each
// message of the assistant. The span contains the text that the message adds to the text of the
// preceding messages, rendered with add_generation_prompt. Fails with InvalidArgument if the
// template refuses the conversation, or if the spans cannot be determined.
Result<ChatText> chat_text(const ModelTemplate& model, const Conversation& conversation,
                           Arena& arena, const RenderOptions& options);

}  // namespace roll::chat
