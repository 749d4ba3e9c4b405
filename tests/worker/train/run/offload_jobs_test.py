#!/usr/bin/env python3
"""train.optimizer.offload in jobs: the same bits in every layout, resumes with and without it, memory, refusals."""
import json
import os
import pathlib
import resource
import sys
import tempfile
import time
import unittest

from pipeline_test import SHORT
from ranks import Attempt, RankCase

sys.path.append(str(pathlib.Path(__file__).resolve().parents[3]))
from shares import share  # noqa: E402

# 22 million parameters, most of them in the embedding and the output layer
WIDE = {'model__hidden_size': 128, 'model__intermediate_size': 256, 'model__num_hidden_layers': 2,
        'model__vocab_size': 81920, 'train__micro_batch_size': 1, 'train__global_batch_size': 1, 'data__valid': 0.0,
        'checkpoint__every': 0}


class OffloadTest(RankCase):

    def of_kind(self, rule, offload, steps=4, dp=1, tp=1, pp=1, zero=0, **changes):
        document = self.document(steps, dp=dp, parallel__tp=tp, parallel__pp=pp, parallel__zero=zero,
                                 resources__slots_per_node=dp * tp * pp, checkpoint__every=2, checkpoint__keep=9,
                                 **{**SHORT, **changes})
        document['train']['optimizer'].update(kind=rule, offload=offload)
        return document

    def run_in(self, job, document, *args, **options):
        """Runs a job whose files of state are in a folder of their own, which stays empty."""
        folder = os.path.join(self.top, f'state-{job}')
        os.makedirs(folder, exist_ok=True)
        attempt = self.run_whole(job, 1, document, *args, env={'TMPDIR': folder}, **options)
        if document['train']['optimizer']['offload'] == 'state':
            self.assertIn(f"offload: the optimizer's state is in files on the disk of {folder}\n", attempt.log())
        self.assertEqual(os.listdir(folder), [])
        return attempt

    def test_the_bits_are_those_of_a_job_without_the_key_and_either_resumes_the_other(self):
        lora = {'train__lora': {'r': 4, 'alpha': 8}}
        average = {'train__ema': {'decay': 0.5}, 'train__evaluation': {'weights': 'ema'}}
        jobs = {'adamw': {'dp': 2, 'train__precision': 'bf16', **average}, 'adam': {'dp': 2, 'zero': 1},
                'lion': {'dp': 2, 'zero': 2}, 'sgd': {'dp': 2, 'zero': 3, **average}, 'muon': {'tp': 2},
                'adamw_8bit': {'dp': 2, 'zero': 1}, 'adafactor': {'pp': 2}, 'adamw_bf16': {'dp': 1, **lora}}
        for job, (kind, changes) in enumerate(share(jobs.items())):
            with self.subTest(kind=kind, **changes):
                none, state = (self.of_kind(kind, offload, **changes) for offload in ('none', 'state'))
                plain, other = self.run_in(10 * job, none), self.run_in(10 * job + 1, state)
                self.assertEqual(other.weights(4), plain.weights(4))
                self.assertEqual(other.metrics(), plain.metrics())
                from_plain, from_other = ([pair for pair in run.published if pair[0] == 2] for run in (plain, other))
                self.assertEqual(self.run_in(10 * job + 2, state, from_plain).weights(4), plain.weights(4))
                self.assertEqual(self.run_in(10 * job + 3, none, from_other).weights(4), plain.weights(4))

    def test_a_killed_job_leaves_no_file(self):
        document = self.of_kind('adam', 'state', steps=100000, dp=2)
        folder = os.path.join(self.top, 'state')
        os.makedirs(folder)
        attempt = Attempt(self, 1, 1, document, env={'TMPDIR': folder})
        attempt.wait_step(2)
        mapped = self.mapped_files(attempt.ranks[0].pid, folder)
        self.assertEqual(len(mapped), 2, mapped)  # the two moments
        self.assertTrue(all(line.endswith('(deleted)') for line in mapped), mapped)
        self.assertEqual(os.listdir(folder), [])
        attempt.kill()
        self.assertEqual(os.listdir(folder), [])

    def mapped_files(self, pid, folder):
        with open(f'/proc/{pid}/maps', encoding='utf-8') as maps:
            return [line.strip() for line in maps if folder in line]

    def test_a_folder_in_memory_is_not_used(self):
        document = self.of_kind('adam', 'state', steps=2)
        for job, env in enumerate(({}, {'TMPDIR': '/dev/shm'}, {'TMPDIR': os.path.join(self.top, 'none')})):
            run = self.run_whole(job, 1, document, env=env)
            self.assertIn(f"offload: the optimizer's state is in files on the disk of {run.output}\n", run.log())
        with tempfile.TemporaryDirectory(dir='/dev/shm') as output:
            self.refused(document, 4, f'train.optimizer.offload: the folder {output} is a tmpfs, which keeps its files '
                                      'in memory', output=output)

    def wide(self, offload):
        document = self.document(4, dp=1, **WIDE)
        document['train']['optimizer'].update(kind='adam', offload=offload)
        return document

    def memory_of(self, job, offload, setup=None):
        """Returns the largest memory of a job's process by kind, and its duration."""
        folder = os.path.join(self.top, f'state-{job}')
        os.makedirs(folder)
        begin = time.monotonic()
        attempt = Attempt(self, job, 1, self.wide(offload), env={'TMPDIR': folder}, setup=setup)
        most = {}
        while attempt.ranks[0].poll() is None:
            for key, value in self.status_of(attempt.ranks[0].pid).items():
                most[key] = max(value, most.get(key, 0))
            time.sleep(0.02)
        self.assertEqual(attempt.wait(), [0], attempt.log())
        parts = ', '.join(f'{key} {value / 2**20:.0f} MiB' for key, value in most.items())
        print(f'{offload}: {parts}; {time.monotonic() - begin:.1f} s')
        return most, attempt

    def status_of(self, pid):
        with open(f'/proc/{pid}/status', encoding='utf-8') as status:
            pairs = (line.split(':') for line in status)
            return {key: int(value.split()[0]) << 10 for key, value in pairs
                    if key in ('VmHWM', 'VmData', 'RssAnon', 'RssFile')}

    def test_a_job_fits_a_limit_of_memory_that_is_too_small_without_the_key(self):
        whole, part = (json.loads(self.plan(self.wide(offload), '--json').stdout)['memory_per_rank_bytes']
                       for offload in ('none', 'state'))
        moments = whole['optimizer_moments']
        self.assertEqual((part['offloaded'], part['optimizer_moments']), (moments, 0))
        plain, _ = self.memory_of(1, 'none')
        limit = plain['VmData'] - moments // 2

        def lower():
            resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
        attempt = Attempt(self, 2, 1, self.wide('none'), setup=lower)
        self.assertEqual(attempt.wait(), [1], attempt.log())
        self.assertRegex(attempt.said('failed')[0]['message'], '^out of memory.*train.optimizer.offload state saves ')
        other, attempt = self.memory_of(3, 'state', lower)
        self.assertGreater(plain['VmHWM'] - other['VmHWM'], 0.8 * moments)
        self.assertGreater(plain['RssAnon'] - other['RssAnon'], 0.9 * moments)
        with open(os.path.join(attempt.output, 'memory.json'), encoding='utf-8') as file:
            told = json.load(file)['ranks'][0]
        self.assertEqual((told['offloaded'], told['moments']), (moments, 0))
        self.assertIn(f'; offloaded {moments / 2**20:.1f} MiB; free ', attempt.log())

    def test_the_plan_tells_the_offloaded_bytes(self):
        text = self.plan(self.of_kind('adamw', 'state')).stdout
        self.assertRegex(text, r"\noffloaded   [0-9.]+ KiB of the optimizer's state a rank: in files on disk\n")
        self.assertNotIn('offloaded', self.plan(self.of_kind('adamw', 'none')).stdout)
        limit = {'parallel__recompute': 'auto', 'parallel__memory_limit': '640MiB'}
        plain, other = (self.document(4, dp=1, **WIDE, **limit) for _ in range(2))
        other['train']['optimizer']['offload'] = 'state'
        self.refused(plain, 2, 'parallel.memory_limit is 640 MiB')
        self.assertIn('"offloaded"', self.plan(other, '--json').stdout)


if __name__ == '__main__':
    unittest.main()
