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

// Checks that the trainer supports a job's settings. Throws RankFailure(invalid) for an unsupported
// setting, or for sizes that do not divide each other as required. The message names the setting or
// the sizes.
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
// Returns the type to which the export of the job rounds the weights; nullopt if the export does
// not change them.
std::optional<at::ScalarType> export_rounds_to(const spec::TrainSpec& spec);
FabricOptions fabric_options(const protocol::Launch& launch, int rank);
checkpoint::Layout layout_of(const spec::TrainSpec& spec);
checkpoint::State first_state(const spec::TrainSpec& spec, std::int64_t train_tokens);

// Returns the directories of the launch's checkpoints that should still exist, newest first. The
// run may start from any of them.
std::vector<std::filesystem::path> candidates_of(const protocol::Launch& launch);

// Returns the launch's checkpoints that are in this job's own directory of checkpoints. Retention
// may delete them.
std::vector<checkpoint::Kept> recorded_of(const protocol::Launch& launch,
                                          const checkpoint::Choice& choice);

// Returns the step of the best checkpoint: `best_step` if that checkpoint is recorded. Otherwise
// its writing was put off; then returns the newest recorded checkpoint that was the best when it
// was written, or nullopt if there is none.
std::optional<std::int64_t> recorded_best(const std::filesystem::path& checkpoints,
                                          const std::vector<checkpoint::Kept>& recorded,
                                          std::int64_t best_step);

checkpoint::Retention retention_of(const spec::TrainSpec& spec);

// Returns warnings about settings that the user may not have intended: files or documents that
// contribute nothing to the loss, and settings that keep little of an interrupted run.
std::vector<std::string> warnings_of(const spec::TrainSpec& spec, const data::Corpus& corpus,
                                     const data::LearnedDocuments& learned);

// Returns true if the same sample number means the same sample in both states.
bool same_data(const checkpoint::State& a, const checkpoint::State& b);

// Returns the restored state, with its settings replaced by those of `asked`, the state of the job
// that continues.
checkpoint::State continued(checkpoint::State restored, const checkpoint::State& asked);

// Returns the output directory of the job that wrote `checkpoint`.
std::filesystem::path output_of(const std::filesystem::path& checkpoint);

// Checks that the job may continue from the restored state. Throws RankFailure(invalid) if the
// state has another precision than `asked`. Logs a different seed or corpus, because the run then
// continues with other data.
void check_continues(const checkpoint::State& restored, const checkpoint::State& asked,
                     const std::filesystem::path& directory);

// Returns the first line of the metrics. If the documents were not counted (`learned` is empty), it
// has no counts of documents.
OrderedJson metrics_head(const spec::TrainSpec& spec, const spec::ModelConfig& model,
                         const data::Corpus& corpus, const data::LearnedDocuments& learned);
std::string headline(const spec::TrainSpec& spec, const spec::ModelConfig& model,
                     const data::Corpus& corpus);

// Returns a line such as "300 documents: 2 cut to 33 tokens, 1 without a token to learn".
std::string documents_line(const data::LearnedDocuments& learned, std::int64_t seq_length);

}  // namespace roll::train
