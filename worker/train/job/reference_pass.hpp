// Computes the log-probabilities of a job's answers under its reference model, before training
// starts. The reference model is the model with its starting weights, or another model of the same
// shape. During the pass, the job's own chunks hold the reference model's weights, so training
// needs no memory for a second model.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "common/spec/train/train.hpp"
#include "worker/train/data/references.hpp"
#include "worker/train/pipeline/train_step.hpp"

namespace roll::train {

struct ReferencePass {
    const spec::TrainSpec& spec;
    TrainStep& step;
    Communicator& world;
    std::int64_t vocab = 0;
    std::filesystem::path output;  // output directory of the job
    // output directories of the jobs from which this job may continue, the best one first
    std::vector<std::filesystem::path> earlier;
    std::filesystem::path directory;  // directory of the files that store the log-probabilities
    // Loads a model's weights into the chunks, on all ranks.
    std::function<void(const std::string& model)> load;
    // Reports progress. Returns true if this rank was told to stop.
    std::function<bool(std::int64_t done, std::int64_t pairs)> stops;
};

// A corpus file, and its windows whose answers need log-probabilities under the reference model.
struct ReferenceFile {
    const data::CorpusFile* file = nullptr;
    std::string hash;  // hash of the file's tokens
    std::vector<data::Window> windows;
};

// Returns the log-probabilities of the answers in the windows of `files` under the reference model.
// Computes and stores the log-probabilities that are not stored yet. All ranks must call this
// function. Returns nullopt if a rank was told to stop; the log-probabilities that were computed
// before the stop are stored. Throws RankFailure if log-probabilities must be computed, but the
// reference model of a continued job has changed.
std::optional<PairReferences> measure_references(const ReferencePass& pass,
                                                 const std::vector<ReferenceFile>& files);

}  // namespace roll::train
