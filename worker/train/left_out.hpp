// Samples that training leaves out after a rewind (train.on_not_finite: rewind), because they
// produced a non-finite step.
//
// A checkpoint's state lists them. Samples found after an attempt's last checkpoint are only in
// OUTPUT/left_out.json, together with the seed and corpus that their numbers refer to.
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "worker/checkpoint/state.hpp"
#include "worker/train/comm/communicator.hpp"

namespace roll::train {

// Merges `more` into the ascending `samples`.
void join(std::vector<std::int64_t>& samples, const std::vector<std::int64_t>& more);

// Returns the samples in an output directory's file if they refer to the same data as `like`; empty
// otherwise, or if there is no file. Throws RankFailure if the file is not in Roll's format.
std::vector<std::int64_t> read_left_out(const std::filesystem::path& output,
                                        const checkpoint::State& like);

// Writes state.left_out. Throws RankFailure.
void write_left_out(const std::filesystem::path& output, const checkpoint::State& state);

// Copies rank 0's list to every rank.
void share(std::vector<std::int64_t>& samples, Communicator& world);

}  // namespace roll::train
