// The formats of checkpoints and their names.
#pragma once

#include <string>

#include "common/error.hpp"

namespace roll::convert {

// The format of a checkpoint. Bin is HuggingFace with torch files instead of safetensors.
// FsdpDtensor is Megatron's FSDP. Bin and FsdpDtensor are formats of targets only: a source in the
// form of Bin is opened as Hf, and a source in the form of FsdpDtensor as Dcp.
enum class Format { Hf, Bin, Mca, TorchDist, Dcp, FsdpDtensor, Megatron, Nemo, Peft, DeepSpeed };

const char* name_of(Format format);

// Parses a name such as "hf", "mca", "torch_dist" or "dcp". Fails with InvalidArgument; the message
// lists the formats that a target can have.
Result<Format> parse_format(const std::string& name);

}  // namespace roll::convert
