// Checks that a chat template writes the texts of messages whose content is a list, such as
// [{"type": "text", "text": ".."}]. A template for strings may leave such texts out, or write the
// list as Python would print it, without an error.
#pragma once

#include "worker/chat/model_template.hpp"

namespace roll::chat {

// Fails with InvalidArgument if the template would write the content of a message as a string, but
// does not write the same content as the list in the conversation. Does not report a template that
// refuses the list, because render() does.
Result<void> check_content_lists(const ModelTemplate& model, const Conversation& conversation,
                                 const RenderOptions& options);

}  // namespace roll::chat
