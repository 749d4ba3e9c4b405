"""whole_model.py BIN [MODEL] [--positions N] [--only fp32|fp64]: a model directory as Roll and transformers see it.

BIN has roll-rank, roll-convert and model_check. Without MODEL it makes a small random llama in bfloat16. Says, a JSON
line each: loss, logits and every gradient in fp32 and fp64 (fp64 without transformers' float32 islands), what loading
took, and after two steps of training by roll-rank, whether transformers gets our logits out of the export. Exits with 1
where a bound is broken: loss 1e-5 (fp32), gradients 1e-4 and 1e-10, logits of the export 1e-4, memory of loading the
model + its largest tensor + 256 MiB.
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
from safetensors.torch import save_file

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


def check(binaries, model, precision, told, what):
    done = subprocess.run([binaries / "model_check", model, precision, told], capture_output=True, text=True,
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
        for precision in args.only or LIMITS:
            (folder / precision).mkdir()
            tell(model, precision, ids, folder / precision)
            broken += check(args.binaries, model, precision, folder / precision, "start")
            shutil.rmtree(folder / precision)
        checkpoint, export = train(args.binaries, model, folder)
        (folder / "after").mkdir()
        tell(export, "fp32", ids, folder / "after")
        broken += check(args.binaries, checkpoint, "fp32", folder / "after", "export")
    if broken:
        sys.exit("; ".join(broken))


main()
