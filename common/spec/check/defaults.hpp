// Sets the keys that a job file leaves out. Pure.
#pragma once

#include <string>

#include "common/json.hpp"

namespace roll::spec {

// Returns whether the document is of kind train or resume.
bool trains(const Json& document);

// Returns true if a training job exports a LoRA adapter, not a whole model.
bool exports_adapter(const Json& document);

// Sets the defaults of the schema and the defaults that depend on other keys. Makes relative paths
// absolute; they are relative to `base`. Ignores values of a wrong type.
void fill_job(Json& document, const std::string& base);

// Sets a missing tokenizer to the tokenizer of model.from, or to "bytes" if model.from is not set.
// Called after the check for missing files, so that a missing model directory is reported only
// once.
void fill_tokenizer(Json& document);

}  // namespace roll::spec
