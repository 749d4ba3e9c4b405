// The job record: the job with all defaults filled in. The job record is written to
// OUTPUT/job.json, which `rollctl submit` accepts, and to roll/job.json of each checkpoint. A
// resumed run compares its own record with the checkpoint's record and reports the differences.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "common/json.hpp"
#include "common/protocol/rank.hpp"
#include "common/spec/train/train.hpp"

namespace roll::train {

// Returns the launch's job document, with the derived parallel axes, as indented JSON.
std::string job_record(const protocol::Launch& launch, const spec::TrainSpec& spec);

// Returns one line for each key that affects training and differs between the two job records, such
// as "train.optimizer.lr was 0.003 and is 0.001". Pure.
std::vector<std::string> differences(const Json& before, const Json& now);

// Compares `record` with the job record in the checkpoint from which the job continues at `step`.
// Returns lines for the differing keys, like the function above, and for the learning-rate curves
// (lr_curves.hpp). Returns no lines if the checkpoint has no record. Throws RankFailure.
std::vector<std::string> differences(const std::filesystem::path& checkpoint,
                                     const std::string& record, std::int64_t step);

}  // namespace roll::train
