// What a launch file means for the trainer, and what it refuses. No communication.
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

// Throws RankFailure(invalid) naming what the trainer cannot do, or sizes that do not divide.
void check_spec(const spec::TrainSpec& spec);
spec::TrainSpec checked_spec(const protocol::Launch& launch);

// How many parameters model.freeze keeps. RankFailure(invalid) for a pattern that none matches, or
// if nothing is left to train.
std::int64_t count_frozen(const std::vector<std::string>& freeze,
                          std::span<const ParameterSpec> specs);

// Of the frozen parameters, the elements of those that are factors of products: not an embedding
// that is only looked up, nor vectors.
std::int64_t frozen_factors(const spec::TrainSpec& spec, const spec::ModelConfig& model);

at::ScalarType dtype_of(spec::Precision precision);
// The type that the job's own export rounds its weights to, if that changes them.
std::optional<at::ScalarType> export_rounds_to(const spec::TrainSpec& spec);
FabricOptions fabric_options(const protocol::Launch& launch, int rank);
checkpoint::Layout layout_of(const spec::TrainSpec& spec);
checkpoint::State first_state(const spec::TrainSpec& spec, std::int64_t train_tokens);

// The launch's checkpoints that should still be there, newest first.
std::vector<std::filesystem::path> candidates_of(const protocol::Launch& launch);

// Those of them that lie in this job's own directory: retention's to delete.
std::vector<checkpoint::Kept> recorded_of(const protocol::Launch& launch,
                                          const checkpoint::Choice& choice);

// The step of the best of them: `best_step` if its checkpoint is recorded; else (it was put off)
// the newest that was the best when it was written. Nothing: there is none.
std::optional<std::int64_t> recorded_best(const std::filesystem::path& checkpoints,
                                          const std::vector<checkpoint::Kept>& recorded,
                                          std::int64_t best_step);

checkpoint::Retention retention_of(const spec::TrainSpec& spec);

// What a user may not have meant: files or documents that nothing is learned from, settings by
// which a run that is cut short keeps little.
std::vector<std::string> warnings_of(const spec::TrainSpec& spec, const data::Corpus& corpus,
                                     const data::LearnedDocuments& learned);

// Whether the same numbers are the same samples.
bool same_data(const checkpoint::State& a, const checkpoint::State& b);

// The restored state, as that of a job that goes on with `asked`.
checkpoint::State continued(checkpoint::State restored, const checkpoint::State& asked);

// The output directory of the job that wrote a checkpoint.
std::filesystem::path output_of(const std::filesystem::path& checkpoint);

// Throws RankFailure(invalid) if the restored state is of another precision. Another seed or corpus
// is said in the log: the run goes on, but not as it would have.
void check_continues(const checkpoint::State& restored, const checkpoint::State& asked,
                     const std::filesystem::path& directory);

// `learned` of no documents: they were not counted.
OrderedJson metrics_head(const spec::TrainSpec& spec, const spec::ModelConfig& model,
                         const data::Corpus& corpus, const data::LearnedDocuments& learned);
std::string headline(const spec::TrainSpec& spec, const spec::ModelConfig& model,
                     const data::Corpus& corpus);

// "300 documents: 2 cut to 33 tokens, 1 without a token to learn".
std::string documents_line(const data::LearnedDocuments& learned, std::int64_t seq_length);

}  // namespace roll::train
