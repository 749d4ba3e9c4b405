// Reads the keys of `data` that select the samples to train on and the samples to hold out.
#pragma once

#include "common/error.hpp"
#include "common/json.hpp"
#include "common/spec/train/data.hpp"

namespace roll::spec {

// Reads data.valid: a fraction of the training files, or several sets with names. Each set is a
// fraction or a list of files.
Result<void> read_valid(const Json& json, DataSpec& data);

// Reads data.packing and data.truncate.
Result<void> read_rows(JsonReader& reader, DataSpec& data);

// Reads how samples are drawn from the training files.
void read_blend(JsonReader& reader, DataSpec& data);

// Reads the name of the field of texts.
void read_text_field(JsonReader& reader, DataSpec& data);

}  // namespace roll::spec
