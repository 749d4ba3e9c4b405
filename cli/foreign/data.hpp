// Reads the keys of a foreign configuration that describe its data sets.
#pragma once

#include "cli/foreign/config.hpp"

namespace roll::cli {

// Reads the keys of a foreign configuration that describe data sets.
void read_data(const Config& config);
// Reads the keys of the chat template. read_data() must have been called before.
void read_template(const Config& config);

}  // namespace roll::cli
