// Reads the conversations in a .jsonl file. Finds their form, and encodes them as tokens; each
// token counts in the loss or is context only.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "common/error.hpp"
#include "worker/chat/model_template.hpp"
#include "worker/tokenizer/tokenizer.hpp"

namespace roll::data {

// Returns the form of the conversation in a record. Returns nullopt if the record is not a
// conversation. Also returns nullopt if `names` is empty and the record has a text in both
// `prompt_field` and `completion_field`: the record is then a prompt-completion pair.
std::optional<chat::Form> conversation_form(std::string_view line, std::string_view prompt_field,
                                            std::string_view completion_field,
                                            const chat::Names& names = {});

// Encodes the conversation in a line with the model's template. Context-only tokens are stored as
// ~id (tokens.hpp). A token counts in the loss if at least a part of its text is learned. If the
// line is not a conversation of this form, fails with the reason.
Result<void> encode_conversation(std::string_view line, chat::Form form, const chat::Names& names,
                                 const chat::ModelTemplate& model,
                                 const chat::RenderOptions& options,
                                 const tokenizer::Tokenizer& tokenizer,
                                 std::vector<std::uint32_t>& ids);

}  // namespace roll::data
