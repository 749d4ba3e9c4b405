#!/usr/bin/env python3
"""Roll's pilots beside sbatch on the one-machine test cluster, in one run. Root; needs slurmctld, slurmd, munge.

    tests/bench/slurm.py [--jobs 1000] [--sbatch-jobs N] [--rounds 5] [Bench.test_latency | Bench.test_drain]

With fewer sbatch jobs Slurm's time is that of these, times the ratio.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, '..', 'e2e'))
from harness import BIN, wait_until  # noqa: E402
from slurm_test import SlurmTest  # noqa: E402


SLOTS = 64  # number of jobs that the cluster runs at once


class Bench(SlurmTest):
    options = None

    def started(self, path):
        """Returns when the program at `path` wrote its first line, in seconds."""
        def written():
            try:
                with open(path, encoding='ascii') as file:
                    return file.read().endswith('\n')
            except OSError:
                return False
        wait_until(written, path)
        with open(path, encoding='ascii') as file:
            return int(file.read()) / 1e9

    def roll_latency(self, number):
        path = os.path.join(self.work, f'roll-{number}')
        began = time.time()
        self.submit('--gpus', '1', '--', 'sh', '-c', f'date +%s%N >{path}')
        return self.started(path) - began

    def slurm_latency(self, number):
        path = os.path.join(self.work, f'slurm-{number}')
        began = time.time()
        self.cluster.run('sbatch', '--gres=gpu:1', '-o', '/dev/null', '--wrap', f'date +%s%N >{path}')
        return self.started(path) - began

    def test_latency(self):
        cold, warm, slurm = [], [], []
        for number in range(self.options.rounds):
            name = f'q{number}'
            self.queue('--gpus', '8', name=name)
            cold.append(self.roll_latency(f'cold-{number}'))
            warm += [self.roll_latency(f'warm-{number}-{again}') for again in range(10)]
            if number == 0:
                self.bench('dispatch', 200, os.path.join(BIN, 'first_instruction'))
            self.ctl('alloc', 'remove', name)
            wait_until(lambda: not self.alloc()['queues'], 'the queue to go')
            slurm.append(self.slurm_latency(number))
        for what, times in (('rollctl to first line of a shell, new allocation', cold),
                            ('the same, warm pilot', warm), ('sbatch', slurm)):
            print(f'{what}: median {statistics.median(times):.4f} s, {min(times):.4f} to {max(times):.4f}')

    def bench(self, *words):
        """Runs the client that measures rolld, over an open connection, on the warm pilot."""
        done = subprocess.run([os.path.join(BIN, 'queue_bench'), self.state, *map(str, words)], env=self.env, text=True,
                              capture_output=True, check=True, timeout=300)
        print('warm pilot, ' + done.stdout.strip().replace('\n', '\nwarm pilot, '), flush=True)

    def drain(self, count, first):
        """Returns the seconds of `count` one-GPU jobs: from the submission until all have ended, and of the
        submission alone."""
        files = [self.write(f'{n}.yaml', json.dumps({
            'name': f'j{n}', 'kind': 'command', 'command': ['true'],
            'resources': {'slots_per_node': 1, 'gpus_per_node': 1}})) for n in range(count)]
        began = time.monotonic()
        self.ctl('submit', *files, timeout=600)
        submitted = time.monotonic() - began
        last = first + count
        self.ctl('wait', *map(str, range(max(first, last - 2 * SLOTS), last)), timeout=1200)  # waits without polling
        seconds = time.monotonic() - began
        self.assertEqual(self.json('jobs')['jobs'], [])  # no earlier job is left
        return seconds, submitted

    def test_drain(self):
        count = self.options.jobs
        self.queue('--nodes', '8', '--gpus', '8', '--max-jobs', '1')
        times = [('order included', *self.drain(count, 1)), ('of a live allocation', *self.drain(count, count + 1))]
        self.ctl('alloc', 'remove', 'q')
        wait_until(lambda: not self.alloc()['queues'], 'the queue to go')
        few = self.options.sbatch_jobs or count
        began = time.monotonic()
        for _ in range(few):
            self.cluster.run('sbatch', '--gres=gpu:1', '-o', '/dev/null', '--wrap', 'true')
        wait_until(lambda: not self.slurm_jobs(), "Slurm's jobs to end", 3600)
        slurm = (time.monotonic() - began) * count / few
        for what, roll, submitted in times:
            print(f'{count} one-GPU jobs, {what}: Roll {roll:.2f} s (submitted in {submitted:.2f} s), sbatch '
                  f'{slurm:.1f} s{f" (from {few})" if few < count else ""}: {slurm / roll:.1f} times as fast')


def main():
    import unittest
    parser = argparse.ArgumentParser()
    parser.add_argument('--jobs', type=int, default=1000)
    parser.add_argument('--sbatch-jobs', type=int, default=0)
    parser.add_argument('--rounds', type=int, default=5)
    Bench.options, rest = parser.parse_known_args()
    unittest.main(argv=[sys.argv[0], *rest], verbosity=0)


if __name__ == '__main__':
    main()
