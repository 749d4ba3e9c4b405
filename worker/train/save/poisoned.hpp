// A job must not continue from a poisoned checkpoint. Poisoned checkpoints were written after the
// loss began to rise, and before the non-finite step or spike at the end of the rise
// (train.on_not_finite and train.on_spike: rewind). OUTPUT/poisoned.json lists these checkpoints.
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "worker/checkpoint/choose.hpp"

namespace roll::train {

// An entry of the list of poisoned checkpoints. The entry covers all checkpoints of step
// `from_step` or later that were written by attempt `by` or an earlier attempt.
struct Poisoned {
    std::int64_t from_step = 0;
    Token by;
};

// Adds an entry to the list in a job's output directory. Throws RankFailure if the list cannot be
// read or written.
void add_poisoned(const std::filesystem::path& output, const Poisoned& poisoned);

// Returns true if the list in the output directory of the checkpoint's job covers `checkpoint`.
// Throws RankFailure if the list does not have Roll's format.
bool is_poisoned(const std::filesystem::path& checkpoint);

// Chooses a checkpoint like choose_newest() with `verify`, but only among checkpoints that are not
// poisoned. Adds the poisoned checkpoints to `skipped` and `damaged` of the result, so that
// retention does not count these checkpoints as kept.
checkpoint::Choice choose_sound(const std::vector<std::filesystem::path>& newest_first,
                                const checkpoint::Verify& verify);

}  // namespace roll::train
