// How a job measures its model during training, and how the measurements steer the job.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace roll::spec {

// A metric by which the evaluations of a run are judged. `name` is a key of metrics.jsonl.
struct MetricSpec {
    std::string name = "valid_loss";
    bool higher = false;  // true: higher values are better
};

// Stops the training early after `patience` consecutive values of the metric without an
// improvement. A value is an improvement if it is better than the best earlier value by more than
// `min_delta`.
struct EarlyStopSpec {
    std::int64_t patience = 0;  // validations without improvement; 0: never stop early
    double min_delta = 0;       // least improvement that counts
    MetricSpec metric = {};
};

// Multiple-choice tasks on which the model is measured during training.
struct EvaluationSpec {
    std::vector<std::string> tasks;  // absolute paths of task files
    std::int64_t every = 0;          // interval in steps; 0: only at the end
    bool averaged = false;           // true: measure validation sets and tasks with the EMA
};

// The texts that the model writes during training.
struct SampleSpec {
    std::int64_t every = 0;  // interval in steps; 0: never
    std::vector<std::string> prompts;
    std::int64_t max_tokens = 64;
};

}  // namespace roll::spec
