// Reads the keys of a foreign configuration that decide what is trained: the stage with the options
// of its loss, and LoRA.
#pragma once

#include <string>

#include "cli/foreign_config.hpp"

namespace roll::cli {

// Returns true if the configuration is one of TRL's scripts: it has keys that only TRL knows, and
// no stage of LLaMA-Factory.
bool is_of_trl(const Config& config);

// Sets the objective. TRL names the stage on its command line, so it is inferred from the keys.
void read_stage(const Config& config);

// Sets train.lora. Requires that read_stage() was called before.
void read_lora(const Config& config);

}  // namespace roll::cli
