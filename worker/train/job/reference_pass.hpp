// Computes the log-probabilities of a job's answers under its reference model, before the training
// starts. The reference is the model with its starting weights, or another model of the
// same shape; while the pass runs, its weights are in the job's own chunks. So training needs no
// second model.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "common/spec/train.hpp"
#include "worker/train/data/references.hpp"
#include "worker/train/pipeline/train_step.hpp"

namespace roll::train {

struct ReferencePass {
    const spec::TrainSpec& spec;
    TrainStep& step;
    Communicator& world;
    std::int64_t vocab = 0;
    std::filesystem::path output;  // of the job
    // outputs of the jobs from which this job may continue, in the order of preference
    std::vector<std::filesystem::path> earlier;
    std::filesystem::path directory;  // of the files of values
    // Loads a model's weights into the chunks, on all ranks.
    std::function<void(const std::string& model)> load;
    // Reports progress, and returns true if this rank was told to stop.
    std::function<bool(std::int64_t done, std::int64_t pairs)> stops;
};

// A corpus file whose pairs need values.
struct ReferenceFile {
    const data::CorpusFile* file = nullptr;
    std::string hash;  // of its tokens
    std::vector<data::Window> windows;
};

// Returns the values of the windows in `files`. Computes and stores those that are not stored yet.
// All ranks must call it. Returns nullopt if a rank was told to stop; what is done is then stored.
// Throws RankFailure if the reference of a continued job is needed and has changed.
std::optional<PairReferences> measure_references(const ReferencePass& pass,
                                                 const std::vector<ReferenceFile>& files);

}  // namespace roll::train
