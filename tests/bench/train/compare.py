"""compare.py TRAIN_BENCH [--shape 5m | --model DIR] [options]: Roll's training step beside others'.

The steps of Roll, transformers with sdpa and transformers with eager attention take turns, so that all meet the same
machine. Medians after two steps to warm up. Prints one JSON line; ratios are against the faster of the two.
With a model directory, Roll's load is put beside a `cat` of its files, the fastest of five each.
"""
import argparse
import json
import statistics
import subprocess
import sys
import time
from pathlib import Path

TOKENS = {"5m": 8 * 256, "8m": 8 * 256, "135m": 4 * 256}


class Contestant:
    def __init__(self, command):
        began = time.perf_counter()
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.load_seconds = float(self.process.stdout.readline())  # one program after the other loads its weights
        self.start_seconds = time.perf_counter() - began
        self.seconds = []

    def step(self):
        self.process.stdin.write("step\n")
        self.process.stdin.flush()
        self.seconds.append(float(self.process.stdout.readline()))

    def finish(self):
        self.process.stdin.close()
        told = json.loads(self.process.stdout.readline())
        self.process.wait()
        return told | {"seconds": statistics.median(self.seconds[2:]),
                       "first": round(self.start_seconds + self.seconds[0], 2)}


def fastest(seconds, times=5):
    """Returns the fastest of several reads in a row, for which the files are in the page cache and memory is at hand
    (a virtual machine's host takes back memory that was free for some seconds, and returns it slowly)."""
    return round(min(seconds() for _ in range(times)), 3)


def cat(directory):
    start = time.perf_counter()
    subprocess.run("cat *.safetensors | cat >/dev/null", shell=True, cwd=directory, check=True)
    return time.perf_counter() - start


def load(command):
    contestant = Contestant(command)
    contestant.process.communicate()
    return contestant.load_seconds


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("train_bench")
    parser.add_argument("--shape", choices=TOKENS, default="5m")
    parser.add_argument("--steps", type=int, default=24)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--dtype", choices=["fp32", "bf16"], default="fp32",
                        help="bf16: Roll's weights and moments stay fp32, transformers' are bf16 throughout")
    parser.add_argument("--mixed", action="store_true", help="with bf16: transformers' stay fp32, too (torch.autocast)")
    parser.add_argument("--model", help="a Hugging Face directory instead of a shape")
    args = parser.parse_args()
    shape, tokens = args.model or args.shape, 4 * 256 if args.model else TOKENS[args.shape]
    hf = [sys.executable, Path(__file__).with_name("bench_hf.py"), shape, str(args.threads),
          "mixed" if args.mixed else args.dtype]
    roll = [args.train_bench, shape, str(args.threads), args.dtype]
    loading = {"roll_load_seconds": fastest(lambda: load(roll)),
               "cat_seconds": fastest(lambda: cat(args.model))} if args.model else {}
    contestants = {"roll": Contestant(roll),
                   "sdpa": Contestant([*hf, "sdpa"]), "eager": Contestant([*hf, "eager"])}
    for _ in range(args.steps + 2):
        for contestant in contestants.values():
            contestant.step()
    told = {name: contestant.finish() for name, contestant in contestants.items()}
    best = min(("sdpa", "eager"), key=lambda name: told[name]["seconds"])
    print(json.dumps({
        "shape": Path(shape).name, "dtype": args.dtype, "mixed": args.mixed,
        "threads": args.threads, "steps": args.steps,
        "tokens_per_second": {name: round(tokens / t["seconds"]) for name, t in told.items()},
        "first_step_after_start": {name: t["first"] for name, t in told.items()},
        "rss_mib": {name: t["rss_mib"] for name, t in told.items()}, "against": best,
        # FLOP/s of the step relative to a matrix product right after it
        "roll_of_matrix_product": told["roll"]["of_matmul"],
        "speed_ratio": round(told[best]["seconds"] / told["roll"]["seconds"], 3),
        "rss_ratio": round(told["roll"]["rss_mib"] / told[best]["rss_mib"], 3),
        **loading}))


main()
