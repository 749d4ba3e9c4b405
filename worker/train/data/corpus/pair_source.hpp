// Reads preference pairs in a .jsonl file: two answers to the same prompt, in the fields `chosen`
// and `rejected`; or single answers with a label, which is true if the answer was chosen. The forms
// of a line are TRL's and LLaMA-Factory's:
//
//   {"prompt": TEXT, "chosen": TEXT, "rejected": TEXT}                texts; a missing prompt is
//                                                                     the beginning that both share
//   {"prompt": MESSAGES, "chosen": MESSAGES, "rejected": MESSAGES}    conversations, likewise
//   {"conversations": [..], "chosen": MESSAGE, "rejected": MESSAGE}   ShareGPT
//   {"instruction": TEXT, "input": TEXT, "chosen": TEXT, "rejected": TEXT}   Alpaca
//
//   {"prompt": TEXT, "completion": TEXT, "label": true}               texts
//   {"prompt": MESSAGES, "completion": MESSAGES, "label": true}       conversations
//   {"messages": MESSAGES, "label": true}, or ShareGPT's or Alpaca's form with a label: the answer
//                                                                     is the last message
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/error.hpp"
#include "worker/chat/model_template.hpp"
#include "worker/tokenizer/tokenizer.hpp"

namespace roll::data {

// The tokens of the prompt with each answer. Those of the prompt are stored as ~id (tokens.hpp).
struct AnswerPair {
    std::vector<std::uint32_t> chosen, rejected;
    bool conversation = false;  // true: a chat template has written the text
};

// The tokens of the prompt with an answer, stored likewise, and the answer's label.
struct LabelledAnswer {
    std::vector<std::uint32_t> tokens;
    bool chosen = false;
    bool conversation = false;
};

// The rules for reading a line. All members must outlive the calls that use them.
struct PairRules {
    const tokenizer::Tokenizer& tokenizer;
    const chat::ModelTemplate* chat;  // template of conversations; null if there is none
    const std::string& no_chat;       // why `chat` is null
    const std::string& prompt_field;
    const std::string& completion_field;  // of single answers
    const std::string& label_field;
    const chat::Names& names;  // names of the fields of ShareGPT's and Alpaca's forms
    const chat::RenderOptions& render;
    bool add_special;  // add the tokenizer's special tokens around texts
};

// Encodes the pair in a line. As in TRL, the answers begin at the first token at which one of them,
// with the prompt before it, differs from the tokens of the prompt alone. Fails with the reason if
// the line is no pair, an answer is missing or empty, or both are equal.
Result<AnswerPair> read_pair(std::string_view line, const PairRules& rules);

// Encodes the labelled answers in a line: one, or the two of a pair, the chosen one first.
Result<std::vector<LabelledAnswer>> read_labelled(std::string_view line, const PairRules& rules);

}  // namespace roll::data
