// Poisoned checkpoints, from which a job must not continue. They were written between the start of
// a rise of the loss and the non-finite step to which the rise led (train.on_not_finite: rewind).
// OUTPUT/poisoned.json lists them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "worker/checkpoint/choose.hpp"

namespace roll::train {

// An entry of the list of poisoned checkpoints. It covers all checkpoints of step `from_step` or
// later that attempt `by` or an earlier attempt wrote.
struct Poisoned {
    std::int64_t from_step = 0;
    Token by;
};

// Adds an entry to the list in a job's output directory. Throws RankFailure if the list cannot be
// read or written.
void add_poisoned(const std::filesystem::path& output, const Poisoned& poisoned);

// Returns true if the list of poisoned checkpoints, in the output directory of the checkpoint's
// job, covers `checkpoint`. Throws RankFailure if the list is not in Roll's format.
bool is_poisoned(const std::filesystem::path& checkpoint);

// Returns what choose_newest() chooses with `verify` from the checkpoints that are not poisoned.
// Adds the poisoned ones to `skipped` and `damaged`, so that retention does not count them as kept.
checkpoint::Choice choose_sound(const std::vector<std::filesystem::path>& newest_first,
                                const checkpoint::Verify& verify);

}  // namespace roll::train
