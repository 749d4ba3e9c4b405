"""sft_gradients.py START LINES LENGTH (OPTIMIZER RULE)..: steps that learn completions, as transformers computes them.

START is a HuggingFace directory. LINES is a .jsonl of prompts and completions whose bytes are the tokens; each is a
sequence alone of at most LENGTH + 1 tokens, and labels of prompts are -100. RULE says what is left of a longer one
(data.truncate), or is `wrapped`: all tokens in one text, of which each sequence has LENGTH inputs. OPTIMIZER is
roll/optimizer/rank-00000.safetensors of Roll's first step from START with that rule, beta1 0 and no clipping, so that
its first moments are the gradients. Prints for each {"loss", "tokens", "off": {name: max |g - truth| / max |truth|}},
in float64 throughout.
"""
import json
import sys
from pathlib import Path

import torch
import transformers
from in_type import Lift
from safetensors.torch import load_file


def native(grads, config):
    """In float64 by Roll's names: linear_qkv has for each key group its queries, key and value; linear_fc1 the gate,
    then up."""
    grads = {name: grad.double() for name, grad in grads.items()}
    told = {"embedding.word_embeddings.weight": grads["model.embed_tokens.weight"],
            "decoder.final_layernorm.weight": grads["model.norm.weight"]}
    if "lm_head.weight" in grads:
        told["output_layer.weight"] = grads["lm_head.weight"]
    for layer in range(config.num_hidden_layers):
        get = lambda name: grads[f"model.layers.{layer}.{name}.weight"]
        groups = [get(f"self_attn.{head}_proj").unflatten(0, (config.num_key_value_heads, -1)) for head in "qkv"]
        told |= {f"decoder.layers.{layer}.{name}": tensor for name, tensor in {
            "self_attention.linear_qkv.layer_norm_weight": get("input_layernorm"),
            "self_attention.linear_qkv.weight": torch.cat(groups, 1).flatten(0, 1),
            "self_attention.linear_proj.weight": get("self_attn.o_proj"),
            "mlp.linear_fc1.layer_norm_weight": get("post_attention_layernorm"),
            "mlp.linear_fc1.weight": torch.cat([get("mlp.gate_proj"), get("mlp.up_proj")]),
            "mlp.linear_fc2.weight": get("mlp.down_proj")}.items()}
    return told


def sequences(pairs, most, rule):
    """Yields tokens and labels of each sequence."""
    whole = [(list(prompt + completion), [-100] * len(prompt) + list(completion)) for prompt, completion in pairs]
    if rule == "wrapped":
        ids, labels = (sum(lists, []) for lists in zip(*whole))
        for at in range(0, len(ids) - 1, most - 1):
            # the first token of a sequence was predicted in the sequence before
            yield ids[at:at + most], [-100] + labels[at + 1:at + most]
        return
    for (ids, labels), (prompt, _) in zip(whole, pairs):
        over = max(len(ids) - most, 0)
        first = {"end": 0, "start": over, "prompt": min(over, max(len(prompt) - 1, 0)), "split": 0}[rule]
        yield ids[first:first + most], labels[first:first + most]
        for at in range(most, len(ids) if rule == "split" else 0, most):
            yield ids[at:at + most], labels[at:at + most]


def step(start, optimizer, pairs, most, rule):
    total, tokens = 0.0, 0
    with Lift():
        model = transformers.AutoModelForCausalLM.from_pretrained(start, attn_implementation="eager",
                                                                  dtype=torch.float64)
        for ids, labels in sequences(pairs, most, rule):
            ids, labels = torch.tensor([ids]), torch.tensor([labels])
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
    return {"loss": float(loss), "tokens": tokens, "off": off}


def main(start, lines, length, *steps):
    torch.set_default_dtype(torch.float64)
    pairs = [(pair["prompt"].encode(), pair["completion"].encode())
             for pair in map(json.loads, Path(lines).read_text(encoding="utf-8").splitlines())]
    print(json.dumps([step(start, optimizer, pairs, int(length) + 1, rule)
                      for optimizer, rule in zip(steps[::2], steps[1::2], strict=True)]))


main(*sys.argv[1:])
