// Conversations in a .jsonl file: their form, and their tokens with what is learned.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "common/error.hpp"
#include "worker/chat/model_template.hpp"
#include "worker/tokenizer/tokenizer.hpp"

namespace roll::data {

// Returns the form of the first line with text; nullopt if that line is no conversation or, without
// `names`, has both fields of a prompt and its completion.
std::optional<chat::Form> conversation_form(std::string_view text, std::string_view prompt_field,
                                            std::string_view completion_field,
                                            const chat::Names& names = {});

// Encodes the conversation in a line with the model's template. Context-only tokens are stored as
// ~id (tokens.hpp). A token that a learned text shares with another text is learned. Fails with the
// reason if the line has no such conversation.
Result<void> encode_conversation(std::string_view line, chat::Form form, const chat::Names& names,
                                 const chat::ModelTemplate& model,
                                 const chat::RenderOptions& options,
                                 const tokenizer::Tokenizer& tokenizer,
                                 std::vector<std::uint32_t>& ids);

}  // namespace roll::data
