// PEFT's LoRA of tensors that hold all experts of a layer (`target_parameters`): one A
// [experts * r, in] and one B [out, r * experts] for gate_up_proj, and one pair for down_proj.
// Expert e has rows [e * r, + r) of A, and every experts-th column of B from e.
#pragma once

#include "common/error.hpp"
#include "worker/convert/source.hpp"
#include "worker/formats/peft.hpp"

namespace roll::convert {

// A native adapter has LoRA of each expert; its config keeps under the second key that PEFT's was
// of target parameters.
constexpr const char* kParameters = "target_parameters";
constexpr const char* kParametersKept = "hf_target_parameters";

// Replaces the adapter's stacked modules by one module for each expert's HuggingFace tensor; views
// of the same bytes. Requires the base's tensors. InvalidArgument or Corrupt names a module whose
// sizes are not those of the base's experts, or whose rank is not the config's.
Result<void> split_experts(formats::Adapter& adapter, const Source& base);

// The reverse, of an adapter whose config has target_parameters: modules of experts that share one
// rank and scale become stacked ones. Others stay as they are.
formats::Adapter join_experts(const formats::Adapter& adapter, const Source& base);

}  // namespace roll::convert
