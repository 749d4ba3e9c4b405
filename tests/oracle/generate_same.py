#!/usr/bin/env python3
"""Greedy continuations of a HuggingFace directory: `roll-rank generate` against transformers, token for token.

    generate_same.py ROLL_RANK DIR [--tokens N]      both in float32; exits with 0 if all are equal
"""
import argparse
import json
import os
import subprocess
import sys
import time

os.environ.update(HF_HUB_OFFLINE="1", TRANSFORMERS_VERBOSITY="error")
import torch
import transformers

PROMPTS = ["The capital of France is", "def fibonacci(n):\n", "Once upon a time", "1, 2, 3, 4,", "Die Katze sitzt",
           "Water boils at", "<|im_start|>user\nWhat is gravity?<|im_end|>\n<|im_start|>assistant\n"]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("rank")
    parser.add_argument("directory")
    parser.add_argument("--tokens", type=int, default=64)
    options = parser.parse_args()
    tokenizer = transformers.AutoTokenizer.from_pretrained(options.directory)
    model = transformers.AutoModelForCausalLM.from_pretrained(options.directory, dtype=torch.float32).eval()
    unequal = 0
    for prompt in PROMPTS:
        start = tokenizer(prompt, return_tensors="pt")
        begun = time.monotonic()
        ids = model.generate(**start, max_new_tokens=options.tokens, do_sample=False)[0]
        theirs = tokenizer.decode(ids, skip_special_tokens=True)
        seconds = time.monotonic() - begun
        begun = time.monotonic()
        said = subprocess.run([options.rank, "generate", options.directory, prompt, "--max-tokens",
                               str(options.tokens), "--json"], capture_output=True, text=True, check=True)
        ours = json.loads(said.stdout)["text"]
        before = tokenizer.decode(start["input_ids"][0], skip_special_tokens=True)
        same = before + ours == theirs
        unequal += not same
        print(f"{'same' if same else 'OTHER'}  {len(ids) - start['input_ids'].shape[1]:3} tokens  "
              f"transformers {seconds:5.1f} s, roll {time.monotonic() - begun:5.1f} s with its start  {prompt!r}")
        if not same:
            print(f"  transformers: {theirs!r}\n  roll:         {before + ours!r}")
    return 1 if unequal else 0


if __name__ == "__main__":
    sys.exit(main())
