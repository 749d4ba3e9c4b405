"""sft_gradients.py START OPTIMIZER LINES LENGTH: the step that learns completions, as transformers computes it.

START is a HuggingFace directory, OPTIMIZER roll/optimizer/rank-00000.safetensors of Roll's first step from there with
beta1 0 and no clipping, so that its first moments are the gradients. LINES is a .jsonl of prompts and
completions whose bytes are the tokens; each is a sequence alone, cut off after LENGTH + 1 tokens, and labels
of prompts are -100. Prints {"loss", "tokens", "off": {name: max |g - truth| / max |truth|}}, in float64 throughout.
"""
import json
import sys
from pathlib import Path

import torch
import transformers
from bf16_gradients import native
from in_type import Lift
from safetensors.torch import load_file


def main(start, optimizer, lines, length):
    torch.set_default_dtype(torch.float64)
    total, tokens = 0.0, 0
    with Lift():
        model = transformers.AutoModelForCausalLM.from_pretrained(start, attn_implementation="eager",
                                                                  dtype=torch.float64)
        for line in Path(lines).read_text(encoding="utf-8").splitlines():
            pair = json.loads(line)
            prompt, completion = pair["prompt"].encode(), pair["completion"].encode()
            ids = torch.tensor([list(prompt + completion)[:int(length) + 1]])
            labels = ids.clone()
            labels[:, :len(prompt)] = -100
            count = int((labels[:, 1:] != -100).sum())
            if count:
                total = total + model(ids, labels=labels, use_cache=False).loss * count
                tokens += count
        loss = total / tokens
        loss.backward()
    truth = native({name: weight.grad for name, weight in model.named_parameters()},
                   transformers.AutoConfig.from_pretrained(start))
    ours = {name.removesuffix(".exp_avg"): m for name, m in load_file(optimizer).items() if name.endswith(".exp_avg")}
    assert ours.keys() == truth.keys(), ours.keys() ^ truth.keys()
    off = {name: float((ours[name] - truth[name]).abs().max() / truth[name].abs().max()) for name in truth}
    print(json.dumps({"loss": float(loss), "tokens": tokens, "off": off}))


main(*sys.argv[1:])
