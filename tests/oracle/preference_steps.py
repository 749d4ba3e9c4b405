"""preference_steps.py OUT: training steps on preferences with the losses of TRL, in float64 throughout.

OUT/weight is the model before the first step, a HuggingFace directory. OUT/pairs.safetensors has `ids` [step,
sequence, position], `begin` (the answer's first token) and `length` of each sequence; sequences 2 k and 2 k + 1 are the
chosen and the rejected answer of pair k. Of kto, sequence k has the label `label`, and `kl_ids`, `kl_begin` and
`kl_length` are the mismatched sequences: each prompt with the answer of the sequence before. For each of CASES,
OUT/NAME/objective.json is the `objective` of a job, and OUT/NAME/told.safetensors has `loss` and `norm` of each step,
`references` and the means `rewards` [step, 2] of the chosen and the rejected answers; of kto also `kl_references` and
`kl` of each step; of reward-margin, `margins` [step, pair]. A reward model starts from OUT/NAME/weight. OUT/NAME/grad
has the gradients of the first step, OUT/NAME/trained the weights after the last.

The loss is TRL's source text: its trainers need pyarrow to be imported, and the loss of its DPOTrainer is part of a
longer function.
"""
import ast
import collections
import copy
import importlib.util
import json
import math
import shutil
import sys
import types
from pathlib import Path

import numpy
import torch
import torch.nn.functional as F
import transformers
from family_steps import CLIP, VOCAB, make_model, make_optimizer, save
from in_type import Lift
from safetensors.torch import save_file

STEPS, PAIRS, LONGEST = 10, 4, 21
PAD = VOCAB - 1  # in no answer
CASES = {
    "sigmoid": {"kind": "dpo"},
    "smoothed": {"kind": "cpo", "label_smoothing": 0.2, "nll_weight": 0, "beta": 0.3},
    "robust": {"kind": "dpo", "loss": "robust", "label_smoothing": 0.1, "beta": 0.4},
    "ipo": {"kind": "dpo", "loss": "ipo", "beta": 0.6},
    "hinge": {"kind": "dpo", "loss": "hinge", "beta": 0.25},
    "norm": {"kind": "dpo", "loss": "sigmoid_norm", "beta": 1.5},
    "simpo": {"kind": "simpo", "beta": 2.0, "gamma": 0.7, "label_smoothing": 0.05, "nll_weight": 0.2},
    "orpo": {"kind": "orpo", "beta": 0.3},
    "cpo": {"kind": "cpo", "beta": 0.2},
    "cpo-ipo": {"kind": "cpo", "loss": "ipo", "beta": 0.5, "nll_weight": 0.5},
    "cpo-hinge": {"kind": "cpo", "loss": "hinge", "beta": 0.1},
    "kto": {"kind": "kto", "desirable_weight": 1.3, "undesirable_weight": 0.7},
    "kto-clamped": {"kind": "kto", "beta": 0.3},
    "reward": {"kind": "reward"},
    "reward-centered": {"kind": "reward", "center_rewards_coefficient": 0.3},
    "reward-margin": {"kind": "reward", "center_rewards_coefficient": 0.1},
    "apo": {"kind": "kto", "loss": "apo_zero_unpaired", "beta": 0.2},
}


def trl_source(path):
    root = Path(importlib.util.find_spec("trl").origin).parent
    return (root / path).read_text()


def function_of(path, name, **names):
    """Returns a function of TRL's source, which sees only `names` beside torch."""
    for node in ast.walk(ast.parse(trl_source(path))):
        if isinstance(node, ast.FunctionDef) and node.name == name:
            node.decorator_list = []
            space = {"torch": torch, "F": F, **names}
            exec(compile(ast.Module([node], []), path, "exec"), space)
            return space[name]
    raise KeyError(name)


