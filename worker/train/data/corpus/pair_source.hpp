// Reads preference pairs in a .jsonl file: two answers to the same prompt, in the fields `chosen`
// and `rejected`; or single answers with a label, which is true if the answer was chosen. The forms
// of a line are TRL's and LLaMA-Factory's:
//
//   {"prompt": TEXT, "chosen": TEXT, "rejected": TEXT}                texts; a missing prompt is
//                                                                     their common beginning
//   {"prompt": MESSAGES, "chosen": MESSAGES, "rejected": MESSAGES}    conversations; if there is no
//                                                                     prompt: as for texts
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

// The tokens of the prompt with each of the two answers. The tokens of the prompt are stored as ~id
// (tokens.hpp).
struct AnswerPair {
    std::vector<std::uint32_t> chosen, rejected;
    bool conversation = false;  // true: a chat template has written the text
    float margin = 0;           // the pair's margin, if the rules name its field
};

// The tokens of the prompt with one answer, stored as in AnswerPair, and the label of the answer.
struct LabelledAnswer {
    std::vector<std::uint32_t> tokens;
    bool chosen = false;
    bool conversation = false;
};

// The names of a line's fields. All referenced objects must outlive the calls that use the names.
struct AnswerFields {
    const std::string& prompt;
    const std::string& completion;  // field of a single answer
    const std::string& label;
    const std::string& margin;  // field of a pair's margin; empty: pairs have no margin
    const chat::Names& names;   // names of the fields of ShareGPT's and Alpaca's forms
};

// The rules for reading a line. All referenced objects must outlive the calls that use the rules.
struct PairRules {
    const tokenizer::Tokenizer& tokenizer;
    const chat::ModelTemplate* chat;  // template of conversations; null if there is none
    const std::string& no_chat;       // reason why `chat` is null
    AnswerFields fields;
    const chat::RenderOptions& render;
    bool add_special;  // add the tokenizer's special tokens around texts
};

// Returns whether a chat template must write the answers in a line. The line has a pair or, if
// `labels` is true, a labelled answer or a pair. Encodes nothing. Fails with the reason if the line
// has no such answers.
Result<bool> has_chat_answers(std::string_view line, const AnswerFields& fields, bool labels);

// Encodes the pair in a line. As in TRL, both answers begin at the same token index. This is the
// first index at which one of the two sequences (the prompt with an answer) differs from the tokens
// of the prompt alone. Fails with the reason if the line is not a pair, if an answer is missing or
// empty, or if both answers are equal.
Result<AnswerPair> read_pair(std::string_view line, const PairRules& rules);

// Encodes the labelled answers in a line: either one answer, or the two answers of a pair, first
// the chosen one.
Result<std::vector<LabelledAnswer>> read_labelled(std::string_view line, const PairRules& rules);

}  // namespace roll::data
