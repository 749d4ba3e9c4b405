// LoRA adapters of a native model: one for a fused tensor (linear_qkv, linear_fc1) where PEFT has
// one for each HuggingFace module. Adapters are small: they are held in memory whole.
//
// B A of a fused tensor has one A. Where PEFT's modules have different ones, or some have none, the
// fused rank is the sum of theirs: the A's lie one above the other, each B in its own columns, with
// zeros elsewhere. Read back, columns of zeros are left out, so that both ways are exact.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "common/error.hpp"
#include "worker/convert/source.hpp"
#include "worker/formats/peft.hpp"

namespace roll::convert {

struct AdapterPlace {
    std::string name;  // "default", or of the folder
    std::filesystem::path directory;
    bool native = false;  // a checkpoint of ranks' files; else PEFT's
};

// A directory with an adapter_config.json, or with folders that have one; empty: neither.
std::vector<AdapterPlace> find_adapters(const std::filesystem::path& directory);

// With HuggingFace's modules, whichever it is on disk. `base`: the model's config and tensors'
// names, as use_tensors() leaves them; without tensors stacked modules stay stacked. Corrupt or
// InvalidArgument names what does not fit it.
Result<formats::Adapter> open_adapter(const AdapterPlace& place, const Source& base);

// What a native module's LoRA is, for its config.
struct NativeLora {
    std::string module;  // "decoder.layers.0.self_attention.linear_qkv", layer of the whole model
    std::int64_t lora_rank = 0;
    double scale = 0;
    bool parameter = false;  // one of target_parameters, no module
};

struct NativeAdapter {
    Source source;  // its native tensors are the adapter's
    std::vector<NativeLora> modules;
    std::vector<std::string> whole;  // native modules saved whole
};

// InvalidArgument: a module that no native tensor is made of, or modules of one fused tensor that
// cannot share one LoRA.
Result<NativeAdapter> to_native(const formats::Adapter& adapter, const Source& base);

}  // namespace roll::convert
