"""lora_steps.py OUT: eight LoRA training steps of tiny models as PEFT computes them, in float64 throughout.

For each of CASES, OUT/NAME/weight is the base, a HuggingFace directory; OUT/NAME/start and OUT/NAME/trained are PEFT's
adapters before the first and after the last step, and told.safetensors has `loss` and `norm` (one number a step),
`ids` and `targets` [step, row, position], and `logits` of the first step's ids with the trained adapter. B does not
start at 0, so that the first gradients of A are not 0.
"""
import shutil
import sys
from pathlib import Path

import numpy
import peft
import torch
from family_steps import BETAS, CLIP, DECAY, EPS, LR, ROWS, VOCAB, make_model, save
from in_type import Lift
from safetensors.torch import save_file

STEPS, POSITIONS = 8, 19
# name: family, changes of the model's config, arguments of LoraConfig
CASES = {
    "llama": ("llama", {}, {"r": 4, "lora_alpha": 8, "target_modules": "all-linear"}),
    "qwen2": ("qwen2", {"tie_word_embeddings": True},
              {"r": 3, "lora_alpha": 6, "use_rslora": True, "target_modules": ["q_proj", "v_proj", "down_proj"],
               "rank_pattern": {"down_proj": 2}, "alpha_pattern": {"v_proj": 3}}),
    "qwen3": ("qwen3", {"head_dim": 24}, {"r": 2, "lora_alpha": 5, "target_modules": ["k_proj", "o_proj", "up_proj"]}),
}


def train(model, ids, targets, told):
    trained = [weight for weight in model.parameters() if weight.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=LR, betas=BETAS, eps=EPS, weight_decay=DECAY, foreach=False)
    losses, norms = [], []
    for step in range(STEPS):
        logits = model(ids[step], use_cache=False).logits
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), targets[step].flatten(), ignore_index=-100)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        norms.append(torch.nn.utils.clip_grad_norm_(trained, CLIP, foreach=False))
        optimizer.step()
        losses.append(loss.detach())
    told |= {"loss": torch.stack(losses), "norm": torch.stack(norms)}
    with torch.no_grad():
        told["logits"] = model(ids[0], use_cache=False).logits


def main():
    out = Path(sys.argv[1])
    shutil.rmtree(out, ignore_errors=True)
    torch.set_num_threads(1)
    torch.set_default_dtype(torch.float64)
    torch.use_deterministic_algorithms(True)
    with Lift():
        for number, (name, (family, changes, lora)) in enumerate(CASES.items()):
            base = make_model(number, family, changes)
            save(base, out / name / "weight")
            model = peft.get_peft_model(base, peft.LoraConfig(task_type="CAUSAL_LM", **lora))
            with torch.no_grad():
                for key, weight in model.named_parameters():
                    if "lora_B" in key:
                        weight.normal_(std=0.1)
            model.save_pretrained(out / name / "start")
            tokens = torch.from_numpy(numpy.random.default_rng(7).integers(0, VOCAB, (STEPS, ROWS, POSITIONS + 1)))
            ids, targets = tokens[:, :, :-1], tokens[:, :, 1:].clone()
            targets[:, 1, :5] = -100
            told = {"ids": ids, "targets": targets}
            train(model, ids, targets, told)
            model.save_pretrained(out / name / "trained")
            save_file({key: tensor.double().contiguous() for key, tensor in told.items()},
                      out / name / "told.safetensors")


if __name__ == "__main__":
    main()
