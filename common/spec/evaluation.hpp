// Reads the sections of `train` about evaluations and what follows from them: train.early_stop,
// train.best, train.evaluation and train.ema. Keys that are missing have their defaults.
#pragma once

#include "common/error.hpp"
#include "common/json.hpp"
#include "common/spec/train.hpp"

namespace roll::spec {

Result<EarlyStopSpec> read_early_stop(const Json& json);
Result<MetricSpec> read_best(const Json& json);
Result<EvaluationSpec> read_evaluation(const Json& json);
Result<EmaSpec> read_ema(const Json& json);

}  // namespace roll::spec
