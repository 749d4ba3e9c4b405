// The job as it runs, every default in it: OUTPUT/job.json, which `rollctl submit` takes as it is,
// and roll/job.json of each checkpoint, by which a resumed run can say what is different now.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "common/json.hpp"
#include "common/protocol/rank.hpp"
#include "common/spec/train.hpp"

namespace roll::train {

// Indented JSON: the launch's document with the axes that were derived.
std::string job_record(const protocol::Launch& launch, const spec::TrainSpec& spec);

// One line for each key that training depends on and that two records have otherwise:
// "train.optimizer.lr was 0.003 and is 0.001". Pure.
std::vector<std::string> differences(const Json& before, const Json& now);

// What is different in a job that goes on from a checkpoint at `step`: the lines above, and the
// learning rate's curves (lr_curves.hpp). None where the checkpoint has no record. Throws
// RankFailure.
std::vector<std::string> differences(const std::filesystem::path& checkpoint,
                                     const std::string& record, std::int64_t step);

}  // namespace roll::train
