// The teacher of a distillation: a model that only predicts, and whose layers are divided among the
// ranks of the job.
#pragma once

#include "common/spec/train/train.hpp"
#include "worker/train/model/chunk_spec.hpp"
#include "worker/train/model/model_setup.hpp"

namespace roll::train {

// Returns the teacher of a job. Throws RankFailure(invalid) if the teacher is a reward model, if it
// has another vocabulary or tokenizer than the trained model, if top_k exceeds the vocabulary, or
// if the tensor-parallel ranks cannot share the teacher's tensors. The message says what does not
// fit.
ModelSetup setup_teacher(const spec::TrainSpec& spec, const ModelSetup& model);

// Returns the teacher's layers on a rank. The layers are divided among the pipeline stages as
// evenly as possible.
ChunkSpec teacher_chunk(const spec::ModelConfig& teacher, const spec::ParallelSpec& parallel,
                        int stage, int tp_rank);

}  // namespace roll::train
