// Reads the keys of a foreign configuration that select what is trained: the training stage, the
// options of the stage's loss, and LoRA.
#pragma once

#include <string>

#include "cli/foreign/config.hpp"

namespace roll::cli {

// Returns true if the configuration is for a script of TRL: the configuration has a key that only
// TRL has, and no stage of LLaMA-Factory.
bool is_of_trl(const Config& config);

// Sets the objective. TRL names the stage on its command line, so this function infers the stage
// from the keys.
void read_stage(const Config& config);

// Sets train.lora. read_stage() must have been called before.
void read_lora(const Config& config);

}  // namespace roll::cli
