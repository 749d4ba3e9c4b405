// Computes the keys of a job file that depend on several keys of a foreign configuration.
#pragma once

#include <string>

#include "cli/foreign/config.hpp"

namespace roll::cli {

// Applies all rules. `config` has no keys with the value null. Adds problems and remarks to
// `foreign`. `megatron` is true if the configuration has keys of mcore_adapter.
void apply_rules(const Json& config, const std::string& directory, bool megatron, Json& document,
                 Foreign& foreign);

}  // namespace roll::cli
