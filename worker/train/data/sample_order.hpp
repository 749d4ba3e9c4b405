// Makes a corpus and the order of its samples from the job's keys for files, weights and order.
#pragma once

#include <vector>

#include "common/spec/train/train.hpp"
#include "worker/train/data/corpus/sampler.hpp"

namespace roll::train {

// Makes the corpus of the training files. Throws RankFailure(invalid) if a file has too few tokens.
data::Corpus training_corpus(std::vector<data::NamedTokens> files, const spec::TrainSpec& spec);

// Makes the sampler of a job. `corpus` must outlive the sampler, and spec.steps must be set. Throws
// RankFailure(invalid) if the weights or the order do not fit the files.
data::Sampler job_sampler(const data::Corpus& corpus, const spec::TrainSpec& spec);

}  // namespace roll::train
