// The settings of a PEFT adapter from which a job starts (train.lora.from).
#pragma once

#include <string>
#include <vector>

#include "common/error.hpp"
#include "common/json.hpp"

namespace roll::cli {

// If a job has train.lora.from, fills the keys of train.lora that the job file leaves out, and adds
// a note. The values come from the adapter's adapter_config.json. If `from` is the result of an
// earlier job of the chain, the values come from train.lora of that earlier job. Does the same for
// the jobs below `then`. Does nothing if the directory does not exist, because the check of the job
// reports this. Relative paths are relative to `base`. Fails if adapter_config.json cannot be read.
Result<void> use_adapter_settings(Json& document, const std::string& base,
                                  std::vector<std::string>& notes);

}  // namespace roll::cli
