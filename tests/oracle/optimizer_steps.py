"""optimizer_steps.py OUT: STEPS updates of a few parameters with each of CASES, in float64.

OUT/NAME.safetensors has the parameters before the first and after the last update, and their gradients [step, ...]:
"start.P", "end.P" and "grad.P", and "lr" and "clip" by step. The rules are torch.optim's; Lion is its paper's formula.
torch's Muon rounds to bfloat16 in its iterations, which is switched off. With Muon, vectors and the embedding have
AdamW.
"""
import sys
from pathlib import Path

import torch
from safetensors.torch import save_file

STEPS, DECAY = 6, 0.1
SHAPES = {"q": (24, 16), "k": (12, 16), "v": (12, 16), "gate": (20, 16), "up": (20, 16), "o": (16, 24),
          "norm": (16,), "embed": (29, 16)}
MATRICES = ("q", "k", "v", "gate", "up", "o")
CASES = ("adam", "sgd", "sgd-momentum", "sgd-nesterov", "lion", "muon", "muon-match", "muon-plain")


class Lion(torch.optim.Optimizer):
    """Algorithm 2 of arXiv 2302.06675."""

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            (beta1, beta2), rate = group["betas"], group["lr"]
            for weight in group["params"]:
                average = self.state[weight].setdefault("exp_avg", torch.zeros_like(weight))
                mixed = beta1 * average + (1 - beta1) * weight.grad
                weight.sub_(rate * (mixed.sign() + group["weight_decay"] * weight))
                average.copy_(beta2 * average + (1 - beta2) * weight.grad)


def optimizers(case, named):
    decaying = [weight for name, weight in named.items() if name != "norm"]
    groups = [{"params": decaying, "weight_decay": DECAY}, {"params": [named["norm"]], "weight_decay": 0.0}]
    kind, *rest = case.split("-")
    if kind == "adam":
        return [torch.optim.Adam(groups, betas=(0.9, 0.95), eps=1e-8)]
    if kind == "sgd":
        return [torch.optim.SGD(groups, lr=1.0, momentum=0.9 if rest else 0.0, nesterov=rest == ["nesterov"])]
    if kind == "lion":
        return [Lion(groups, {"lr": 1.0, "betas": (0.9, 0.99)})]
    options = {"match": {"adjust_lr_fn": "match_rms_adamw"},
               "plain": {"nesterov": False, "momentum": 0.8, "ns_steps": 3}}
    others = [{"params": [named["embed"]], "weight_decay": DECAY}, {"params": [named["norm"]], "weight_decay": 0.0}]
    return [torch.optim.Muon([named[name] for name in MATRICES], weight_decay=DECAY,
                             **options.get(rest[0] if rest else "", {})),
            torch.optim.AdamW(others, betas=(0.9, 0.95), eps=1e-8, foreach=False)]


def run(case, out):
    torch.manual_seed(CASES.index(case))
    named = {name: torch.randn(shape) for name, shape in SHAPES.items()}
    grads = {name: torch.randn((STEPS, *shape)) for name, shape in SHAPES.items()}
    rates, clips = torch.linspace(1e-2, 3e-2, STEPS), torch.linspace(1, 0.5, STEPS)
    told = {f"start.{name}": weight.clone() for name, weight in named.items()}
    told |= {f"grad.{name}": grad for name, grad in grads.items()} | {"lr": rates, "clip": clips}
    every = optimizers(case, named)
    for step in range(STEPS):
        for name, weight in named.items():
            weight.grad = grads[name][step] * clips[step]
        for optimizer in every:
            for group in optimizer.param_groups:
                group["lr"] = rates[step].item()
            optimizer.step()
    told |= {f"end.{name}": weight for name, weight in named.items()}
    save_file({name: tensor.contiguous() for name, tensor in told.items()}, out / f"{case}.safetensors")


def main():
    out = Path(sys.argv[1])
    out.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(1)
    torch.set_default_dtype(torch.float64)
    torch.Tensor.bfloat16 = torch.Tensor.clone
    for case in CASES:
        run(case, out)


if __name__ == "__main__":
    main()