def dpo_loop():
    """Returns the code of TRL's DPOTrainer that adds up the losses: the loop over its loss types."""
    path = "trainer/dpo_trainer.py"
    for node in ast.walk(ast.parse(trl_source(path))):
        is_loop = isinstance(node, ast.For) and "self.loss_types" in ast.unparse(node.iter)
        if is_loop and "per_sequence_loss" in ast.unparse(node):
            return compile(ast.Module([node], []), path, "exec")
    raise KeyError("loss_types")


def kto_part():
    """Returns the code of TRL's KTOTrainer from the divergence to the losses."""
    path = "trainer/kto_trainer.py"
    for node in ast.walk(ast.parse(trl_source(path))):
        if isinstance(node, ast.FunctionDef) and node.name == "_compute_loss":
            texts = [ast.unparse(statement) for statement in node.body]
            first = next(i for i, text in enumerate(texts) if "kl = (KL_logps - ref_KL_logps)" in text)
            last = next(i for i, text in enumerate(texts) if text.startswith("losses = torch.cat"))
            return compile(ast.Module(node.body[first:last + 1], []), path, "exec")
    raise KeyError("_compute_loss")


DPO = dpo_loop()
KTO = kto_part()
ON_CPU = types.SimpleNamespace(device="cpu")
CPO = function_of("experimental/cpo/cpo_trainer.py", "cpo_loss")
LOG1MEXP = function_of("experimental/orpo/orpo_trainer.py", "log1mexp")
REWARD = function_of("trainer/reward_trainer.py", "compute_loss", nn=torch.nn)
ORPO = function_of("experimental/orpo/orpo_trainer.py", "odds_ratio_loss", log1mexp=LOG1MEXP)


def loss_of(case, logps, tokens, references, mask):
    """Returns (mean loss of the pairs, means of the rewards) from sums [sequence] of log-probabilities."""
    kind, beta = case["kind"], case.get("beta", 0.1)
    chosen, rejected = logps[0::2], logps[1::2]
    if kind == "dpo":
        scores = logps - references
        trainer = types.SimpleNamespace(loss_types=[case.get("loss", "sigmoid")], loss_weights=[1.0], beta=beta,
                                        label_smoothing=case.get("label_smoothing", 0.0), use_weighting=False)
        space = {"self": trainer, "F": F, "torch": torch, "math": math, "loss": 0.0, "device": "cpu",
                 "chosen_scores": scores[0::2], "rejected_scores": scores[1::2],
                 "delta_score": scores[0::2] - scores[1::2], "completion_mask": torch.cat([mask[0::2], mask[1::2]])}
        exec(DPO, space)
        return space["loss"], beta * scores[0::2], beta * scores[1::2]
    if kind in ("orpo", "simpo") or case.get("loss") == "ipo":
        chosen, rejected = chosen / tokens[0::2], rejected / tokens[1::2]
    if kind == "orpo":
        losses, good, bad, _, _ = ORPO(types.SimpleNamespace(beta=beta, accelerator=ON_CPU), chosen, rejected)
        return -losses.mean(), good, bad
    trainer = types.SimpleNamespace(alpha=0.0, beta=beta, simpo_gamma=case.get("gamma"), accelerator=ON_CPU,
                                    label_smoothing=case.get("label_smoothing", 0.0),
                                    loss_type="simpo" if kind == "simpo" else case.get("loss", "sigmoid"))
    losses, good, bad = CPO(trainer, chosen, rejected)
    return losses.mean(), good, bad


