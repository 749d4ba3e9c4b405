// Multiple-choice tasks in the format of lm-evaluation-harness. A task is a YAML file. The task
// names the dataset's file, and the task's templates make the questions from the records.
//
// Roll reads the part of the format that needs no Python. If a file has any other key, the error
// message names this key.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "common/error.hpp"

namespace roll::train {

struct Question {
    std::string context;
    std::vector<std::string> choices;
    std::int64_t answer = -1;  // index of the right choice; -1: no choice is right
};

struct Task {
    std::string name;
    std::string delimiter = " ";  // text between the context and a choice
    std::int64_t fewshot = 0;     // number of examples in front of each question
    std::vector<Question> questions;
};

// Reads a task and its dataset. `fewshot` replaces the task's num_fewshot. Fails with NotFound,
// InvalidArgument or Corrupt; the message names the file and, for a record, its line.
Result<Task> read_task(const std::filesystem::path& file,
                       std::optional<std::int64_t> fewshot = std::nullopt);

}  // namespace roll::train
