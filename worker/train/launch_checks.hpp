// Translates a launch file for the trainer and rejects settings that the trainer does not support.
// Does not communicate.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "common/json.hpp"
#include "common/protocol/rank.hpp"
#include "common/spec/model.hpp"
#include "common/spec/train.hpp"
#include "worker/checkpoint/choose.hpp"
#include "worker/checkpoint/state.hpp"
#include "worker/train/comm/gloo_fabric.hpp"
#include "worker/train/data/learned.hpp"
#include "worker/train/model/parameters.hpp"

namespace roll::train {

// Throws RankFailure(invalid) for an unsupported setting, or for sizes that do not divide. The
// message names them.
void check_spec(const spec::TrainSpec& spec);
spec::TrainSpec checked_spec(const protocol::Launch& launch);

// Returns the number of parameters that model.freeze matches. Throws RankFailure(invalid) if a
// pattern matches none, or if no parameter is left to train.
std::int64_t count_frozen(const std::vector<std::string>& freeze,
                          std::span<const ParameterSpec> specs);

// Returns the number of elements of frozen parameters that are factors of matrix products. Vectors,
// and an embedding that is only looked up, do not count.
std::int64_t frozen_factors(const spec::TrainSpec& spec, const spec::ModelConfig& model);

at::ScalarType dtype_of(spec::Precision precision);
// Returns the type to which the job's own export rounds the weights; nullopt if the export does not
// change them.
std::optional<at::ScalarType> export_rounds_to(const spec::TrainSpec& spec);
FabricOptions fabric_options(const protocol::Launch& launch, int rank);
checkpoint::Layout layout_of(const spec::TrainSpec& spec);
checkpoint::State first_state(const spec::TrainSpec& spec, std::int64_t train_tokens);

// Returns the directories of the launch's checkpoints that should still exist, newest first.
std::vector<std::filesystem::path> candidates_of(const protocol::Launch& launch);

// Returns the candidates in this job's own directory of checkpoints. Retention may delete them.
std::vector<checkpoint::Kept> recorded_of(const protocol::Launch& launch,
                                          const checkpoint::Choice& choice);

// Returns the step of the best checkpoint: `best_step` if that checkpoint is recorded. Otherwise
// (it was put off) returns the newest recorded one that was the best when it was written; nullopt
// if there is none.
std::optional<std::int64_t> recorded_best(const std::filesystem::path& checkpoints,
                                          const std::vector<checkpoint::Kept>& recorded,
                                          std::int64_t best_step);

checkpoint::Retention retention_of(const spec::TrainSpec& spec);

// Returns warnings about what the user may not have intended: files or documents from which nothing
// is learned, and settings that keep little of an interrupted run.
std::vector<std::string> warnings_of(const spec::TrainSpec& spec, const data::Corpus& corpus,
                                     const data::LearnedDocuments& learned);

// Returns true if equal sample numbers mean equal samples in both states.
bool same_data(const checkpoint::State& a, const checkpoint::State& b);

// Returns the restored state with the settings of `asked`, the state of the job that continues.
checkpoint::State continued(checkpoint::State restored, const checkpoint::State& asked);

// Returns the output directory of the job that wrote `checkpoint`.
std::filesystem::path output_of(const std::filesystem::path& checkpoint);

// Checks that the job may continue from the restored state. Throws RankFailure(invalid) if the
// state has another precision. Logs a different seed or corpus, because the run then goes on with
// other data.
void check_continues(const checkpoint::State& restored, const checkpoint::State& asked,
                     const std::filesystem::path& directory);

// Returns the first line of the metrics. It has no document counts if `learned` has no documents,
// that is, if they were not counted.
OrderedJson metrics_head(const spec::TrainSpec& spec, const spec::ModelConfig& model,
                         const data::Corpus& corpus, const data::LearnedDocuments& learned);
std::string headline(const spec::TrainSpec& spec, const spec::ModelConfig& model,
                     const data::Corpus& corpus);

// Returns a line such as "300 documents: 2 cut to 33 tokens, 1 without a token to learn".
std::string documents_line(const data::LearnedDocuments& learned, std::int64_t seq_length);

}  // namespace roll::train
