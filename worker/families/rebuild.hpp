// Derives a HuggingFace config from a native config, for a checkpoint that has only a Megatron
// run's arguments. Pure.
#pragma once

#include "common/error.hpp"
#include "common/json.hpp"
#include "worker/families/family.hpp"

namespace roll::families {

// The inverse of native_config(), from native fields alone; missing fields take the family's
// defaults. Fails with InvalidArgument and the first differing field if no config of this family
// gives these fields. Ignores fields that only a run has (dropout, losses).
Result<Json> hf_config_of(const Family& family, const Json& native);

}  // namespace roll::families
