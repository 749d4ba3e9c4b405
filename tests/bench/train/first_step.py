#!/usr/bin/env python3
"""From `rollctl submit` to a model's first step, beside transformers and the machine's own limit in the same run.

    tests/bench/train/first_step.py MODEL_DIR [--bin build/release/bin] [--runs N]

A virtual machine's host takes back memory that has lain free for some seconds, and gives it slowly. So each figure is
measured twice: with memory that the host has to find ("cold": the first job after `up`), and with memory at hand
("warm"). The limit: the bytes that a first step needs at least, weights and their gradients in float32, are written by
a program that does nothing else.
"""
import argparse
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from orchestrator import ROOT, TEXT, Cluster, first_step_seconds, print_row  # noqa: E402

PYTHON = ROOT / ".deps/oracle/bin/python"
LYING_FREE_S = 8  # time until the host has taken free memory back

JOB = """\
name: bench-model
kind: train
resources: {{nodes: 1, slots_per_node: 1, time: 5m}}
model: {{from: {model}}}
tokenizer: {model}
data: {{train: [corpus.txt]}}
objective: pretrain
parallel: {{dp: 1}}
train: {{seq_length: 256, global_batch_size: 1, micro_batch_size: 1, steps: 2, seed: 1,
        optimizer: {{lr: 1e-5}}, precision: fp32}}
checkpoint: {{every: 0}}
export: none
"""

WRITE = """\
import mmap, sys, time
start = time.perf_counter()
memory = mmap.mmap(-1, int(sys.argv[1]), flags=mmap.MAP_PRIVATE)
memory.madvise(mmap.MADV_HUGEPAGE)
page = bytes(1 << 21)
for at in range(0, len(memory) - len(page) + 1, len(page)):
    memory[at:at + len(page)] = page
print(time.perf_counter() - start)
"""

STEP = """\
import os, sys
os.environ.update(HF_HUB_OFFLINE="1", TRANSFORMERS_VERBOSITY="error")
import torch, transformers
torch.set_num_threads(os.cpu_count())
model = transformers.AutoModelForCausalLM.from_pretrained(sys.argv[1], dtype=torch.float32).train()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5, fused=True)
ids = torch.arange(256).unsqueeze(0)
model(ids, labels=ids, use_cache=False).loss.backward()
torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
optimizer.step()
"""


def writes(size):
    """Returns the seconds that one thread takes to write new memory of this size."""
    done = subprocess.run([sys.executable, "-c", WRITE, str(size)], capture_output=True, text=True, check=True)
    return float(done.stdout)


def transformers(model):
    """Returns the seconds from the start of Python to the end of its first step."""
    begin = time.perf_counter()
    subprocess.run([PYTHON, "-c", STEP, model], check=True, stderr=subprocess.DEVNULL)
    return time.perf_counter() - begin


def jobs(programs, place, model):
    """Returns the results of a new daemon's first job and of its second."""
    place.mkdir()
    (place / "corpus.txt").write_text(TEXT)
    (place / "model.yaml").write_text(JOB.format(model=model))
    with Cluster(programs, place, slots=1) as cluster:
        time.sleep(LYING_FREE_S)
        return first_step_seconds(cluster, place / "model.yaml"), first_step_seconds(cluster, place / "model.yaml")


def measured_cold_and_warm(action):
    time.sleep(LYING_FREE_S)
    return action(), action()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=pathlib.Path)
    parser.add_argument("--bin", type=pathlib.Path, default=ROOT / "build/release/bin")
    parser.add_argument("--runs", type=int, default=2)
    options = parser.parse_args()
    model, programs = options.model.resolve(), options.bin.resolve()
    numbers = sum(file.stat().st_size for file in model.glob("*.safetensors")) // 2  # the number of bf16 values
    size = 2 * 4 * numbers
    limit, ours, theirs = [], [], []
    with tempfile.TemporaryDirectory(prefix="roll-bench-") as name:
        for number in range(options.runs):
            limit.append(measured_cold_and_warm(lambda: writes(size)))
            ours.append(jobs(programs, pathlib.Path(name) / str(number), model))
            theirs.append(measured_cold_and_warm(lambda: transformers(model)))
    median = lambda pairs, which: statistics.median(pair[which] for pair in pairs) * 1e3
    for which, how in enumerate(("cold", "warm")):
        print_row(f"first step of {model.name}, {how}", median(ours, which), "ms", "transformers, from its start",
                  median(theirs, which))
        print_row(f"{size / 1e9:.2f} GB of new memory, {how}", median(limit, which), "ms",
                  f"that is {size / 1e6 / median(limit, which):.2f} GB/s", None)
    print(f"each: ours {ours}, transformers {theirs}, memory {limit}")


if __name__ == "__main__":
    main()
