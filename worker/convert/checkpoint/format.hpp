// The formats of checkpoints and their names.
#pragma once

#include <string>

#include "common/error.hpp"

namespace roll::convert {

// The format of a checkpoint. Bin is HuggingFace with torch files instead of safetensors.
// FsdpDtensor is Megatron's FSDP. Only a target can have the format Bin or FsdpDtensor: a source
// that consists of Bin files is opened with the format Hf, and an FsdpDtensor source with Dcp.
enum class Format { Hf, Bin, Mca, TorchDist, Dcp, FsdpDtensor, Megatron, Nemo, Peft, DeepSpeed };

const char* name_of(Format format);

// Parses a name such as "hf", "mca", "torch_dist" or "dcp". Fails with InvalidArgument; the message
// lists the formats that a target can have.
Result<Format> parse_format(const std::string& name);

}  // namespace roll::convert
