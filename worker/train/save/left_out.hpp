// The samples that training leaves out after going back to an earlier checkpoint
// (train.on_not_finite: rewind), because they produced a step with non-finite values.
//
// A checkpoint's state lists them. Samples that were found after an attempt's last checkpoint are
// only in OUTPUT/left_out.json. That file also has the seed and the corpus to which the numbers of
// the samples refer.
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "worker/checkpoint/state.hpp"
#include "worker/train/comm/communicator.hpp"

namespace roll::train {

// Adds `more` to the list `samples`; the result is ascending and without duplicates.
void join(std::vector<std::int64_t>& samples, const std::vector<std::int64_t>& more);

// Returns the samples listed in OUTPUT/left_out.json. Returns no sample if the file does not exist,
// or if its seed, corpus or seq_length differs from that of `like`, because the numbers then mean
// other samples. Throws RankFailure if the file is not in Roll's format.
std::vector<std::int64_t> read_left_out(const std::filesystem::path& output,
                                        const checkpoint::State& like);

// Writes state.left_out to OUTPUT/left_out.json. Throws RankFailure if the file cannot be written.
void write_left_out(const std::filesystem::path& output, const checkpoint::State& state);

// Copies rank 0's list to every rank.
void share(std::vector<std::int64_t>& samples, Communicator& world);

}  // namespace roll::train
