// The cases of rotary embedding and attention.
#pragma once

#include "tests/worker/train/device/trial.hpp"

namespace roll::ops {

void rope_case(Trial& trial);
void attention_case(Trial& trial);
void segments_case(Trial& trial);

}  // namespace roll::ops
