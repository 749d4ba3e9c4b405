#!/usr/bin/env python3
"""The index of GPTDataset's order: Roll beside Megatron-core 0.16.1 with its own C++ helper, in turns.

    tests/bench/train/order.py [--bin build/release/bin] [--documents 2000000] [--epochs 3] [--runs 3]

Needs the target order_bench. The documents have log-normal lengths (median 400, sigma 1); the .bin is sparse, because
an index reads no token. Prints seconds of the clock and of the processor of each run, and the ratios of the medians.
Megatron also writes its index into a cache beside the file, as it does in a training; its imports are not counted.
"""
import argparse
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[3]
LENGTH, SEED = 2048, 1234
MAKE = r'''
import sys, struct, numpy
prefix, documents = sys.argv[1], int(sys.argv[2])
sizes = numpy.random.default_rng(1).lognormal(numpy.log(400), 1, documents).astype(numpy.int32) + 1
ends = numpy.concatenate([[0], numpy.cumsum(sizes, dtype=numpy.int64)])
with open(prefix + '.idx', 'wb') as file:
    file.write(b'MMIDIDX\x00\x00' + struct.pack('<QBQQ', 1, 8, documents, documents + 1))
    for part in (sizes, 2 * ends[:-1], numpy.arange(documents + 1, dtype=numpy.int64)):
        file.write(part.tobytes())
with open(prefix + '.bin', 'wb') as file:
    file.truncate(2 * int(ends[-1]))
print(ends[-1])
'''
MEGATRON = r'''
import json, sys, time, types
from megatron.core.datasets.blended_megatron_dataset_builder import BlendedMegatronDatasetBuilder
from megatron.core.datasets.gpt_dataset import GPTDataset, GPTDatasetConfig
from megatron.core.datasets import helpers_cpp
prefix, length, samples, seed = sys.argv[1], *map(int, sys.argv[2:])
config = GPTDatasetConfig(random_seed=seed, sequence_length=length, blend=([prefix], None), split='1,0,0',
                          tokenizer=types.SimpleNamespace(vocab_size=None, eod=0, pad=-1, unique_identifiers={}),
                          reset_position_ids=False, reset_attention_mask=False, eod_mask_loss=False,
                          create_attention_mask=False)
wall, cpu = time.perf_counter(), time.process_time()
made = BlendedMegatronDatasetBuilder(GPTDataset, [samples, 0, 0], lambda: True, config).build()[0]
print(json.dumps([time.perf_counter() - wall, time.process_time() - cpu, len(made.shuffle_index),
                  len(made.document_index)]))
'''


def last_line(words):
    return json.loads(subprocess.run(words, check=True, capture_output=True, text=True).stdout.splitlines()[-1])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('--bin', default=ROOT / 'build/release/bin', type=pathlib.Path)
    parser.add_argument('--documents', type=int, default=2000000)
    parser.add_argument('--epochs', type=int, default=3)
    parser.add_argument('--runs', type=int, default=3)
    options = parser.parse_args()
    python = ROOT / '.deps/oracle/bin/python'
    rows = {'roll': [], 'megatron': []}
    with tempfile.TemporaryDirectory(prefix='roll-order-') as top:
        prefix = os.path.join(top, 'corpus')
        tokens = last_line([python, '-c', MAKE, prefix, str(options.documents)])
        asked = [str(LENGTH), str((options.epochs * tokens - 1) // LENGTH), str(SEED)]
        commands = {'roll': [options.bin / 'order_bench', prefix + '.bin', *asked],
                    'megatron': [python, '-c', MEGATRON, prefix, *asked]}
        for _ in range(options.runs):
            for name, words in commands.items():
                rows[name].append(last_line(words))
                shutil.rmtree(os.path.join(prefix, 'cache'), ignore_errors=True)
                print(name, rows[name][-1], flush=True)
    assert all(row[2:] == rows['roll'][0][2:] for runs in rows.values() for row in runs), 'the indices differ in size'
    for at, what in enumerate(('clock', 'processor')):
        ours, theirs = (statistics.median(row[at] for row in rows[name]) for name in ('roll', 'megatron'))
        print(f'{what}: roll {ours:.3f} s, megatron {theirs:.3f} s, ratio {theirs / ours:.1f}')


if __name__ == '__main__':
    main()
