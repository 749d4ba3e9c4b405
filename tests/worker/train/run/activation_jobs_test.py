#!/usr/bin/env python3
"""train.activation_offload in jobs: the same bits in every layout, resumes without it, memory, refusals."""
import contextlib
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

# A micro-batch saves values of at least 64 KiB
ROWS = {'model__hidden_size': 64, 'model__intermediate_size': 128, 'model__num_hidden_layers': 4,
        'model__max_position_embeddings': 256, 'train__seq_length': 256, 'train__micro_batch_size': 2,
        'train__global_batch_size': 8}
# Activations of 150 MiB in each of two micro-batches
MANY = {'model__hidden_size': 256, 'model__intermediate_size': 768, 'model__num_hidden_layers': 6,
        'model__num_attention_heads': 4, 'model__num_key_value_heads': 4, 'model__max_position_embeddings': 256,
        'train__micro_batch_size': 8, 'train__global_batch_size': 16, 'train__seq_length': 256, 'data__valid': 0.0,
        'checkpoint__every': 0}


class ActivationTest(RankCase):

    def job(self, activations, steps=4, dp=1, tp=1, pp=1, zero=0, **changes):
        return self.document(steps, dp=dp, parallel__tp=tp, parallel__pp=pp, parallel__zero=zero,
                             resources__slots_per_node=dp * tp * pp, checkpoint__every=2, checkpoint__keep=9,
                             train__activation_offload=activations, **{**SHORT, **ROWS, **changes})

    def run_in(self, job, document, *args):
        """Runs a job whose file of activations is in a folder of its own, which stays empty."""
        folder = os.path.join(self.top, f'saved-{job}')
        os.makedirs(folder, exist_ok=True)
        attempt = self.run_whole(job, 1, document, *args, env={'TMPDIR': folder})
        if document['train']['activation_offload'] == 'saved':
            self.assertIn(f'offload: saved activations are in files on the disk of {folder}\n', attempt.log())
            for rank in self.memory_of(attempt)['ranks']:
                self.assertGreater(rank['offloaded'], 0)
        self.assertEqual(os.listdir(folder), [])
        return attempt

    def memory_of(self, attempt):
        with open(os.path.join(attempt.output, 'memory.json'), encoding='utf-8') as file:
            return json.load(file)

    def test_the_bits_are_those_of_a_job_without_the_key_and_either_resumes_the_other(self):
        jobs = [{'pp': 2, 'parallel__schedule': 'gpipe', 'train__precision': 'fp64'},
                {'tp': 2, 'parallel__sequence': True, 'train__precision': 'bf16'},
                {'dp': 2, 'zero': 3, 'parallel__recompute': 'full', 'parallel__recompute_layers': 2},
                {'pp': 2, 'parallel__schedule': 'zb-h1', 'parallel__recompute': 'attention'},
                {'train__lora': {'r': 4, 'alpha': 8, 'dropout': 0.1}, 'train__precision': 'fp16'},
                {'data__attention': 'within_documents'}]
        for job, changes in enumerate(share(jobs)):
            with self.subTest(**changes):
                none, saved = (self.job(kind, **changes) for kind in ('none', 'saved'))
                plain, other = self.run_in(10 * job, none), self.run_in(10 * job + 1, saved)
                self.assertEqual(other.weights(4), plain.weights(4))
                self.assertEqual(other.metrics(), plain.metrics())
                middle = [pair for pair in other.published if pair[0] == 2]
                self.assertEqual(self.run_in(10 * job + 2, none, middle).weights(4), plain.weights(4))

    def test_a_killed_job_leaves_no_file(self):
        folder = os.path.join(self.top, 'saved')
        os.makedirs(folder)
        attempt = Attempt(self, 1, 1, self.job('saved', steps=100000), env={'TMPDIR': folder})
        attempt.wait_step(2)
        opened = []
        for number in os.listdir(f'/proc/{attempt.ranks[0].pid}/fd'):
            with contextlib.suppress(FileNotFoundError):  # the rank may have closed it
                opened.append(os.readlink(f'/proc/{attempt.ranks[0].pid}/fd/{number}'))
        ours = [path for path in opened if path.startswith(folder)]
        self.assertEqual(len(ours), 1, opened)
        self.assertTrue(ours[0].endswith('(deleted)'), ours)
        attempt.kill()
        self.assertEqual(os.listdir(folder), [])

    def test_a_folder_in_memory_is_not_used(self):
        document = self.job('saved', steps=2)
        run = self.run_whole(1, 1, document, env={'TMPDIR': '/dev/shm'})
        self.assertIn(f'offload: saved activations are in files on the disk of {run.output}\n', run.log())
        with tempfile.TemporaryDirectory(dir='/dev/shm') as output:
            self.refused(document, 4, f'train.activation_offload: the folder {output} is a tmpfs, which keeps its '
                                      'files in memory, so the saved activations would need', output=output)

    def many(self, activations):
        return self.document(4, dp=1, train__activation_offload=activations, **MANY)

    def highest(self, job, activations, setup=None):
        """Returns the largest memory of a job's process by kind, and the attempt."""
        folder = os.path.join(self.top, f'saved-{job}')
        os.makedirs(folder)
        begin = time.monotonic()
        attempt = Attempt(self, job, 1, self.many(activations), env={'TMPDIR': folder}, setup=setup)
        most = {}
        while attempt.ranks[0].poll() is None:
            with open(f'/proc/{attempt.ranks[0].pid}/status', encoding='utf-8') as status:
                pairs = [line.split(':') for line in status]
            for key, value in pairs:
                if key in ('VmHWM', 'VmData'):
                    most[key] = max(int(value.split()[0]) << 10, most.get(key, 0))
            time.sleep(0.02)
        self.assertEqual(attempt.wait(), [0], attempt.log())
        print(f'{activations}: {most["VmHWM"] / 2**20:.0f} MiB; {time.monotonic() - begin:.1f} s')
        return most, attempt

    def test_a_job_fits_a_limit_of_memory_that_is_too_small_without_the_key(self):
        whole, part = (json.loads(self.plan(self.many(kind), '--json').stdout)['memory_per_rank_bytes']
                       for kind in ('none', 'saved'))
        self.assertEqual((part['offloaded'], part['activations']), (whole['activations'], 0))
        saved = whole['total'] - part['total']
        self.assertGreater(saved, 0.5 * whole['activations'])
        plain, _ = self.highest(1, 'none')
        limit = plain['VmData'] - saved // 2

        def lower():
            resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
        attempt = Attempt(self, 2, 1, self.many('none'), setup=lower)
        self.assertEqual(attempt.wait(), [1], attempt.log())
        self.assertRegex(attempt.said('failed')[0]['message'], '^out of memory.*train.activation_offload saved saves ')
        other, attempt = self.highest(3, 'saved', lower)
        self.assertGreater(plain['VmHWM'] - other['VmHWM'], 0.8 * saved)
        told = self.memory_of(attempt)['ranks'][0]['offloaded']
        self.assertLess(abs(told / part['offloaded'] - 1), 0.05)

    def test_the_plan_tells_the_offloaded_bytes(self):
        text = self.plan(self.many('saved')).stdout
        self.assertRegex(text, r'\noffloaded   [0-9.]+ MiB of saved activations a rank: in files on disk\n')
        both = self.many('saved')
        both['train']['optimizer']['offload'] = 'state'
        self.assertRegex(self.plan(both).stdout, r'\noffloaded   [0-9.]+ MiB of state and activations a rank: ')
        limit = {'parallel__recompute': 'auto', 'parallel__memory_limit': '380MiB'}
        plain, other = (self.document(4, dp=1, train__activation_offload=kind, **MANY, **limit)
                        for kind in ('none', 'saved'))
        again = [json.loads(self.plan(document, '--json').stdout)['recompute']['flops_per_token']
                 for document in (plain, other)]
        self.assertGreater(again[0], 0)
        self.assertEqual(again[1], 0)


if __name__ == '__main__':
    unittest.main()
