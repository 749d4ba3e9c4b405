"""compare.py TRAIN_BENCH [--shape 5m] [--steps 24] [--threads 2]: Roll's training step beside transformers'.

The steps of Roll, transformers with sdpa and transformers with eager attention take turns, so that all meet the same
machine. Medians after two steps to warm up. Prints one JSON line; ratios are against the faster of the two.
"""
import argparse
import json
import statistics
import subprocess
import sys
from pathlib import Path

TOKENS = {"5m": 8 * 256, "8m": 8 * 256, "135m": 4 * 256}


class Contestant:
    def __init__(self, command):
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.seconds = []

    def step(self):
        self.process.stdin.write("step\n")
        self.process.stdin.flush()
        self.seconds.append(float(self.process.stdout.readline()))

    def finish(self):
        self.process.stdin.close()
        told = json.loads(self.process.stdout.readline())
        self.process.wait()
        return told | {"seconds": statistics.median(self.seconds[2:])}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("train_bench")
    parser.add_argument("--shape", choices=TOKENS, default="5m")
    parser.add_argument("--steps", type=int, default=24)
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args()
    hf = [sys.executable, Path(__file__).with_name("bench_hf.py"), args.shape, str(args.threads)]
    contestants = {"roll": Contestant([args.train_bench, args.shape, str(args.threads)]),
                   "sdpa": Contestant([*hf, "sdpa"]), "eager": Contestant([*hf, "eager"])}
    for _ in range(args.steps + 2):
        for contestant in contestants.values():
            contestant.step()
    told = {name: contestant.finish() for name, contestant in contestants.items()}
    best = min(("sdpa", "eager"), key=lambda name: told[name]["seconds"])
    print(json.dumps({
        "shape": args.shape, "threads": args.threads, "steps": args.steps,
        "tokens_per_second": {name: round(TOKENS[args.shape] / t["seconds"]) for name, t in told.items()},
        "rss_mib": {name: t["rss_mib"] for name, t in told.items()}, "against": best,
        "speed_ratio": round(told[best]["seconds"] / told["roll"]["seconds"], 3),
        "rss_ratio": round(told["roll"]["rss_mib"] / told[best]["rss_mib"], 3)}))


main()
