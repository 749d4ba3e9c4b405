"""whole_model.py BIN [MODEL] [--positions N] [--only fp32|fp64]: a model directory as Roll and transformers see it.

BIN has roll-rank, roll-convert and model_check. Without MODEL it makes a small random llama in bfloat16. The truth is
what transformers computes in fp64, without its float32 islands. Says, a JSON line each, how far from it Roll's loss,
logits and worst gradient are in fp32 and fp64, and those of transformers in fp32; what loading took; and the same of
the export after two steps of training by roll-rank. Exits with 1 where a bound is broken: loss 1e-5 (fp32; from
transformers' own in fp32, too), gradients 1e-4 and 1e-10, logits of the export 1e-4, memory of loading the model + its
largest tensor + 256 MiB.
"""
import argparse
import json
import shutil
import subprocess
import sys
import tempfile
from contextlib import nullcontext
from pathlib import Path

from family_steps import BASE, ROPE, save
from in_type import Lift
import torch
import transformers
from safetensors.torch import load_file, save_file

LIMITS = {"fp32": {"loss_error": 1e-5, "logits_error": 1e-4, "gradient_error": 1e-4},
          "fp64": {"loss_error": 1e-10, "logits_error": 1e-10, "gradient_error": 1e-10}}
TEXT = ("It is a truth universally acknowledged, that a single man in possession of a good fortune, must be in want "
        "of a wife. However little known the feelings or views of such a man may be on his first entering a "
        "neighbourhood, this truth is so well fixed in the minds of the surrounding families. ")


def make_small(out):
    config = transformers.AutoConfig.for_model("llama", **(BASE | {
        "rope_parameters": dict(ROPE), "hidden_size": 192, "num_attention_heads": 6, "num_key_value_heads": 2,
        "intermediate_size": 512, "num_hidden_layers": 4, "vocab_size": 2048, "tie_word_embeddings": True,
        "max_position_embeddings": 512}))
    torch.manual_seed(3)
    save(transformers.AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16), out)


def tell(model, precision, ids, out):
    """What transformers says of a directory, as model_check reads it."""
    out.mkdir()
    dtype = {"fp32": torch.float32, "fp64": torch.float64}[precision]
    torch.set_default_dtype(dtype)
    with Lift() if precision == "fp64" else nullcontext():
        theirs = transformers.AutoModelForCausalLM.from_pretrained(model, dtype=dtype, attn_implementation="eager")
        logits = theirs(ids, use_cache=False).logits
        loss = torch.nn.functional.cross_entropy(logits[:, :-1].flatten(0, 1), ids[:, 1:].flatten())
        loss.backward()
        save(theirs, out / "grad", {name: weight.grad for name, weight in theirs.named_parameters()})
    torch.set_default_dtype(torch.float32)
    told = {"ids": ids, "logits": logits.detach(), "loss": loss.detach()}
    save_file({name: tensor.double().contiguous() for name, tensor in told.items()}, out / "told.safetensors")


def read(folder):
    return {name: tensor.double() for path in sorted(folder.glob("*.safetensors"))
            for name, tensor in load_file(path).items()}


def error(found, truth):
    return ((found - truth).abs().max() / truth.abs().max()).item()


def compare_theirs(folder, truth, what):
    """How far transformers itself is from the truth; returns its loss."""
    told, wanted = read(folder), read(truth)
    gradients, exact = read(folder / "grad"), read(truth / "grad")
    errors = {name: error(gradients[name], exact[name]) for name in exact}
    worst = max(errors, key=errors.get)
    print(json.dumps({"what": f"transformers in fp32, {what}", "loss_error": error(told["loss"], wanted["loss"]),
                      "logits_error": error(told["logits"], wanted["logits"]), "gradient_error": errors[worst],
                      "worst_gradient": worst}), flush=True)
    return told["loss"].item()


