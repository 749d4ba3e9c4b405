// The samples that training leaves out: those at fault for a step that was no number, once a job
// was sent back before it (train.on_not_finite: rewind).
//
// A checkpoint's state lists them. What an attempt learns in its last moment no checkpoint of its
// has: it lies in OUTPUT/left_out.json, with what the numbers are numbers of.
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "worker/checkpoint/state.hpp"
#include "worker/train/comm/communicator.hpp"

namespace roll::train {

// Adds `more` to the ascending `samples`.
void join(std::vector<std::int64_t>& samples, const std::vector<std::int64_t>& more);

// Those of a job's output that are numbers of the same data as `like`. None if there is no file.
// Throws RankFailure of a file that is none of ours.
std::vector<std::int64_t> read_left_out(const std::filesystem::path& output,
                                        const checkpoint::State& like);

// Throws RankFailure.
void write_left_out(const std::filesystem::path& output, const checkpoint::State& state);

// Rank 0's list on every rank.
void share(std::vector<std::int64_t>& samples, Communicator& world);

}  // namespace roll::train
