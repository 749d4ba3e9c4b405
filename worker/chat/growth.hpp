// Finds templates that append messages: the text of the first messages of a conversation is the
// beginning of the text of all messages, followed by what the statements after the loop over the
// messages write. One rendering then gives the texts of all beginnings of a conversation.
#pragma once

#include <string_view>

#include "worker/chat/syntax.hpp"

namespace roll::chat {

inline constexpr std::string_view kPromptName = "add_generation_prompt";

// Sets `growth` to the index in `body` of the loop over the messages, if the template may append
// messages. Sets `reads_later` of the variables in places that may read something of later
// messages, such as `loop.last` or `messages | length`: if a rendering reads such a variable, its
// template does not append the messages of this conversation.
void find_growth(Syntax& syntax);

}  // namespace roll::chat