def kto_loss(case, logps, references, labels, kl_logps, kl_references):
    """Returns (mean loss, rewards of the chosen and of the rejected answers, divergence)."""
    loss = case.get("loss", "kto")
    accelerator = types.SimpleNamespace(device="cpu", gather_for_metrics=lambda value: value)
    trainer = types.SimpleNamespace(loss_type=loss, calculate_KL=loss == "kto", beta=case.get("beta", 0.1),
                                    desirable_weight=case.get("desirable_weight", 1.0),
                                    undesirable_weight=case.get("undesirable_weight", 1.0), accelerator=accelerator)
    space = {"self": trainer, "F": F, "torch": torch, "KL_logps": kl_logps, "ref_KL_logps": kl_references,
             "chosen_logps": logps[labels], "rejected_logps": logps[~labels],
             "ref_chosen_logps": references[labels], "ref_rejected_logps": references[~labels]}
    exec(KTO, space)
    return space["losses"].nanmean(), space["chosen_rewards"], space["rejected_rewards"], space["kl"]


def reward_loss(case, model, ids, length, margins):
    """Returns (mean loss of the pairs, scores of the chosen and of the rejected answers). `margins` may be None."""
    same = lambda value: value
    trainer = types.SimpleNamespace(
        model=model, accelerator=types.SimpleNamespace(gather=same, gather_for_metrics=same), _tp_size=1,
        args=types.SimpleNamespace(center_rewards_coefficient=case.get("center_rewards_coefficient")),
        _total_train_tokens=0, _metrics=collections.defaultdict(lambda: collections.defaultdict(list)))
    mask = torch.arange(ids.shape[1]) < length[:, None]
    rows = torch.cat([torch.arange(0, len(ids), 2), torch.arange(1, len(ids), 2)])  # all chosen answers first
    padded = ids.masked_fill(~mask, PAD)
    inputs = {"input_ids": padded[rows], "attention_mask": mask[rows].long()}
    if margins is not None:
        inputs["margin"] = margins
    loss, outputs = REWARD(trainer, model, inputs, True)
    return loss, *outputs.logits.squeeze(-1).chunk(2)


def reward_model(start):
    """Returns a reward model with the weights of a language model."""
    config = transformers.LlamaConfig.from_dict(start.config.to_dict() | {
        "pad_token_id": PAD, "id2label": {0: "LABEL_0"}, "label2id": {"LABEL_0": 0}, "architectures": None})
    torch.manual_seed(11)
    model = transformers.LlamaForSequenceClassification(config)
    model.model.load_state_dict(start.model.state_dict())
    return model


def sums(model, ids, begin, length):
    """Returns (log-probabilities, numbers) of the answers' tokens, summed over each sequence, and their mask."""
    logp = model(ids[:, :-1], use_cache=False).logits.log_softmax(-1).gather(-1, ids[:, 1:, None]).squeeze(-1)
    place = torch.arange(ids.shape[1])
    mask = (place >= begin[:, None]) & (place < length[:, None])
    return (logp * mask[:, 1:]).sum(-1), mask.sum(-1), mask


def take_step(model, optimizer, loss, good, bad, told, out):
    """Updates the model and adds the step to `told`. Saves the gradients if `out` is given."""
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    if out is not None:
        save(model, out / "grad", {name: weight.grad.clone() for name, weight in model.named_parameters()})
    told["norm"].append(torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP, foreach=False))
    optimizer.step()
    told["loss"].append(loss.detach())
    told["rewards"].append(torch.stack([good.detach().mean(), bad.detach().mean()]))


def train(case, model, data, references, labelled, kl_references, told_margins, out):
    optimizer = make_optimizer(model)
    weight = case.get("nll_weight", 1.0 if case["kind"] in ("orpo", "cpo") else 0.0)
    told = {"loss": [], "norm": [], "rewards": [], "kl": []}
    for step in range(STEPS):
        if case["kind"] == "reward":
            margins = told_margins[step] if told_margins is not None else None
            loss, good, bad = reward_loss(case, model, data[0][step], data[2][step], margins)
            take_step(model, optimizer, loss, good, bad, told, out if step == 0 else None)
            continue
        logps, tokens, mask = sums(model, *(part[step] for part in data))
        if case["kind"] == "kto":
            labels, *mismatched = (part[step] for part in labelled)
            with torch.no_grad():
                kl_logps = sums(model, *mismatched)[0]
            loss, good, bad, kl = kto_loss(case, logps, references[step], labels, kl_logps, kl_references[step])
            told["kl"].append(kl.squeeze())
        else:
            loss, good, bad = loss_of(case, logps, tokens, references[step], mask)
            loss = loss - weight * logps[0::2].sum() / tokens[0::2].sum()
        take_step(model, optimizer, loss, good, bad, told, out if step == 0 else None)
    save(model, out / "trained")
    return {name: torch.stack(values) for name, values in told.items() if values}


