// Converts the configuration files of ROLL (another program), for its SFT and DPO pipelines, to
// flat configurations of mcore_adapter.
#pragma once

#include "cli/foreign/config.hpp"

namespace roll::cli {

// Returns true if the document is the file of an SFT or DPO pipeline of ROLL: it has the key
// `pretrain` and the worker sft_train or actor_train.
bool is_pipeline(const Json& document);

// Returns the flat configuration with the same meaning as the pipeline's file. Adds problems, keys
// without an effect and remarks to `foreign`. Each problem names the path of a key, such as
// "actor_train.training_args.optim". Sets `columns` to the names that the file gives to the fields
// of an sft record: its prompt, query, response and system prompt.
Json flattened(const Json& document, Json& columns, Foreign& foreign);

}  // namespace roll::cli
