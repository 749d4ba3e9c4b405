// `rollctl eval`: measures a model directory on tasks and on texts, in one process.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/json.hpp"

namespace roll::train {

struct EvaluationOptions {
    std::string directory;           // a HuggingFace or MCA directory with its tokenizer
    std::vector<std::string> tasks;  // files of multiple-choice tasks (task.hpp)
    std::vector<std::string> texts;  // .txt, .jsonl and .bin files, for the perplexity
    std::string field = "text";      // key of the text in a line of a .jsonl
    // number of inputs per window; 0: the model's maximum sequence length, but at most 2048
    std::int64_t seq_length = 0;
    // examples in front of each question; nullopt: as many as the task's num_fewshot
    std::optional<std::int64_t> fewshot;
    bool log_probs = false;  // also report the log-probability of each choice
};

// Returns the results as JSON in the format roll.eval/1. Throws RankFailure.
OrderedJson evaluate_model(const EvaluationOptions& options);

// Returns the results as text, one line for each task and file.
std::string evaluation_text(const OrderedJson& json);

}  // namespace roll::train
