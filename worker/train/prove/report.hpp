// Reports a proof as JSON and as text.
#pragma once

#include <string>

#include "common/json.hpp"
#include "worker/train/prove/prove.hpp"

namespace roll::train {

// Returns the report as JSON (roll.prove/1): the layout, the reduced sizes, the number of compared
// quantities, the largest error, and the first difference.
OrderedJson proof_json(const spec::TrainSpec& spec, const Proof& proof);

std::string proof_text(const OrderedJson& proof);

// Returns the first difference as one sentence. `proof` must be the report of a failed proof.
std::string failure_text(const OrderedJson& proof);

}  // namespace roll::train
