// Derives a HuggingFace config from a native config. Used for checkpoints that have only the
// arguments of a Megatron run. Pure.
#pragma once

#include "common/error.hpp"
#include "common/json.hpp"
#include "worker/families/family.hpp"

namespace roll::families {

// Returns a HuggingFace config from which native_config() derives `native`. Fields that `native`
// lacks have the family's defaults. Ignores fields that describe a training run and not its model
// (dropout, losses). Fails with InvalidArgument if no config of this family gives the fields of
// `native`; the message names the first field that differs.
Result<Json> hf_config_of(const Family& family, const Json& native);

}  // namespace roll::families
