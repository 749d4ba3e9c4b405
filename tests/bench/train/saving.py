#!/usr/bin/env python3
"""How long a checkpoint of SmolLM2's shape stops training, beside a copy of the same bytes in memory in the same run.

    tests/bench/train/saving.py build/release/bin/roll-rank [--steps N]

Two data-parallel ranks train with three sizes of the buffer (checkpoint.buffer_mib): one that holds a rank's part, one
of 256 MiB, which is smaller, and one of 1 MiB, with which a save waits for the disk almost to its end ("blocking").
Then a job of the same layout and one of another layout load the last checkpoint.
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

OPTIONS = argparse.ArgumentParser()
OPTIONS.add_argument('rank')
OPTIONS.add_argument('--steps', type=int, default=16)
options = OPTIONS.parse_args()
sys.argv[1:] = [options.rank]
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '../../worker/train/run'))
from ranks import Attempt, RankCase  # noqa: E402

SIZES = {'hidden_size': 576, 'intermediate_size': 1536, 'num_hidden_layers': 30, 'num_attention_heads': 9,
         'num_key_value_heads': 3, 'vocab_size': 49152, 'max_position_embeddings': 2048, 'tie_word_embeddings': True}
COPY = """
import ctypes, sys, time
size = int(sys.argv[1])
a, b = bytearray(b'x') * size, bytearray(b'y') * size
to, source = ((ctypes.c_char * size).from_buffer(each) for each in (a, b))
sys.stdin.readline()
start = time.perf_counter()
ctypes.memmove(to, source, size)
print(time.perf_counter() - start)
"""


class Job(Attempt):
    """An attempt that notes the bytes that its ranks wrote, and the time of their first step."""

    def __init__(self, *args, **more):
        self.begun, self.written, self.first_step = time.monotonic(), {}, None
        super().__init__(*args, **more)

    def watch(self):
        while any(process.poll() is None for process in self.ranks):
            for process in self.ranks:
                try:
                    with open(f'/proc/{process.pid}/io', encoding='utf-8') as file:
                        self.written[process.pid] = int(file.read().split('wchar: ')[1].split()[0])
                except (OSError, IndexError):
                    pass
            if self.first_step is None and self.said('ready'):
                self.first_step = time.monotonic() - self.begun
            time.sleep(0.02)
        codes = self.wait()
        if any(codes):
            sys.exit(f'{codes}: {self.log()}')

    def phases(self):
        with open(os.path.join(self.output, 'metrics.jsonl'), encoding='utf-8') as file:
            rows = [json.loads(line) for line in file]
        return [row for row in rows if 'phases' in row]


def copies(sizes):
    """Returns the seconds that processes take to copy these sizes at the same time, the longest of them."""
    ranks = [subprocess.Popen([sys.executable, '-c', COPY, str(size)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                              text=True) for size in sizes]
    time.sleep(3)
    for rank in ranks:
        rank.stdin.write('\n')
        rank.stdin.flush()
    return max(float(rank.stdout.readline()) for rank in ranks)


def main():
    case = RankCase()
    case.setUp()
    with tempfile.TemporaryDirectory(prefix='roll-saving-', dir='.') as top:
        def job(number, steps, buffer, every, checkpoints=(), **more):
            document = case.document(steps, model={'family': 'llama', **SIZES}, train__global_batch_size=2,
                                     train__micro_batch_size=1, train__seq_length=64, data__valid=0.0,
                                     checkpoint__every=every, checkpoint__keep=1, checkpoint__buffer_mib=buffer, **more)
            run = Job(case, number, 1, document, checkpoints, output=os.path.join(top, f'job-{number}'),
                      kind='resume' if checkpoints else 'train')
            run.watch()
            return run

        every = options.steps // 4
        plain = job(1, options.steps, 2048, 0)
        stalls, speeds = {}, {}
        for number, buffer in ((2, 2048), (3, 256), (4, 1)):
            run = job(number, options.steps, buffer, every)
            rows = run.phases()
            # The first save writes the buffer's pages for the first time.
            stalls[buffer] = [row['phases']['save']['max'] for row in rows if row['phases']['save']['max'] > 1e-3][1:]
            speeds[buffer] = statistics.median(row['wall_s'] for row in rows[2:])
            if buffer == 2048:
                folder = run.published[-1][1]
                files = {path: os.path.getsize(path) for path in glob.glob(folder + '/**', recursive=True)
                         if os.path.isfile(path)}
                written, whole = sum(run.written.values()), sum(files.values())
                print(f'checkpoint: {whole / 2**20:.0f} MiB in {len(files)} files; written by all ranks in '
                      f'{len(run.published)} saves: {written / whole / len(run.published):.4f} times that; ranks: '
                      f'max / mean {max(run.written.values()) * len(run.written) / written:.3f}')
                parts = sorted(files.values())[-3:]
                sizes = [sum(parts) // 2] * 2
                copied = copies(sizes)
                same = job(5, options.steps, 2048, 0, run.published[-1:])
                other = job(6, options.steps, 2048, 0, run.published[-1:], parallel={'dp': 1, 'pp': 2})
        print(f'a copy of {sizes[0] / 2**20:.0f} MiB by each of two processes: {copied:.3f} s')
        base = statistics.median(row['wall_s'] for row in plain.phases()[2:])
        for buffer, found in stalls.items():
            stall = statistics.median(found)
            print(f'buffer {buffer:4} MiB: stall {stall:.3f} s ({" ".join(f"{one:.3f}" for one in found)}), '
                  f'{stall / copied:.2f} copies; speed of steps {base / speeds[buffer]:.3f} of that without saves')
        print(f'blocking / background: {statistics.median(stalls[1]) / statistics.median(stalls[2048]):.1f}')
        print(f'start to ready: same layout {same.first_step:.2f} s, other layout {other.first_step:.2f} s '
              f'({other.first_step / same.first_step:.2f})')
    case.doCleanups()


if __name__ == '__main__':
    main()
