// PEFT's LoRA of parameters that stack all experts of a layer (`target_parameters`). gate_up_proj
// has one A [experts * r, in] and one B [out, r * experts], and so does down_proj. Expert e has the
// rows [e * r, (e + 1) * r) of A and the columns e, e + experts, ... of B.
#pragma once

#include "common/error.hpp"
#include "worker/convert/checkpoint/source.hpp"
#include "worker/formats/peft.hpp"

namespace roll::convert {

// Keys of an adapter's config. A PEFT config lists its stacked parameters under kParameters. A
// native adapter instead has one LoRA per expert. It stores the list under kParametersKept, for the
// conversion back to PEFT.
constexpr const char* kParameters = "target_parameters";
constexpr const char* kParametersKept = "hf_target_parameters";

// Replaces each stacked module of `adapter` by one module per expert and HuggingFace tensor. The
// new modules are views of the same bytes. use_tensors() must have listed the tensors of `base`.
// Fails with InvalidArgument if a module's sizes do not match the experts of `base`. Fails with
// Corrupt if a module's rank differs from the rank in the config.
Result<void> split_experts(formats::Adapter& adapter, const Source& base);

// Reverses split_experts() for the parameters in the config's target_parameters. Joins the modules
// of a layer's experts into one stacked module, if they have the same rank and scale. Returns the
// adapter with all other modules unchanged.
formats::Adapter join_experts(const formats::Adapter& adapter, const Source& base);

}  // namespace roll::convert
