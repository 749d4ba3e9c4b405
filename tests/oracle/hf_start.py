"""Tiny random HuggingFace llamas for a job to start from, and what transformers says of them.

make TOP DTYPE                               writes the model directories of STARTS below TOP
loss DIR DTYPE FILE LENGTH BEGIN:END ...     mean nats a byte of each FILE[BEGIN:END] in windows of LENGTH inputs
"""
import json
import sys
from contextlib import nullcontext
from pathlib import Path

import torch
import transformers
from in_type import Lift
from safetensors.torch import load_file

# name: the form of its rotary settings, whether its embedding is tied, the most bytes in a file
STARTS = {"plain": ("new", False, "5GB"), "sharded": ("new", False, "30KB"), "old": ("old", True, "5GB")}


def tensors_of(directory):
    found = {}
    for file in sorted(Path(directory).glob("*.safetensors")):
        found |= load_file(file)
    return found


def make(top, dtype):
    for name, form in STARTS.items():
        make_one(Path(top) / name, getattr(torch, dtype), *form)


def make_one(directory, dtype, rope, tied, file_size):
    config = transformers.LlamaConfig(
        hidden_size=32, intermediate_size=88, num_hidden_layers=3, num_attention_heads=4, num_key_value_heads=2,
        head_dim=12, vocab_size=260, max_position_embeddings=64, tie_word_embeddings=tied,
        rms_norm_eps=1e-6, rope_theta=500.0, initializer_range=0.1, bos_token_id=1, eos_token_id=None)
    torch.manual_seed(5)
    model = transformers.AutoModelForCausalLM.from_config(config, dtype=dtype)
    with torch.no_grad():
        for weight in model.parameters():
            if weight.ndim == 1:
                weight.add_(torch.randn_like(weight) * 0.1)
    model.save_pretrained(directory, max_shard_size=file_size)
    path = directory / "config.json"
    written = json.loads(path.read_text())
    theta = (written.pop("rope_parameters", None) or {}).get("rope_theta", written.pop("rope_theta", None))
    assert theta == 500.0, theta
    written |= {"rope_theta": theta, "rope_scaling": None} if rope == "old" else {
        "rope_parameters": {"rope_theta": theta, "rope_type": "default"}}
    path.write_text(json.dumps(written))


def loss(directory, dtype, file, length, *ranges):
    config = transformers.AutoConfig.from_pretrained(directory)
    dtype, length, tensors = getattr(torch, dtype), int(length), tensors_of(directory)
    torch.set_default_dtype(dtype)
    with Lift() if dtype is torch.float64 else nullcontext():
        model = transformers.AutoModelForCausalLM.from_config(config, attn_implementation="eager", dtype=dtype).eval()
        lost = model.load_state_dict({name: t.to(dtype) for name, t in tensors.items()}, strict=False)
        assert not lost.unexpected_keys and set(lost.missing_keys) <= {"lm_head.weight"}, lost
        model.tie_weights()
        for one in ranges:
            begin, end = map(int, one.split(":"))
            print(repr(loss_of(model, list(Path(file).read_bytes()[begin:end]), length)))


@torch.no_grad()
def loss_of(model, tokens, length):
    total, count = 0.0, 0
    for first in range(0, len(tokens) - 1, length):
        window = torch.tensor(tokens[first:first + length + 1])
        logp = model(window[None, :-1], use_cache=False).logits[0].double().log_softmax(-1)
        total -= float(logp.gather(1, window[1:, None]).sum())
        count += len(window) - 1
    return total / count


{"make": make, "loss": loss}[sys.argv[1]](*sys.argv[2:])
