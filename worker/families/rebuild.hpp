// Derives a HuggingFace config from a native config, for a checkpoint that has only a Megatron
// run's arguments. Pure.
#pragma once

#include "common/error.hpp"
#include "common/json.hpp"
#include "worker/families/family.hpp"

namespace roll::families {

// Returns the HuggingFace config from which native_config() derives `native`. Fields that `native`
// lacks take the family's defaults. Fails with InvalidArgument if no config of this family gives
// the fields of `native`; the message names the first that differs. Ignores fields that describe a
// run, not its model (dropout, losses).
Result<Json> hf_config_of(const Family& family, const Json& native);

}  // namespace roll::families
