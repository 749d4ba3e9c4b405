// Reports the start of a run: the first line of the metrics, the first line of the log, and
// warnings.
#pragma once

#include <string>
#include <vector>

#include "common/json.hpp"
#include "common/spec/train/model.hpp"
#include "common/spec/train/train.hpp"
#include "worker/train/data/corpus/learned.hpp"

namespace roll::train {

std::string epochs_text(double epochs);  // returns e.g. "2.5 epochs"

// Returns the first line of the metrics. `learned` has the numbers of documents. If `learned` is
// empty, the line has no such numbers. `schedule`: the name of the pipeline's schedule.
OrderedJson metrics_head(const spec::TrainSpec& spec, const spec::ModelConfig& model,
                         const data::Corpus& corpus, const data::LearnedDocuments& learned,
                         const std::string& schedule);
std::string headline(const spec::TrainSpec& spec, const spec::ModelConfig& model,
                     const data::Corpus& corpus, const std::string& schedule);

// Returns a line such as "300 documents: 2 cut to 33 tokens, 1 without a token to learn".
std::string documents_line(const data::LearnedDocuments& learned, const spec::TrainSpec& spec);

// Returns warnings about settings that the user may not have intended: files or documents that
// contribute nothing to the loss, and settings with which an interrupted run loses much work.
std::vector<std::string> warnings_of(const spec::TrainSpec& spec, const data::Corpus& corpus,
                                     const data::LearnedDocuments& learned);

}  // namespace roll::train
