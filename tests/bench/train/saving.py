#!/usr/bin/env python3
"""How long a checkpoint of SmolLM2's shape stops training, beside a copy of the same bytes in the same run.

    tests/bench/train/saving.py build/release/bin/roll-rank [--model DIR] [--steps N] [--every N]
        [--format mca|torch_dist]

Two data-parallel ranks train with three sizes of the buffer (checkpoint.buffer_mib): 2048 MiB holds a rank's part;
256 MiB does not; with 1 MiB, training waits while almost all bytes are written. The last checkpoint of each job is
the blocking save: training has ended, so the job only waits until all bytes are hashed, written and synced to the disk.
The shortest of these saves counts. Then jobs of the same layout and of another one load the last checkpoint, in turns.
Without --model, the weights are random. Prints each figure with its bar, and exits with status 1 if a bar is missed.
"""
import argparse
import glob
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

OPTIONS = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
OPTIONS.add_argument('rank', type=os.path.abspath)
OPTIONS.add_argument('--model', help='a HuggingFace directory')
OPTIONS.add_argument('--steps', type=int, default=24)
OPTIONS.add_argument('--every', type=int, default=4, help='steps between two checkpoints')
OPTIONS.add_argument('--format', default='mca')
options = OPTIONS.parse_args()
sys.argv[1:] = [options.rank]
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '../../worker/train/run'))
from bars import Bars  # noqa: E402
from ranks import Attempt, RankCase  # noqa: E402

SIZES = {'hidden_size': 576, 'intermediate_size': 1536, 'num_hidden_layers': 30, 'num_attention_heads': 9,
         'num_key_value_heads': 3, 'vocab_size': 49152, 'max_position_embeddings': 2048, 'tie_word_embeddings': True}
WHOLE, SMALL, LEAST = 2048, 256, 1
COPY = """
import ctypes, sys, time
size = int(sys.argv[1])
a, b = bytearray(b'x') * size, bytearray(b'y') * size
to, source = ((ctypes.c_char * size).from_buffer(each) for each in (a, b))
print('ready', flush=True)
for line in sys.stdin:
    start = time.perf_counter()
    ctypes.memmove(to, source, size)
    print(time.perf_counter() - start, flush=True)
"""


class Job(Attempt):
    """An attempt that notes the bytes that its ranks wrote to files, and the time until they are ready."""

    def __init__(self, *args, **more):
        self.begun, self.written, self.ready_s = time.monotonic(), {}, None
        super().__init__(*args, **more)

    def watch(self):
        while any(process.poll() is None for process in self.ranks):
            for process in self.ranks:
                try:
                    with open(f'/proc/{process.pid}/io', encoding='utf-8') as file:
                        self.written[process.pid] = int(file.read().split('\nwrite_bytes: ')[1].split()[0])
                except (OSError, IndexError):
                    pass
            if self.ready_s is None and len(self.said('ready')) == len(self.ranks):
                self.ready_s = time.monotonic() - self.begun
            time.sleep(0.02)
        codes = self.wait()
        if any(codes):
            sys.exit(f'{codes}: {self.log()}')

    def phases(self):
        with open(os.path.join(self.output, 'metrics.jsonl'), encoding='utf-8') as file:
            rows = [json.loads(line) for line in file]
        return [row for row in rows if 'phases' in row]


