// PEFT's LoRA of parameters that stack all experts of a layer (`target_parameters`): one A [experts
// * r, in] and one B [out, r * experts] for gate_up_proj, and another pair for down_proj. Expert e
// has rows [e * r, (e + 1) * r) of A and the columns e, e + experts, ... of B.
#pragma once

#include "common/error.hpp"
#include "worker/convert/checkpoint/source.hpp"
#include "worker/formats/peft.hpp"

namespace roll::convert {

// Keys in an adapter's config. A PEFT config lists its stacked parameters under kParameters. A
// native adapter has LoRA for each expert instead, and keeps the list under kParametersKept only
// for converting back.
constexpr const char* kParameters = "target_parameters";
constexpr const char* kParametersKept = "hf_target_parameters";

// Replaces each stacked module of `adapter` by one module per expert and HuggingFace tensor. The
// new modules are views of the same bytes. Requires a `base` with its tensors listed. Fails with
// InvalidArgument if a module's sizes do not match the experts of `base`, and with Corrupt if a
// module's rank differs from the rank in the config.
Result<void> split_experts(formats::Adapter& adapter, const Source& base);

// Reverses split_experts() for the parameters in the config's target_parameters: joins modules of
// experts that share one rank and scale into a stacked module. Returns the adapter with the other
// modules unchanged.
formats::Adapter join_experts(const formats::Adapter& adapter, const Source& base);

}  // namespace roll::convert