def make_data():
    random = numpy.random.default_rng(5)
    ids = torch.from_numpy(random.integers(0, PAD, (STEPS, 2 * PAIRS, LONGEST)))
    begin = torch.from_numpy(random.integers(1, 9, (STEPS, PAIRS)).repeat(2, axis=1))
    length = begin + torch.from_numpy(random.integers(1, LONGEST - 9, (STEPS, 2 * PAIRS)))
    prompts = torch.arange(LONGEST) < begin[:, :, None]
    ids[:, 1::2] = torch.where(prompts[:, 1::2], ids[:, 0::2], ids[:, 1::2])  # both answers to one prompt
    return ids, begin, length


def make_labelled(ids, begin, length):
    """Returns the labels of the sequences, and the mismatched ids, begins and lengths."""
    labels = torch.from_numpy(numpy.random.default_rng(6).integers(0, 2, begin.shape)).bool()
    kl_ids, kl_length = torch.zeros_like(ids), begin + (length - begin).roll(1, 1)
    for step in range(STEPS):
        for i in range(2 * PAIRS):
            prompt, before = ids[step, i, :begin[step, i]], (step, i - 1)
            answer = ids[before][begin[before]:length[before]]
            kl_ids[step, i, :kl_length[step, i]] = torch.cat([prompt, answer])
    return labels, kl_ids, begin, kl_length


def main():
    out = Path(sys.argv[1])
    shutil.rmtree(out, ignore_errors=True)
    torch.set_num_threads(1)
    torch.set_default_dtype(torch.float64)
    torch.use_deterministic_algorithms(True)
    with Lift():
        start = make_model(3, "llama", {"num_hidden_layers": 2})
        save(start, out / "weight")
        data = make_data()
        labelled = make_labelled(*data)
        names = ("ids", "begin", "length", "label", "kl_ids", "kl_begin", "kl_length")
        save_file({name: part.double().contiguous().clone() for name, part in zip(names, data + labelled)},
                  out / "pairs.safetensors")
        with torch.no_grad():
            references, kl_references = (torch.stack([sums(start, *(part[step] for part in parts))[0]
                                                      for step in range(STEPS)]) for parts in (data, labelled[1:]))
        for name, case in CASES.items():
            # The first case's reference is the starting model. The others', whose first margins are not 0, are not.
            noise = 0 if name == "sigmoid" else torch.from_numpy(numpy.random.default_rng(9).normal(
                0, 2, references.shape))
            (out / name).mkdir()
            (out / name / "objective.json").write_text(json.dumps(case))
            # The estimate of the divergence is above 0, except in the case that is clamped.
            kl_moved = kl_references + (3 if name == "kto-clamped" else -3)
            model = reward_model(start) if case["kind"] == "reward" else copy.deepcopy(start)
            if case["kind"] == "reward":
                save(model, out / name / "weight")
            margins = None
            if name == "reward-margin":
                margins = torch.from_numpy(numpy.random.default_rng(8).normal(0.5, 1, (STEPS, PAIRS)))
            told = train(case, model, data, references + noise, labelled, kl_moved, margins, out / name)
            told |= {"references": references + noise, "kl_references": kl_moved}
            if margins is not None:
                told["margins"] = margins
            save_file({key: tensor.double().contiguous() for key, tensor in told.items()},
                      out / name / "told.safetensors")


if __name__ == "__main__":
    main()
