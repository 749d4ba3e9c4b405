// Determines the number of steps of a job whose length is given in epochs.
#pragma once

#include <cstdint>

#include "common/spec/train/train.hpp"
#include "worker/train/data/corpus/corpus.hpp"

namespace roll::train {

// Steps and samples that a run has already trained.
struct Done {
    std::int64_t step = 0, samples = 0;
};

// Sets spec.steps so that all steps, including those in `done`, train on spec.epochs times the
// samples of the corpus. The batch of the last step is always full, so this batch may include some
// samples beyond these epochs. Throws RankFailure(invalid) if the learning-rate schedule does not
// fit into the steps. spec.epochs must be above 0.
void set_steps_of_epochs(spec::TrainSpec& spec, const data::Corpus& corpus, const Done& done);

// Sets spec.steps for the plan of a job. A plan has no output directory, so the job's corpus is
// made in a temporary directory. If the texts are too long to be tokenized for a plan, leaves
// spec.steps 0. Throws RankFailure.
void plan_epochs(spec::TrainSpec& spec);

}  // namespace roll::train
