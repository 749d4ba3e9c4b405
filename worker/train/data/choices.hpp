// Scores a model on multiple-choice tasks: the choice with the highest log-probability is the
// model's answer, as in lm-evaluation-harness.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "common/json.hpp"
#include "worker/tokenizer/directory.hpp"
#include "worker/train/data/task.hpp"
#include "worker/train/model/chunk_spec.hpp"

namespace roll::train {

// How a model computes log-probabilities. Every replica must make the same calls.
struct AnswerPass {
    std::int64_t vocab = 0;
    // maximum number of tokens in a context and a choice; a longer context loses its first tokens
    std::int64_t length_most = 0;
    // maximum number of tokens in a micro-batch; a single choice may have more
    std::int64_t batch_tokens = 0;
    int replicas = 1, replica = 0;
    // Returns the log-probabilities of the segments in this replica's micro-batches: a tensor with
    // one row for each micro-batch and one column for each segment.
    std::function<at::Tensor(std::span<const Microbatch>)> log_probs = {};
    // Adds up a tensor over all replicas; empty if there is one replica
    std::function<void(const at::Tensor&)> sum = {};
    // Called before each part of a task. If it returns true, the task is not scored. The function
    // must return the same value on all replicas.
    std::function<bool()> ends = [] { return false; };
    // Called before each part of a task with the number of choices that are done and the number of
    // all choices; may be empty
    std::function<void(std::int64_t done, std::int64_t all)> progress = {};
};

struct TaskScore {
    std::string name;
    std::int64_t questions = 0;
    std::int64_t fewshot = 0;        // number of examples before each question
    double acc = 0, acc_stderr = 0;  // share of the questions for which the model's answer is right
    // Like `acc`, but each log-probability is divided by the number of characters of its choice
    double acc_norm = 0, acc_norm_stderr = 0;
    // Log-probabilities of the choices, one list for each question
    std::vector<std::vector<double>> log_probs;
};

// Scores a task; returns nullopt if pass.ends() returns true. Throws RankFailure(invalid) if a
// question has no context, and the tokenizer has no BOS or EOS token to use instead.
std::optional<TaskScore> score_task(const Task& task, const tokenizer::TextTokenizer& tokenizer,
                                    const AnswerPass& pass);

// Returns the scores as an object {NAME: {acc, ...}}, with or without the log-probabilities.
OrderedJson scores_json(const std::vector<TaskScore>& scores, bool log_probs);

}  // namespace roll::train
