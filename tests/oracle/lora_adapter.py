"""lora_adapter.py BASE CHECKPOINT ADAPTER MERGED: reads a LoRA job's results with PEFT and transformers.

Loads the adapters of CHECKPOINT and of ADAPTER with PEFT on BASE, and MERGED, a model, with transformers. Prints the
largest differences: {"adapter": of the logits of both adapters, "base": of the logits with and without the adapter,
"merged": of the weights of MERGED and of PEFT's merge_and_unload, relative to the largest weight}.
"""
import json
import sys

import in_type  # noqa: F401  offline
import peft
import torch
import transformers


def load(directory):
    return transformers.AutoModelForCausalLM.from_pretrained(directory, dtype=torch.float32)


def main(base, checkpoint, adapter, merged):
    torch.set_num_threads(1)
    ids = torch.arange(2 * 24).remainder(97).view(2, 24)
    with torch.no_grad():
        logits = [peft.PeftModel.from_pretrained(load(base), path)(ids).logits for path in (checkpoint, adapter)]
        plain = load(base)(ids).logits
        wanted = peft.PeftModel.from_pretrained(load(base), checkpoint).merge_and_unload().state_dict()
        ours = load(merged).state_dict()
        assert ours.keys() == wanted.keys()
        off = max(float((ours[name] - wanted[name]).abs().max() / wanted[name].abs().max()) for name in wanted)
        print(json.dumps({"adapter": float((logits[0] - logits[1]).abs().max()),
                          "base": float((logits[0] - plain).abs().max()), "merged": off}))


main(*sys.argv[1:])
