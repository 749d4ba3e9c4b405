// The formats of checkpoints, with their names.
#pragma once

#include <string>

#include "common/error.hpp"

namespace roll::convert {

// The format of a checkpoint. Bin is HuggingFace with torch files instead of safetensors, and
// FsdpDtensor is Megatron's FSDP. Only targets have these two formats, because a source in one of
// them counts as Hf or Dcp.
enum class Format { Hf, Bin, Mca, TorchDist, Dcp, FsdpDtensor, Megatron, Nemo, Peft, DeepSpeed };

const char* name_of(Format format);

// Parses "hf", "mca", "torch_dist", "dcp", ... Fails with InvalidArgument; the message lists the
// formats that a target can have.
Result<Format> parse_format(const std::string& name);

}  // namespace roll::convert
