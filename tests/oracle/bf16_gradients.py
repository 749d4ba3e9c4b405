"""bf16_gradients.py START OPTIMIZER FILE COUNT LENGTH: how far bfloat16 gradients are from the true ones.

START is a HuggingFace directory, OPTIMIZER the roll/optimizer.safetensors of Roll's first step from there with beta1 0
and no clipping, so that its first moments are the gradients. FILE's first bytes are COUNT windows of LENGTH inputs.
Prints {"loss": [true, theirs], "off": {name: [ours, theirs]}}: |g - truth| / |truth| by Roll's parameter, theirs being
transformers in bfloat16, and the truth transformers in float64 over the weights rounded to bfloat16.
"""
import json
import os
import sys
from contextlib import nullcontext
from pathlib import Path

os.environ.update(HF_HUB_OFFLINE="1", TRANSFORMERS_VERBOSITY="error")
import torch
import transformers
from safetensors.torch import load_file
from torch.overrides import TorchFunctionMode


class Lift(TorchFunctionMode):
    """transformers computes norms, softmax and angles in float32 whatever the model's type: not here."""

    def __torch_function__(self, function, types, args=(), kwargs=None):
        if function is torch.Tensor.float:
            return args[0].double()
        lifted = lambda value: torch.float64 if value is torch.float32 else value
        return function(*map(lifted, args), **{key: lifted(value) for key, value in (kwargs or {}).items()})


def gradients(start, dtype, inputs, targets):
    """(loss, {native name: gradient in float64}) of the mean over all targets."""
    torch.set_default_dtype(dtype)
    with Lift() if dtype is torch.float64 else nullcontext():
        model = transformers.AutoModelForCausalLM.from_pretrained(start, attn_implementation="eager",
                                                                  dtype=torch.bfloat16).to(dtype)
        logits = model(inputs, use_cache=False).logits
        wide = logits if dtype is torch.float64 else logits.to(torch.float32)
        loss = torch.nn.functional.cross_entropy(wide.flatten(0, 1), targets.flatten())
        loss.backward()
    grads = {name: weight.grad.double() for name, weight in model.named_parameters()}
    return float(loss), native(grads, model.config)


def native(grads, config):
    """By Roll's names: linear_qkv has for each key group its queries, key and value, linear_fc1 the gate, then up."""
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
    truth_loss, truth = gradients(start, torch.float64, inputs, targets)
    their_loss, theirs = gradients(start, torch.bfloat16, inputs, targets)
    moments = load_file(optimizer)
    ours = {name.removesuffix(".exp_avg"): m.double() for name, m in moments.items() if name.endswith(".exp_avg")}
    assert ours.keys() == truth.keys(), ours.keys() ^ truth.keys()
    off = lambda found, name: float((found[name] - truth[name]).norm() / truth[name].norm())
    told = {name: [off(ours, name), off(theirs, name)] for name in truth}
    print(json.dumps({"loss": [truth_loss, their_loss], "off": told}))


main(*sys.argv[1:])
