// The formats of checkpoints, with their names.
#pragma once

#include <string>

#include "common/error.hpp"

namespace roll::convert {

// The format of a checkpoint. Bin is HuggingFace with torch files instead of safetensors, and
// FsdpDtensor is Megatron's FSDP. Both are formats of targets only, because Roll opens a source of
// these kinds as Hf or Dcp.
enum class Format { Hf, Bin, Mca, TorchDist, Dcp, FsdpDtensor, Megatron, Nemo, Peft, DeepSpeed };

const char* name_of(Format format);

// Parses "hf", "mca", "torch_dist", "dcp", ... Fails with InvalidArgument; the message lists the
// formats that a target can have.
Result<Format> parse_format(const std::string& name);

}  // namespace roll::convert
