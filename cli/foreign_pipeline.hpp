// Reads the files of ROLL's SFT and DPO pipelines as flat configurations of mcore_adapter.
#pragma once

#include "cli/foreign_config.hpp"

namespace roll::cli {

// Returns true if the document is the file of such a pipeline: it has the key `pretrain` and the
// worker sft_train or actor_train.
bool is_pipeline(const Json& document);

// Returns the configuration with the same meaning. Adds problems, keys without an effect and
// remarks to `foreign`. Problems name the path of a key, such as
// "actor_train.training_args.optim". `columns` gets the names of the fields of an sft record.
Json flattened(const Json& document, Json& columns, Foreign& foreign);

}  // namespace roll::cli
