// Finds templates that only append messages. With such a template, the text of the first n messages
// of a conversation has two parts: a beginning of the text of all messages, and the text that the
// statements after the loop over the messages write. One rendering then gives the text for every n.
#pragma once

#include <string_view>

#include "worker/chat/syntax.hpp"

namespace roll::chat {

inline constexpr std::string_view kPromptName = "add_generation_prompt";

// Sets `growth` to the index, in `body`, of the loop over the messages, if the template may only
// append messages. Sets `reads_later` of each variable whose value may depend on later messages
// where it stands, such as `loop.last` or `messages | length`. If a rendering reads such a
// variable, the template does not only append the messages of this conversation.
void find_growth(Syntax& syntax);

}  // namespace roll::chat
