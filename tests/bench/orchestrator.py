#!/usr/bin/env python3
"""Figures of the orchestrator, each beside a peer or a limit measured in the same run.

    tests/bench/orchestrator.py [--bin build/release/bin] [--runs N]

Prints one line a figure: what, ours, the peer's, the ratio. Nothing here fails on a slow machine: it
prints, people judge. Uses a state directory of its own and leaves nothing behind.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]

TEXT = "In the beginning was the word. " * 20000

TINY_JOB = """\
name: bench
kind: train
resources: {nodes: 1, slots_per_node: 2, time: 5m}
model: {family: llama, hidden_size: 64, num_hidden_layers: 2, num_attention_heads: 4, num_key_value_heads: 2,
        intermediate_size: 128, vocab_size: 256}
tokenizer: bytes
data: {train: [corpus.txt], valid: 0.05}
objective: pretrain
parallel: {dp: 2}
train: {seq_length: 64, global_batch_size: 8, micro_batch_size: 4, steps: 20, seed: 1,
        optimizer: {lr: 1e-3}, precision: fp32}
export: none
"""


def milliseconds(action, runs):
    samples = []
    for _ in range(runs):
        begin = time.perf_counter()
        action()
        samples.append((time.perf_counter() - begin) * 1e3)
    return statistics.median(samples)


def print_row(what, ours, unit, peer_name, peer):
    ratio = f"{peer / ours:8.1f} x" if peer else ""
    beside = f"{peer_name} {peer:.1f} {unit}" if peer else peer_name
    print(f"{what:46} {ours:10.2f} {unit:4} | {beside:44} {ratio}", flush=True)


class Cluster:
    """A private rolld and roll-worker in a temporary directory."""

    def __init__(self, programs, folder, slots):
        self.programs, self.folder, self.slots = programs, folder, slots
        self.environment = dict(os.environ, ROLL_DIR=str(folder / "state"), NO_COLOR="1")

    def ctl(self, *arguments):
        done = subprocess.run([self.programs / "rollctl", *arguments], env=self.environment,
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            sys.exit(f"rollctl {' '.join(arguments)}: exit {done.returncode}: {done.stderr.strip()}")
        return done.stdout

    def __enter__(self):
        self.ctl("up", "--slots", str(self.slots))
        return self

    def __exit__(self, *_):
        self.ctl("down")


def first_step_seconds(cluster, job_file):
    """Returns the seconds from typing `rollctl submit` to the first step's row in metrics.jsonl, which follows a
    head."""
    begin = time.perf_counter()
    job = cluster.ctl("submit", "--parsable", str(job_file)).strip()
    output = pathlib.Path(json.loads(cluster.ctl("show", job, "--json"))["job"]["output"])
    metrics = output / "metrics.jsonl"
    deadline = begin + 120
    while not (metrics.exists() and '"loss"' in metrics.read_text()):
        if time.perf_counter() > deadline:
            sys.exit(f"no first step within 120 s; see {output}/logs")
        time.sleep(0.002)
    seconds = time.perf_counter() - begin
    cluster.ctl("wait", job)
    return seconds


def command_latency_seconds(cluster):
    """Returns the seconds of a command in the queue, from submit to its end, as `submit --wait` sees it."""
    begin = time.perf_counter()
    cluster.ctl("submit", "--wait", "--slots", "1", "--", "/bin/true")
    return time.perf_counter() - begin


def idle(process, seconds):
    """Returns the resident MB and the percent of a core of an idle process over `seconds`."""
    stat = lambda: pathlib.Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()
    ticks = lambda: sum(int(field) for field in stat()[11:13])
    before = ticks()
    time.sleep(seconds)
    used = (ticks() - before) / os.sysconf("SC_CLK_TCK")
    status = pathlib.Path(f"/proc/{process}/status").read_text()
    resident = int(next(l for l in status.splitlines() if l.startswith("VmRSS")).split()[1]) / 1024
    return resident, 100 * used / seconds


def python_import_milliseconds(runs):
    python = ROOT / ".deps/oracle/bin/python"
    if not python.exists():
        return None
    run = lambda: subprocess.run([python, "-c", "import torch, transformers"], check=True)
    return milliseconds(run, runs)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bin", type=pathlib.Path, default=ROOT / "build/release/bin")
    parser.add_argument("--runs", type=int, default=5)
    options = parser.parse_args()
    programs = options.bin.resolve()
    run = lambda *command: (lambda: subprocess.run(command, stdout=subprocess.DEVNULL, check=True))
    print_row("rollctl start (version)", milliseconds(run(programs / "rollctl", "version"), 40), "ms",
              "python -c pass", milliseconds(run("python3", "-c", "pass"), 40))
    with tempfile.TemporaryDirectory(prefix="roll-bench-") as name:
        folder = pathlib.Path(name)
        (folder / "corpus.txt").write_text(TEXT)
        (folder / "job.yaml").write_text(TINY_JOB)
        with Cluster(programs, folder, slots=2) as cluster:
            first_step_seconds(cluster, folder / "job.yaml")
            warm = [first_step_seconds(cluster, folder / "job.yaml") for _ in range(options.runs)]
            print_row("rollctl submit to first training step, warm", statistics.median(warm) * 1e3, "ms",
                      "python -c 'import torch, transformers'", python_import_milliseconds(3))
            commands = [command_latency_seconds(cluster) for _ in range(options.runs)]
            print_row("submit --wait of /bin/true", statistics.median(commands) * 1e3, "ms", "", None)
            process = int((folder / "state/rolld.pid").read_text().split()[0])
            resident, percent = idle(process, 20)
            print_row("rolld idle, resident", resident, "MB", "limit 30 MB", None)
            print_row("rolld idle, processor", percent, "%", "limit 1 %", None)


if __name__ == "__main__":
    main()
