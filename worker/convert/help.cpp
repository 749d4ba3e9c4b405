#include "worker/convert/options.hpp"

namespace roll::convert {

std::string help_text() {
    return R"(roll-convert: checkpoints from one format, layout or type to another. No Python, no GPU.

  roll-convert convert SRC DST [options]    HuggingFace -> MCA, anything else -> HuggingFace
      --to hf|bin|mca|torch_dist|dcp|fsdp_dtensor|megatron|nemo     bin: pytorch_model.bin
      --config MODEL                        whose config a source has that has none itself: a
                                            directory, or a family's name (Megatron's arguments)
      --strictness MODE                     where tensors and model disagree: raise_all (the
                                            default) and Megatron's seven others
      --state fp32_param                    of the optimizer (torch_dist), instead of the weights
      --dtype keep|fp32|bf16|fp16           cast every floating weight (--bf16, --fp16)
      --dtype fp8                           linear layers in blocks of 128 x 128 with scales (hf)
      --tp N --pp N --vpp N --ep N --etp N  the layout of an MCA or Megatron target
      --layout STR                          its pipeline layout, e.g. "E,t*3|t*4,L"
      --decoder-first-pipeline-num-layers N, --decoder-last-pipeline-num-layers N
      --name WORD                           in a NeMo target's configs; DST.nemo is an archive
      --make-vocab-size-divisible-by N      rows of zeros in an MCA, Megatron, NeMo target
      --checkpoint-version 0|1|2|3          of a Megatron target: below 3 as before its core
      --mtp-layer-name NAME                 of mca, megatron, torch_dist: transformer_layer, or
                                            mtp_model_layer for Megatron from 0.17 on
      --max-shard-size 5GB                  of a HuggingFace target's files
      --reuse DIR                           an earlier target: files that are the same are linked
      --part I/N --run WORD                 N processes write one target: each its files
      --threads N                           at most 4 of the machine's, unless given
      --overwrite --dry-run --verify --json
  roll-convert convert BASE DST --adapter DIR    LoRA adapters of BASE: PEFT -> MCA, MCA -> PEFT
  roll-convert merge BASE ADAPTER DST       a LoRA adapter into its base; the same options, and
      --unmerge                             out of a model that it was merged into
  roll-convert inspect DIR [--json]         what a checkpoint holds
      --tensor NAME                         what the numbers of one of its model are like
  roll-convert verify DIR [--json]          every tensor there, replicas equal, bytes as written
  roll-convert diff A B [--cast] [--json]   two checkpoints of any formats, tensor by tensor
  roll-convert rename SRC DST OLD=NEW...    tensors of any checkpoint by name; * is any text
  roll-convert remove SRC DST NAME...       tensors left out
  roll-convert families [check FILE]        model families known, or what is wrong with a file
  roll-convert --launch FILE                as a job, under roll-worker

With --submit rollctl queues a conversion or merge as a job instead: --wait, --follow, --nodes N
(which write one target together), --after ok:ID, --hold, --name and --time as with rollctl submit.
rollctl takes job:ID for a directory: the newest checkpoint of that job, which may still train.

The arguments of ROLL's tools/convert.py (--checkpoint_path, --output_path, ...) and of trlX's
converter (--model_path, --output_folder, --total_tp, --name) work as well.
)";
}

}  // namespace roll::convert
