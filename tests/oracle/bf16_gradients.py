"""bf16_gradients.py START OPTIMIZER FILE COUNT LENGTH: how far bfloat16 gradients are from the true ones.

START is a HuggingFace directory, OPTIMIZER roll/optimizer/rank-00000.safetensors of Roll's first step from there with
beta1 0 and no clipping, so that its first moments are the gradients. FILE's first bytes are COUNT windows of
LENGTH inputs. Prints {"loss": [true, theirs], "off": {name: [ours, theirs]}}: |g - truth| / |truth| by Roll's
parameter, theirs being transformers in bfloat16, and the truth transformers in float64 over the weights
rounded to bfloat16.
"""
import json
import sys
from pathlib import Path

import torch
from in_type import gradients
from safetensors.torch import load_file
from transformers import AutoConfig


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


def main(start, optimizer, file, count, length):
    count, length = int(count), int(length)
    text = torch.tensor(list(Path(file).read_bytes()[:count * length + 1]))
    inputs, targets = text[:-1].view(count, length), text[1:].view(count, length)
    config = AutoConfig.from_pretrained(start)
    truth_loss, truth = gradients(start, torch.float64, inputs, targets)
    their_loss, theirs = gradients(start, torch.bfloat16, inputs, targets)
    truth, theirs = native(truth, config), native(theirs, config)
    moments = load_file(optimizer)
    ours = {name.removesuffix(".exp_avg"): m.double() for name, m in moments.items() if name.endswith(".exp_avg")}
    assert ours.keys() == truth.keys(), ours.keys() ^ truth.keys()
    off = lambda found, name: float((found[name] - truth[name]).norm() / truth[name].norm())
    told = {name: [off(ours, name), off(theirs, name)] for name in truth}
    print(json.dumps({"loss": [truth_loss, their_loss], "off": told}))


if __name__ == "__main__":
    main(*sys.argv[1:])
