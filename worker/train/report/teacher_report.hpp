// The teacher of a distillation in the plan of a job.
#pragma once

#include <string>

#include "common/json.hpp"
#include "common/spec/train/train.hpp"
#include "worker/train/model/model_setup.hpp"

namespace roll::train {

// Returns the size of the teacher and of its stored values. `model`: the trained model. Throws
// RankFailure as setup_teacher() does.
OrderedJson teacher_json(const spec::TrainSpec& spec, const ModelSetup& model, bool on_gpu);

// Returns the line of the plan about a teacher.
std::string teacher_text(const OrderedJson& teacher);

}  // namespace roll::train
