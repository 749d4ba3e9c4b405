// Translates configurations of the HuggingFace Trainer and of related programs into Roll job files.
// schemas/foreign/trainer.json says how each key is read.
#pragma once

#include <string>
#include <vector>

#include "cli/foreign/config.hpp"
#include "common/json.hpp"

namespace roll::cli {

// Returns true if `document` is a configuration of one of the programs above. Such a configuration
// has no `kind`, and has at least two keys that occur only in such configurations.
bool is_foreign(const Json& document);

// Replaces the configuration in `document` by a job file with the same meaning. Resolves relative
// paths against `directory`, the working directory, as the foreign programs do. The job file does
// not have train.global_batch_size yet.
Foreign translate(Json& document, const std::string& directory);

// Sets train.global_batch_size. Computes the data-parallel size from the document's resources.
void set_global_batch(const Foreign& foreign, Json& document);

// Returns the names of the programs whose configurations Roll can read.
std::string foreign_programs();

// Returns one line for each key of the configuration. The line says which keys of `document` this
// key sets, or why it sets none.
std::vector<std::string> describe(const Foreign& foreign, const Json& document);

}  // namespace roll::cli
