"""optimizer_steps.py OUT: STEPS updates of a few parameters with each of CASES, in float64.

OUT/NAME.safetensors has the parameters before the first and after the last update, and their gradients [step, ...]:
"start.P", "end.P" and "grad.P", and "lr" and "clip" by step. The rules are torch.optim's; Lion is its paper's formula,
Adafactor is transformers', and AdamW with 8-bit states is written from bitsandbytes' formulas and code tables.
torch's Muon rounds to bfloat16 in its iterations, which is switched off. With Muon, vectors and the embedding have
AdamW.
"""
import sys
from pathlib import Path

import torch
import transformers
from safetensors.torch import save_file

STEPS, DECAY = 6, 0.1
SHAPES = {"q": (24, 16), "k": (12, 16), "v": (12, 16), "gate": (20, 16), "up": (20, 16), "o": (16, 24),
          "norm": (16,), "embed": (29, 16)}
MATRICES = ("q", "k", "v", "gate", "up", "o")
CASES = ("adam", "sgd", "sgd-momentum", "sgd-nesterov", "lion", "muon", "muon-match", "muon-plain", "adafactor",
         "adafactor-scaled", "adamw8", "adamw-bf16", "ema")
# Of these, qkv and fc1 have 8-bit states; o is too small, and an embedding has none. Blocks cross rows and parameters
# of HuggingFace.
WIDE = {"q": (24, 120), "k": (12, 120), "v": (12, 120), "gate": (20, 120), "up": (20, 120), "o": (120, 24),
        "norm": (120,), "embed": (40, 120)}


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


def code_table(signed):
    """bitsandbytes.functional.create_dynamic_map."""
    values = [0.0, 1.0]
    for i in range(7):
        borders = torch.linspace(0.1, 1, 2 ** (i if signed else i + 1) + 1)
        means = 10.0 ** (i - 6) * (borders[:-1] + borders[1:]) / 2
        values += means.tolist() + (-means).tolist() * signed
    return torch.tensor(sorted(values), dtype=torch.float32).double()


class AdamW8bit(torch.optim.Optimizer):
    """kOptimizerStatic8bit2StateBlockwise of bitsandbytes, for the whole matrices that Roll fuses: qkv by key groups,
    and gate and up (fused())."""

    def __init__(self, groups, fused):
        super().__init__(groups, {"lr": 1.0, "betas": (0.9, 0.95), "eps": 1e-8})
        self.fused, self.tables, self.states, self.count = fused, (code_table(True), code_table(False)), {}, 0

    @staticmethod
    def blocks(flat):
        return torch.nn.functional.pad(flat, (0, -len(flat) % 256)).view(-1, 256)

    def encode(self, values, table, signed):
        blocks = self.blocks(values)
        most = blocks.abs().amax(1, keepdim=True)
        scaled = blocks / most.clamp(min=1e-300)
        code = torch.bucketize(scaled, ((table[1:].float() + table[:-1].float()) / 2).double())
        if signed:  # the code has the sign of the value
            wrong = torch.signbit(table[code]) != torch.signbit(scaled)
            code = torch.where(wrong, torch.where(scaled > 0, code + 1, code - 1), code)
        return (table[code] * most).flatten()[:len(values)]

    @torch.no_grad()
    def step(self):
        self.count += 1
        (beta1, beta2), eps, rate = self.defaults["betas"], self.defaults["eps"], self.param_groups[0]["lr"]
        root = (1 - beta2**self.count) ** 0.5
        for name, (parts, join, split) in self.fused.items():
            grad, weight = join([part.grad for part in parts]).flatten(), join(parts).flatten()
            first, second = self.states.get(name, (torch.zeros_like(grad), torch.zeros_like(grad)))
            first, second = beta1 * first + (1 - beta1) * grad, beta2 * second + (1 - beta2) * grad * grad
            weight = weight - rate * root / (1 - beta1**self.count) * first / (second.sqrt() + root * eps)
            weight = weight * (1 - rate * DECAY)
            for part, moved in zip(parts, split(weight)):
                part.copy_(moved)
            self.states[name] = self.encode(first, self.tables[0], True), self.encode(second, self.tables[1], False)