def check(binaries, model, precision, truth, what):
    done = subprocess.run([binaries / "model_check", model, precision, truth], capture_output=True, text=True,
                          check=False)
    if done.returncode:
        sys.exit(f"model_check: {done.stderr}")
    found = {"what": what, **json.loads(done.stdout)}
    print(json.dumps(found), flush=True)
    broken = [f"{what}: {key} {found[key]:.2g} is more than {limit:g}"
              for key, limit in LIMITS[precision].items() if not found[key] <= limit]
    room = found["model_mib"] + found["largest_mib"] + 256
    if found["load_peak_mib"] > room:
        broken.append(f"{what}: loading took {found['load_peak_mib']:.0f} MiB, more than {room:.0f}")
    return found["loss"], broken


def compare(binaries, ours, theirs, precisions, ids, folder, what):
    """One model as a directory that Roll reads and one that transformers reads; what is broken."""
    broken = []
    truth = folder / "truth"
    tell(theirs, "fp64", ids, truth)
    for precision in precisions:
        loss, found = check(binaries, ours, precision, truth, what)
        broken += found
        if precision == "fp64":
            continue
        tell(theirs, "fp32", ids, folder / "fp32")
        beside = compare_theirs(folder / "fp32", truth, what)
        if not abs(loss - beside) <= LIMITS["fp32"]["loss_error"] * beside:
            broken.append(f"{what}: loss {loss} is not transformers' {beside}")
        shutil.rmtree(folder / "fp32")
    shutil.rmtree(truth)
    return broken


def train(binaries, model, folder):
    """Two steps by roll-rank; returns the checkpoint, and an export in fp32."""
    corpus = folder / "corpus.txt"
    corpus.write_text(TEXT * 8)
    document = {
        "name": "whole", "kind": "train", "resources": {"nodes": 1, "slots_per_node": 1}, "model": {"from": str(model)},
        "tokenizer": "bytes", "data": {"train": [str(corpus)], "valid": 0.1}, "objective": "pretrain",
        "parallel": {"dp": 1}, "train": {
            "seq_length": 64, "global_batch_size": 1, "micro_batch_size": 1, "steps": 2, "seed": 1, "precision": "fp32",
            "optimizer": {"lr": 1e-4, "min_lr": 1e-4, "warmup_steps": 0, "schedule": "constant", "weight_decay": 0.1,
                          "clip_grad": 1.0}},
        "checkpoint": {"every": 0, "keep": 1, "format": "mca"}, "export": "none"}
    launch = {"v": 1, "attempt": {"job": 1, "token": "1-1"}, "kind": "train", "document": json.dumps(document),
              "output": str(folder), "logs": str(folder), "nodes": 1, "node_rank": 0, "ranks_per_node": 1, "gpus": [],
              "nonce": "n", "checkpoints": []}
    (folder / "launch.json").write_text(json.dumps(launch))
    subprocess.run([binaries / "roll-rank", "--launch", folder / "launch.json", "--rank", "0"], check=True,
                   stdin=subprocess.DEVNULL)
    checkpoint, = (folder / "checkpoints").glob(".step-*")
    subprocess.run([binaries / "roll-convert", "convert", checkpoint, folder / "export", "--to", "hf"], check=True)
    return checkpoint, folder / "export"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("binaries", type=Path, metavar="BIN")
    parser.add_argument("model", type=Path, nargs="?", metavar="MODEL")
    parser.add_argument("--positions", type=int, default=128)
    parser.add_argument("--only", choices=LIMITS, action="append")
    args = parser.parse_args()
    torch.use_deterministic_algorithms(True)
    broken = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        model = args.model or folder / "model"
        if args.model is None:
            make_small(model)
        ids = torch.tensor([list((TEXT * 9).encode())[:args.positions]])
        broken += compare(args.binaries, model, model, args.only or LIMITS, ids, folder, "start")
        checkpoint, export = train(args.binaries, model, folder)
        broken += compare(args.binaries, checkpoint, export, ["fp32"], ids, folder, "export")
    if broken:
        sys.exit("; ".join(broken))


main()
