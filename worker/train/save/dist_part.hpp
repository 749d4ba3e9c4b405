// A checkpoint in Megatron's format torch_dist (checkpoint.format), which every rank of a job
// writes.
//
// Each rank writes one .distcp file with blocks of the main weights and of Adam's moments, under
// the keys of Megatron's optimizer kind fully_reshardable. `.metadata` says where each block is.
// Therefore, Megatron and torch can load the checkpoint in any layout. The key of a main weight
// names the same bytes as the key of the weight itself, so each byte is stored once. A checkpoint
// of this format has the index of roll/optimizer, too, but the index lists no blocks.
#pragma once

#include <filesystem>
#include <string>

#include "common/error.hpp"
#include "common/json.hpp"
#include "worker/checkpoint/state.hpp"
#include "worker/formats/dcp.hpp"
#include "worker/formats/mca.hpp"
#include "worker/train/comm/communicator.hpp"
#include "worker/train/save/part_plan.hpp"

namespace roll::train {

// Returns the plan of what this rank writes. `native`: the model's native config. `rank`: this
// rank's number in the job. The optimizer's states must be exp_avg and exp_avg_sq, and no parameter
// may be frozen.
PartPlan plan_dist_part(TrainStep& step, const Json& native, int rank);

// Returns the metadata of a checkpoint with the parts of all ranks. All ranks must call this
// function, and all get the metadata. Throws RankFailure if the blocks do not cover each tensor
// exactly.
formats::DcpMetadata dist_metadata(const PartPlan& own, Communicator& world);

// Writes the files of a checkpoint that Megatron needs besides the .distcp files. `job`: the job
// record. Requires the index of roll/optimizer, which has the number of updates.
Result<void> write_dist_files(const std::filesystem::path& directory,
                              const formats::McaConfig& config,
                              const formats::DcpMetadata& metadata, const checkpoint::State& state,
                              const std::string& job);

// Returns true if the checkpoint has the format torch_dist.
bool is_dist(const std::filesystem::path& checkpoint);

}  // namespace roll::train
