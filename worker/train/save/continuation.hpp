// Functions for a job that continues from a checkpoint. The functions compare the restored state
// with the state that the job requests, and list the job's own checkpoints.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <vector>

#include "common/protocol/rank.hpp"
#include "common/spec/train/train.hpp"
#include "worker/checkpoint/choose.hpp"
#include "worker/checkpoint/state.hpp"

namespace roll::train {

checkpoint::State first_state(const spec::TrainSpec& spec, std::int64_t train_tokens);

// Returns true if each sample number means the same sample in both states.
bool same_data(const checkpoint::State& a, const checkpoint::State& b);

// Returns the restored state with the settings of `asked`, the state that the continuing job
// requests.
checkpoint::State continued(checkpoint::State restored, const checkpoint::State& asked);

// Checks that the job may continue from the restored state. Throws RankFailure(invalid) if the
// precision of the restored state differs from that of `asked`. If the seed or the corpus differs,
// the run continues with other data; logs this.
void check_continues(const checkpoint::State& restored, const checkpoint::State& asked,
                     const std::filesystem::path& directory);

// Returns the checkpoints of the launch that are in the job's own checkpoint directory. Retention
// may delete these checkpoints.
std::vector<checkpoint::Kept> recorded_of(const protocol::Launch& launch,
                                          const checkpoint::Choice& choice);

// Returns `best_step` if the checkpoint of that step is in `recorded`. Otherwise, the full disk has
// delayed that checkpoint. In that case, returns the step of the newest recorded checkpoint that
// was the best one when it was written. Returns nullopt if there is no such checkpoint.
std::optional<std::int64_t> recorded_best(const std::filesystem::path& checkpoints,
                                          const std::vector<checkpoint::Kept>& recorded,
                                          std::int64_t best_step);

checkpoint::Retention retention_of(const spec::TrainSpec& spec);

}  // namespace roll::train
