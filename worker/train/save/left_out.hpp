// The samples that training leaves out because their step had a non-finite value or was a spike.
// After such a step, training goes back to an earlier checkpoint (rewind in train.on_not_finite,
// train.on_spike).
//
// A checkpoint's state lists these samples. If samples were found after the last checkpoint of an
// attempt, only OUTPUT/left_out.json lists them. That file also has the seed, the corpus and its
// order, because the sample numbers are valid only for these.
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "worker/checkpoint/state.hpp"
#include "worker/train/comm/communicator.hpp"

namespace roll::train {

// Adds `more` to `samples`. The result is ascending and has no duplicates.
void join(std::vector<std::int64_t>& samples, const std::vector<std::int64_t>& more);

// Returns the samples that OUTPUT/left_out.json lists. Returns no samples if the file does not
// exist, or if its seed, corpus, order or seq_length differs from `like`. In that case, the numbers
// mean other samples. Throws RankFailure if the file does not have Roll's format.
std::vector<std::int64_t> read_left_out(const std::filesystem::path& output,
                                        const checkpoint::State& like);

// Writes state.left_out to OUTPUT/left_out.json. Throws RankFailure if the file cannot be written.
void write_left_out(const std::filesystem::path& output, const checkpoint::State& state);

// Copies rank 0's list to every rank.
void share(std::vector<std::int64_t>& samples, Communicator& world);

}  // namespace roll::train