def copies(sizes, times=5):
    """Returns the seconds that processes take to copy these sizes at the same time: the longest of them, the median of
    some rounds after the first, which touches the pages."""
    ranks = [subprocess.Popen([sys.executable, '-c', COPY, str(size)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                              text=True) for size in sizes]
    for rank in ranks:
        rank.stdout.readline()
    rounds = []
    for _ in range(times + 1):
        for rank in ranks:
            rank.stdin.write('\n')
            rank.stdin.flush()
        rounds.append(max(float(rank.stdout.readline()) for rank in ranks))
    for rank in ranks:
        rank.communicate()
    return statistics.median(rounds[1:])


def main():
    case, bars = RankCase(), Bars()
    case.setUp()
    every = options.every
    with tempfile.TemporaryDirectory(prefix='roll-saving-', dir=os.path.dirname(options.rank)) as top:
        def job(number, steps, buffer, saves, checkpoints=(), **more):
            model = {'from': os.path.abspath(options.model)} if options.model else {'family': 'llama', **SIZES}
            document = case.document(steps, model=model, train__global_batch_size=2, train__micro_batch_size=1,
                                     train__seq_length=64, data__valid=0.0, checkpoint__every=saves,
                                     checkpoint__keep=1, checkpoint__buffer_mib=buffer,
                                     checkpoint__format=options.format, **more)
            if options.model:
                document['tokenizer'] = os.path.abspath(options.model)
            run = Job(case, number, 1, document, checkpoints, output=os.path.join(top, f'job-{number}'),
                      kind='resume' if checkpoints else 'train')
            run.watch()
            return run

        plain = job(1, options.steps // 2, WHOLE, 0)
        base = statistics.median(row['wall_s'] for row in plain.phases()[2:])
        runs = {buffer: job(number, options.steps, buffer, every)
                for number, buffer in enumerate((WHOLE, SMALL, LEAST), 2)}
        whole = runs[WHOLE]
        folder = whole.published[-1][1]
        files = {path: os.path.getsize(path) for path in glob.glob(folder + '/**', recursive=True, include_hidden=True)
                 if os.path.isfile(path)}
        size, written = sum(files.values()), sum(whole.written.values())
        parts = [one / len(whole.published) for one in whole.written.values()]
        copied = copies([int(part) for part in parts])
        each = ' and '.join(f'{part / 2**20:.0f}' for part in parts)
        print(f'checkpoint: {size / 2**20:.0f} MiB in {len(files)} files; a step without saves: {base:.3f} s; a copy '
              f'of {each} MiB by two processes: {copied:.3f} s')
        state = 12 * json.loads(case.plan(case.document(1, dp=1, model={'family': 'llama', **SIZES}), '--json').stdout)[
            'parameters']
        bars.at_most('bytes that all ranks write for a checkpoint / state', sum(parts) / state, 1.02)
        bars.at_most('bytes that all ranks write / the files of the checkpoint', sum(parts) / size, 1.02)
        bars.at_most('bytes of a rank, max / mean', max(parts) * len(parts) / sum(parts), 1.05)
        stalls, blocking = {}, []
        for buffer, run in runs.items():
            rows = run.phases()
            found = [row['phases']['save']['max'] for row in rows if row['phases']['save']['max'] > 1e-3]
            # The first save may wait until the pages of the buffer are allocated.
            stalls[buffer] = statistics.median(found[1:])
            blocking.append(run.said('checkpoint')[-1]['save_ms'] / 1000)
            steady = [row['wall_s'] for row in rows if row['step'] > 2 * every]
            speed = base * len(steady) / sum(steady)
            print(f'buffer {buffer:4} MiB: stalls {" ".join(f"{one:.3f}" for one in found)} s; speed with a checkpoint '
                  f'every {every} steps: {speed:.3f} of that without; blocking save: {blocking[-1]:.3f} s')
            if buffer == SMALL:
                bars.at_least('speed with a buffer smaller than the state', speed, 0.8)
        bars.at_most('stall / copy', stalls[WHOLE] / copied, 1.5)
        bars.at_least('blocking save / stall', min(blocking) / stalls[WHOLE], 5)
        same, other = [], []
        for turn in range(3):
            same.append(job(10 + turn, options.steps, WHOLE, 0, whole.published[-1:]).ready_s)
            other.append(job(20 + turn, options.steps, WHOLE, 0, whole.published[-1:],
                             parallel={'dp': 1, 'tp': 1, 'pp': 2}).ready_s)
        print(f'start to ready: same layout {same}, other layout {other}; without a checkpoint {plain.ready_s:.2f} s')
        bars.at_most('load in another layout / load in the same', min(other) / min(same), 1.2)
    case.doCleanups()
    sys.exit(bars.missed > 0)


if __name__ == '__main__':
    main()
