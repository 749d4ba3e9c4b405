"""llama_steps.py OUT: ten training steps of two tiny llamas as transformers computes them, in float64 throughout.

Writes OUT/index.json, {name: [offset, shape]}, and OUT/data.bin, little-endian float64. Names begin with `untied.` or
`tied.`: `weight.N`, `grad.N` (of the first step) and `trained.N` for each parameter N of transformers', `loss` and
`norm` (one number a step), `ids` and `targets` [step, row, position] (-100 does not count), `prompt` and `greedy`.
"""
import json
import os
import sys
from pathlib import Path

os.environ.update(HF_HUB_OFFLINE="1", TRANSFORMERS_VERBOSITY="error")
import numpy
import torch
import transformers
from torch.overrides import TorchFunctionMode

STEPS, ROWS, POSITIONS, VOCAB = 10, 4, 19, 256
LR, BETAS, EPS, DECAY, CLIP = 1e-2, (0.9, 0.95), 1e-8, 0.1, 1.0


class Lift(TorchFunctionMode):
    """transformers computes norms, softmax and angles in float32 whatever the model's type: not here."""

    def __torch_function__(self, function, types, args=(), kwargs=None):
        if function is torch.Tensor.float:
            return args[0].double()
        lifted = lambda value: torch.float64 if value is torch.float32 else value
        return function(*map(lifted, args), **{key: lifted(value) for key, value in (kwargs or {}).items()})


def make_model(tied):
    config = transformers.LlamaConfig(
        hidden_size=64, intermediate_size=176, num_hidden_layers=3, num_attention_heads=4, num_key_value_heads=2,
        head_dim=16, vocab_size=VOCAB, max_position_embeddings=64, tie_word_embeddings=tied, rms_norm_eps=1e-6,
        rope_theta=10000.0, initializer_range=0.1, bos_token_id=1, eos_token_id=None)
    torch.manual_seed(1 + tied)
    model = transformers.AutoModelForCausalLM.from_config(config, attn_implementation="eager", dtype=torch.float64)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if weight.ndim == 1:
                weight.add_(torch.randn_like(weight) * 0.1)
    return model.train()


def make_optimizer(model):
    weights = list(model.parameters())
    groups = [{"params": [w for w in weights if w.ndim > 1], "weight_decay": DECAY},
              {"params": [w for w in weights if w.ndim == 1], "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, lr=LR, betas=BETAS, eps=EPS, foreach=False)


def train(model, ids, targets, told):
    optimizer = make_optimizer(model)
    losses, norms = [], []
    for step in range(STEPS):
        logits = model(ids[step], use_cache=False).logits
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), targets[step].flatten(), ignore_index=-100)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        if step == 0:
            told |= {"grad." + name: weight.grad.clone() for name, weight in model.named_parameters()}
        norms.append(torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP, foreach=False))
        optimizer.step()
        losses.append(loss.detach())
    told |= {"loss": torch.stack(losses), "norm": torch.stack(norms)}
    told |= {"trained." + name: weight.detach() for name, weight in model.named_parameters()}


def greedy(model, prompt, count):
    ids = prompt
    for _ in range(count):
        ids = torch.cat([ids, model(ids, use_cache=False).logits[:, -1:].argmax(-1)], dim=1)
    return ids


def compute(tied):
    model = make_model(tied)
    random = numpy.random.default_rng(7)
    tokens = torch.from_numpy(random.integers(0, VOCAB, (STEPS, ROWS, POSITIONS + 1)))
    ids, targets = tokens[:, :, :-1], tokens[:, :, 1:].clone()
    targets[:, 1, :5] = -100
    told = {"weight." + name: weight.detach().clone() for name, weight in model.named_parameters()}
    with torch.no_grad():
        told |= {"prompt": ids[0, :1, :7], "greedy": greedy(model, ids[0, :1, :7], 24)}
    told |= {"ids": ids, "targets": targets}
    train(model, ids, targets, told)
    return told


def main():
    out = Path(sys.argv[1])
    out.mkdir(parents=True, exist_ok=True)
    torch.set_default_dtype(torch.float64)
    torch.use_deterministic_algorithms(True)
    index, offset = {}, 0
    with Lift(), open(out / "data.bin", "wb") as file:
        for tied in (False, True):
            for name, tensor in compute(tied).items():
                index[("tied." if tied else "untied.") + name] = [offset, list(tensor.shape)]
                offset += tensor.numel()
                file.write(tensor.contiguous().numpy().astype("<f8").tobytes())
    (out / "index.json").write_text(json.dumps(index))


main()
