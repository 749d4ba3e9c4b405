#!/usr/bin/env python3
"""Time from the start of a rank to its first step, anew and resumed at a late step, on a large packed corpus.

    tests/bench/train/resume.py build/release/bin/roll-rank [MEGABYTES]

The corpus is a .jsonl of prompts and completions, packed without gaps (best_fit). The first run tokenizes it, trains to
step 200 and saves a checkpoint. Further runs find the tokens: one begins anew, the others resume after step 200.
"""
import json
import os
import random
import sys
import time
import unittest

if sys.argv[1:2] in ([], ['-h'], ['--help']):
    sys.exit(__doc__)
SIZE = int(sys.argv.pop(2) if len(sys.argv) > 2 else 200) << 20
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '../../worker/train/run'))
from ranks import Attempt, RankCase  # noqa: E402

LATE = 200


def write_lines(path):
    rng = random.Random(3)
    words = [''.join(rng.choice('etaoinshrdlu') for _ in range(rng.randint(2, 9))) for _ in range(3000)]
    with open(path, 'w', encoding='utf-8') as file:
        while file.tell() < SIZE:
            answer = ' '.join(rng.choices(words, k=int(rng.lognormvariate(4, 1)) + 1))
            file.write(json.dumps({'prompt': ' '.join(rng.choices(words, k=9)), 'completion': answer}) + '\n')


class Resume(RankCase):

    def first_step(self, attempt, checkpoints=()):
        """Starts a run. Returns it and the seconds until its first step, of the clock and of the processor."""
        document = self.document(10 * LATE, dp=1, objective='sft', data={'train': [self.lines], 'packing': 'best_fit'},
                                 train__seq_length=512, train__global_batch_size=2, train__micro_batch_size=1,
                                 model__max_position_embeddings=512, checkpoint__every=LATE)
        after = LATE if checkpoints else 0
        self.drop_rows(after)
        begin = time.monotonic()
        run = Attempt(self, 1, attempt, document, checkpoints)
        while not any(row['step'] > after for row in run.metrics()):
            assert run.ranks[0].poll() is None, run.log()
            time.sleep(0.005)
        seconds = time.monotonic() - begin
        with open(f'/proc/{run.ranks[0].pid}/stat', encoding='utf-8') as file:
            used = sum(map(int, file.read().rsplit(')', 1)[1].split()[11:13])) / os.sysconf('SC_CLK_TCK')
        return run, f'{seconds:.2f} s ({used:.2f} s of the processor)'

    def drop_rows(self, after):
        """Removes the rows that the run before has written after a step, which this one writes again."""
        path = os.path.join(self.top, 'job-1', 'metrics.jsonl')
        if os.path.exists(path):
            with open(path, encoding='utf-8') as file:
                rows = [line for line in file if json.loads(line).get('step', 0) <= after]
            with open(path, 'w', encoding='utf-8') as file:
                file.writelines(rows)

    def test_resume(self):
        self.lines = os.path.join(self.top, 'lines.jsonl')
        write_lines(self.lines)
        run, seconds = self.first_step(1)
        print(f'{SIZE >> 20} MiB, tokenized and packed: first step after {seconds}', flush=True)
        while not run.published:
            time.sleep(0.05)
        run.kill()
        saved = run.published[:1]
        for attempt in range(2, 5):
            run, seconds = self.first_step(attempt, saved)
            run.kill()
            print(f'resumed after step {LATE}: first step after {seconds}', flush=True)
        run, seconds = self.first_step(5)
        print(f'begun anew: first step after {seconds}', flush=True)


if __name__ == '__main__':
    unittest.main()