class AdamWBf16(torch.optim.Optimizer):
    """torch.optim.AdamW, with both moments rounded to bfloat16 after each step. The random bits are a hash of the step
    and of the element's index in the whole matrices that Roll fuses."""

    def __init__(self, groups, fused):
        super().__init__(groups, {})
        self.fused = fused
        self.plain = torch.optim.AdamW(groups, betas=(0.9, 0.95), eps=1e-8, foreach=False)

    @staticmethod
    def bits(count, step):
        def times(x, factor):
            return x * factor & 0xFFFFFFFF
        x = times(torch.arange(count), 0x9E3779B1) + times(torch.tensor(step), 0xC2B2AE3D) & 0xFFFFFFFF
        x = times(x ^ x >> 16, 0x85EBCA6B)
        x = times(x ^ x >> 13, 0xC2B2AE35)
        return x ^ x >> 16

    @staticmethod
    def rounded(values, bits):
        whole = values.float().view(torch.int32).long() & 0xFFFFFFFF
        high = (whole + bits & 0xFFFF0000) >> 16
        return high.to(torch.uint16).view(torch.bfloat16).double()

    @torch.no_grad()
    def step(self):
        self.plain.step()
        for parts, join, split in self.fused.values():
            states = [self.plain.state[part] for part in parts]
            step = int(states[0]["step"])
            for name, shift in (("exp_avg", 0), ("exp_avg_sq", 16)):
                flat = join([state[name] for state in states]).flatten()
                bits = self.bits(len(flat), step) >> shift & 0xFFFF
                for state, part in zip(states, split(self.rounded(flat, bits))):
                    state[name].copy_(part)


def fused(named):
    """The matrices with 8-bit states: HuggingFace's tensors, and how they are joined and split."""
    kv_heads, width = 2, named["q"].shape[1]

    def join_qkv(parts):
        return torch.cat([part.view(kv_heads, -1, width) for part in parts], 1)

    def split_qkv(flat):
        parts = flat.view(kv_heads, -1, width).split([12, 6, 6], 1)
        return [part.reshape(-1, width) for part in parts]

    return {"qkv": ([named[name] for name in "qkv"], join_qkv, split_qkv),
            "fc1": ([named["gate"], named["up"]], torch.cat, lambda flat: flat.view(-1, width).chunk(2))}


def optimizers(case, named):
    decaying = [weight for name, weight in named.items() if name != "norm"]
    groups = [{"params": decaying, "weight_decay": DECAY}, {"params": [named["norm"]], "weight_decay": 0.0}]
    kind, *rest = case.split("-")
    if kind in ("adam", "ema"):
        return [torch.optim.Adam(groups, betas=(0.9, 0.95), eps=1e-8)]
    if kind == "sgd":
        return [torch.optim.SGD(groups, lr=1.0, momentum=0.9 if rest else 0.0, nesterov=rest == ["nesterov"])]
    if kind == "adafactor":
        options = {"scale_parameter": True, "clip_threshold": 0.5, "decay_rate": -0.5} if rest else {
            "scale_parameter": False}
        return [transformers.Adafactor(groups, lr=1.0, relative_step=False, **options)]
    if kind == "adamw8":
        small = [{"params": [named[name] for name in ("o", "embed")], "weight_decay": DECAY},
                 {"params": [named["norm"]], "weight_decay": 0.0}]
        coded = fused(named)
        return [AdamW8bit([part for parts, _, _ in coded.values() for part in parts], coded),
                torch.optim.AdamW(small, betas=(0.9, 0.95), eps=1e-8, foreach=False)]
    if case == "adamw-bf16":
        alone = {name: ([named[name]], lambda parts: parts[0], lambda flat, n=name: [flat.view(SHAPES[n])])
                 for name in ("o", "norm", "embed")}
        return [AdamWBf16(groups, fused(named) | alone)]
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
    shapes = WIDE if case == "adamw8" else SHAPES
    named = {name: torch.randn(shape) for name, shape in shapes.items()}
    grads = {name: torch.randn((STEPS, *shape)) for name, shape in shapes.items()}
    rates, clips = torch.linspace(1e-2, 3e-2, STEPS), torch.linspace(1, 0.5, STEPS)
    told = {f"start.{name}": weight.clone() for name, weight in named.items()}
    told |= {f"grad.{name}": grad for name, grad in grads.items()} | {"lr": rates, "clip": clips}
    every = optimizers(case, named)
    means = {name: weight.clone() for name, weight in named.items()}
    update_means = torch.optim.swa_utils.get_ema_multi_avg_fn(0.7)
    for step in range(STEPS):
        for name, weight in named.items():
            weight.grad = grads[name][step] * clips[step]
        for optimizer in every:
            for group in optimizer.param_groups:
                group["lr"] = rates[step].item()
            optimizer.step()
        if case == "ema" and step % 2 == 1:
            update_means(list(means.values()), list(named.values()), step)
    told |= {f"mean.{name}": mean for name, mean in means.items() if case == "ema"}
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
