#include "worker/convert/options.hpp"

namespace roll::convert {

std::string help_text() {
    return R"(roll-convert: converts checkpoints between formats, layouts and types. Needs no Python or GPU.

  roll-convert convert SRC DST [options]    HuggingFace -> MCA, anything else -> HuggingFace
      --to hf|bin|mca|torch_dist|dcp|fsdp_dtensor|megatron|nemo     bin: pytorch_model.bin
      --config MODEL                        the model's config, if the source has none: a
                                            directory, or a family's name (Megatron's arguments)
      --strictness MODE                     if tensors and model differ: raise_all (default) or
                                            one of Megatron's seven other modes
      --state fp32_param                    read this optimizer state (torch_dist), not weights
      --dtype keep|fp32|bf16|fp16           cast every floating weight (--bf16, --fp16)
      --dtype fp8                           quantize linear layers in 128 x 128 blocks (hf, bin)
      --tp N --pp N --vpp N --ep N --etp N  layout of an MCA or Megatron target
      --layout STR                          pipeline layout of the target: "E,t*3|t*4,L"
      --decoder-first-pipeline-num-layers N, --decoder-last-pipeline-num-layers N
      --name WORD                           name in a NeMo target's configs (DST.nemo: archive)
      --make-vocab-size-divisible-by N      pad the vocabulary (mca, megatron, nemo)
      --checkpoint-version 0|1|2|3          version of a Megatron target; 0 to 2: before its core
      --mtp-layer-name NAME                 (mca, megatron, torch_dist) transformer_layer, or
                                            mtp_model_layer for Megatron 0.17 and later
      --max-shard-size 5GB                  largest file of a HuggingFace target
      --reuse DIR                           link to identical files of an earlier target
      --part I/N --run WORD                 write part I of a target that N processes write
      --threads N                           default: the number of cores, at most 4
      --overwrite --dry-run --verify --json
  roll-convert convert BASE DST --adapter DIR    convert LoRA adapters of BASE: PEFT <-> MCA
  roll-convert merge BASE ADAPTER DST       merge a LoRA adapter into BASE; options of convert and
      --unmerge                             subtract an adapter that was merged into BASE
  roll-convert inspect DIR [--json]         list a checkpoint's tensors
      --tensor NAME                         print statistics of one tensor instead
  roll-convert verify DIR [--json]          check that tensors are complete and undamaged
  roll-convert diff A B [--cast] [--json]   compare two checkpoints of any formats by tensor
  roll-convert rename SRC DST OLD=NEW...    rename tensors; * matches any text
  roll-convert remove SRC DST NAME...       remove tensors; * matches any text
  roll-convert families [check FILE]        list the model families, or check a family file
  roll-convert --launch FILE                run as a job of roll-worker

With --submit, rollctl queues a conversion or merge as a job. It then takes --wait, --follow,
--nodes N (all write one target together), --after ok:ID, --hold, --name and --time, as rollctl
submit does. In rollctl, job:ID in place of a directory is the newest checkpoint of that job, which
may still be training.

Also accepts the arguments of ROLL's tools/convert.py (--checkpoint_path, --output_path, ...) and of
trlX's converter (--model_path, --output_folder, --total_tp, --name).
)";
}

}  // namespace roll::convert
