// Computes what the teacher of a distillation predicts for the targets of a job, before the first
// step. The teacher may have another size and family than the trained model, but must have the same
// vocabulary. While the pass runs, the weights of the teacher and of the trained model are both in
// memory. The teacher is split over the same tensor-parallel ranks and pipeline stages. Each
// replica computes a part of the windows.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "common/spec/train/train.hpp"
#include "worker/train/data/teacher_values.hpp"
#include "worker/train/model/model_setup.hpp"
#include "worker/train/pipeline/train_step.hpp"

namespace roll::train {

// The windows that a job trains on or holds out. A window may occur several times.
struct TeacherWindows {
    std::int64_t count = 0;
    std::function<data::Window(std::int64_t)> at;
};

struct TeacherPass {
    const spec::TrainSpec& spec;
    const ModelSetup& model;  // the trained model
    const Groups& groups;
    Communicator& world;
    at::Device device = at::kCPU;
    std::filesystem::path output;  // output directory of the job
    // output directories of the jobs from which this job may continue, the preferred one first
    std::vector<std::filesystem::path> earlier;
    std::filesystem::path directory;  // directory of the token files
    std::vector<std::string> tokens;  // hashes of the tokens of the files; used on rank 0 only
    std::string attempt;  // unique to this attempt; the attempt stores its values under this name
    // Reports progress, and returns true if this rank was told to stop.
    std::function<bool(std::int64_t done, std::int64_t windows)> stops;
};

// Returns the teacher's values for all windows: the most probable tokens of each target. Computes
// and stores the values that are not stored yet. All ranks must call this function. Returns nullopt
// if a rank was told to stop; the values that were computed before the stop are stored. Throws
// RankFailure(invalid) if the teacher does not fit the model or the layout. Also throws
// RankFailure(invalid) if values must be computed, but the teacher of a continued job has changed.
std::optional<TeacherValuesFiles> measure_teacher(const TeacherPass& pass,
                                                  const TeacherWindows& windows);

}  // namespace roll::train
