// The way back from a native config: a HuggingFace config for a checkpoint that has none, from what
// a Megatron run says of its model. Pure.
#pragma once

#include "common/error.hpp"
#include "common/json.hpp"
#include "worker/families/family.hpp"

namespace roll::families {

// The inverse of native_config(), of native fields alone. What they do not say is as the family's
// defaults have it. InvalidArgument: no config of this family becomes these fields; it names the
// first that does not agree. Fields that only a run has (dropout, losses) need not.
Result<Json> hf_config_of(const Family& family, const Json& native);

}  // namespace roll::families
