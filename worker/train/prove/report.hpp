// Reports a proof, as JSON and as text.
#pragma once

#include <string>

#include "common/json.hpp"
#include "worker/train/prove/prove.hpp"

namespace roll::train {

// Returns the report as JSON (roll.prove/1): the layout, what was cut, what was compared, the
// largest error, and the first difference.
OrderedJson proof_json(const spec::TrainSpec& spec, const Proof& proof);

std::string proof_text(const OrderedJson& proof);

// Returns the first difference as one sentence. Requires a proof that does not hold.
std::string failure_text(const OrderedJson& proof);

}  // namespace roll::train
