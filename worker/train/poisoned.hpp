// Checkpoints that a job is not to go back to: those since its loss began to rise, before a step
// that was not finite (train.on_not_finite: rewind). OUTPUT/poisoned.json lists them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "worker/checkpoint/choose.hpp"

namespace roll::train {

// Those of `from_step` and later steps that the attempt `by`, or one before it, wrote.
struct Poisoned {
    std::int64_t from_step = 0;
    Token by;
};

// Adds to the list of a job's output. Throws RankFailure.
void add_poisoned(const std::filesystem::path& output, const Poisoned& poisoned);

// A list is only a job's own: a checkpoint is judged by the output directory that it lies in.
// Throws RankFailure of a file that is none of ours.
bool is_poisoned(const std::filesystem::path& checkpoint);

// choose_newest to resume, of those that are not poisoned. Poisoned ones are in `skipped` and
// `damaged`, so that they count for nothing.
checkpoint::Choice choose_sound(const std::vector<std::filesystem::path>& newest_first);

}  // namespace roll::train
