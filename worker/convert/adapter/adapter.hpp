// LoRA adapters of a native (Megatron) model. A fused native tensor (linear_qkv, linear_fc1) has
// one LoRA, while PEFT has a LoRA for each HuggingFace module of the fused tensor. Adapters are
// small and are held in memory completely.
//
// The LoRA of a fused tensor has a single A. If PEFT's modules have different A's, or if some
// modules have no LoRA, the modules' A's are stacked by rows. The LoRA rank of the fused tensor is
// then the sum of the modules' ranks. In the fused B, each module has its own columns: the module's
// rows are zero in the columns of other modules. When Roll reads a module's B from the fused B, it
// drops the columns of zeros, so the conversion is exact in both directions.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "common/error.hpp"
#include "worker/convert/checkpoint/source.hpp"
#include "worker/convert/read/adapter_place.hpp"
#include "worker/formats/peft.hpp"

namespace roll::convert {

// Opens the config and the tensor names of the adapters' base model, but not its tensors. Looks for
// the config in `base_directory` or, if that is empty, in `config`. If both are empty, looks first
// in `adapters`, then in the directory that the adapters' config gives for the base model.
Result<Source> open_base(const std::filesystem::path& base_directory,
                         const std::filesystem::path& config, const std::filesystem::path& adapters,
                         const families::Families& families);

// Reads a native or PEFT adapter. The modules of the result have HuggingFace names. `base` has the
// model's config and tensor names, as set by use_tensors(). If `base` has no tensors, modules that
// stack experts remain stacked. Fails with Corrupt or InvalidArgument if the adapter does not fit
// `base`.
Result<formats::Adapter> open_adapter(const AdapterPlace& place, const Source& base);

// The LoRA parameters of one native module. adapter_config.json stores them.
struct NativeLora {
    // such as "decoder.layers.0.mlp.linear_fc1", with the layer's number in the whole model
    std::string module;
    std::int64_t lora_rank = 0;
    double scale = 0;
    // true: `module` is the name of a parameter in target_parameters, and not of a module
    bool parameter = false;
};

struct NativeAdapter {
    Source source;  // source.native lists the adapter's tensors
    std::vector<NativeLora> modules;
    std::vector<std::string> whole;  // native modules that are saved completely (modules_to_save)
};

// Converts an adapter with HuggingFace names to a native adapter. Fails with InvalidArgument if a
// module is not part of any native tensor, or if the modules of a fused tensor cannot share one
// LoRA.
Result<NativeAdapter> to_native(const formats::Adapter& adapter, const Source& base);

}  // namespace roll::convert
