#!/usr/bin/env python3
"""train.optimizer.offload and train.activation_offload in jobs: the same bits in every layout, resumes with and without
the key, memory, refusals."""
import contextlib
import json
import os
import pathlib
import resource
import sys
import tempfile
import time
import unittest

from ranks import SHORT, Attempt, RankCase, json_of

sys.path.append(str(pathlib.Path(__file__).resolve().parents[3]))
from shares import share  # noqa: E402

ADAPTER = {'train__lora': {'r': 4, 'alpha': 8}}
AVERAGE = {'train__ema': {'decay': 0.5}, 'train__evaluation': {'weights': 'ema'}}


def held_files(pid, folder):
    """Returns the files of a folder that a process has open or mapped."""
    with open(f'/proc/{pid}/maps', encoding='utf-8') as maps:
        found = {line.split(maxsplit=5)[-1].strip() for line in maps}
    for number in os.listdir(f'/proc/{pid}/fd'):
        with contextlib.suppress(FileNotFoundError):  # the rank may have closed it
            found.add(os.readlink(f'/proc/{pid}/fd/{number}'))
    return [file for file in found if folder in file]


class Offload:
    """Tests of a key with the values `none` and KIND. `job` makes a small job, `large` one that needs much memory."""

    def run_in(self, job, document, *args, **options):
        """Runs a job whose files are in a folder of their own, which stays empty."""
        folder = os.path.join(self.top, f'files-{job}')
        os.makedirs(folder, exist_ok=True)
        attempt = self.run_whole(job, 1, document, *args, env={'TMPDIR': folder}, **options)
        if self.KIND in (document['train'].get('activation_offload'), document['train']['optimizer'].get('offload')):
            what = ('a part of ' if 'offload_fraction' in document['train']['optimizer'] else '') + self.WHAT
            self.assertIn(f'offload: {what} in files on the disk of {folder}\n', attempt.log())
            self.assertGreater(min(rank['offloaded'] for rank in self.memory_of(attempt)), 0)
        self.assertEqual(os.listdir(folder), [])
        return attempt

    def memory_of(self, attempt):
        return json_of(attempt.output, 'memory.json')['ranks']

    def test_the_bits_are_those_of_a_job_without_the_key_and_either_resumes_the_other(self):
        for job, changes in enumerate(share(self.JOBS)):
            with self.subTest(**changes):
                none, kept = (self.job(kind, **changes) for kind in ('none', self.KIND))
                plain, other = self.run_in(10 * job, none), self.run_in(10 * job + 1, kept)
                self.assertEqual(other.weights(4), plain.weights(4))
                self.assertEqual(other.metrics(), plain.metrics())
                from_plain, from_other = ([pair for pair in run.published if pair[0] == 2] for run in (plain, other))
                self.assertEqual(self.run_in(10 * job + 2, kept, from_plain).weights(4), plain.weights(4))
                self.assertEqual(self.run_in(10 * job + 3, none, from_other).weights(4), plain.weights(4))

    def test_a_killed_job_leaves_no_file(self):
        folder = os.path.join(self.top, 'files')
        os.makedirs(folder)
        attempt = Attempt(self, 1, 1, self.job(self.KIND, steps=100000, dp=2), env={'TMPDIR': folder})
        attempt.wait_step(2)
        held = held_files(attempt.ranks[0].pid, folder)
        self.assertEqual(len(held), self.FILES, held)
        self.assertTrue(all(file.endswith('(deleted)') for file in held), held)
        attempt.kill()
        self.assertEqual(os.listdir(folder), [])

    def test_a_folder_in_memory_is_not_used(self):
        document = self.job(self.KIND, steps=2)
        for job, env in enumerate(({}, {'TMPDIR': '/dev/shm'}, {'TMPDIR': os.path.join(self.top, 'none')})):
            run = self.run_whole(job, 1, document, env=env)
            self.assertIn(f'offload: {self.WHAT} in files on the disk of {run.output}\n', run.log())
        with tempfile.TemporaryDirectory(dir='/dev/shm') as output:
            self.refused(document, 4, f'{self.KEY}: the folder {output} is a tmpfs, which keeps its files in memory',
                         output=output)

    def highest(self, job, kind, setup=None):
        """Returns the largest memory of a job's process by kind, and the attempt."""
        folder = os.path.join(self.top, f'files-{job}')
        os.makedirs(folder)
        begin = time.monotonic()
        attempt = Attempt(self, job, 1, self.large(kind), env={'TMPDIR': folder}, setup=setup)
        most = {}
        while attempt.ranks[0].poll() is None:
            with open(f'/proc/{attempt.ranks[0].pid}/status', encoding='utf-8') as status:
                pairs = [line.split(':') for line in status]
            for key, value in pairs:
                if key in ('VmHWM', 'VmData'):
                    most[key] = max(int(value.split()[0]) << 10, most.get(key, 0))
            time.sleep(0.02)
        self.assertEqual(attempt.wait(), [0], attempt.log())
        print(f'{kind}: {most["VmHWM"] / 2**20:.0f} MiB; {time.monotonic() - begin:.1f} s')
        return most, attempt

    def test_a_job_fits_a_limit_of_memory_that_is_too_small_without_the_key(self):
        whole, part = (json.loads(self.plan(self.large(kind), '--json').stdout)['memory_per_rank_bytes']
                       for kind in ('none', self.KIND))
        self.assertEqual((part['offloaded'], part[self.PART]), (whole[self.PART], 0))
        saved = whole['total'] - part['total']
        self.assertGreater(saved, 0.5 * whole[self.PART])
        plain, _ = self.highest(1, 'none')
        limit = plain['VmData'] - saved // 2

        def lower():
            resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
        attempt = Attempt(self, 2, 1, self.large('none'), setup=lower)
        self.assertEqual(attempt.wait(), [1], attempt.log())
        self.assertRegex(attempt.said('failed')[0]['message'], f'^out of memory.*{self.KEY} {self.KIND} saves ')
        other, attempt = self.highest(3, self.KIND, lower)
        self.assertGreater(plain['VmHWM'] - other['VmHWM'], 0.8 * saved)
        self.assertLess(abs(self.memory_of(attempt)[0]['offloaded'] / part['offloaded'] - 1), 0.05)
        self.assertRegex(attempt.log(), r'; offloaded [0-9.]+ MiB; free ')

    def test_the_plan_tells_the_offloaded_bytes(self):
        what = self.WHAT.removesuffix(' is').removesuffix(' are')
        self.assertRegex(self.plan(self.job(self.KIND)).stdout,
                         rf'\noffloaded   [0-9.]+ [KM]iB of {what} a rank: in files on disk\n')
        self.assertNotIn('offloaded', self.plan(self.job('none')).stdout)


class StateTest(Offload, RankCase):
    KEY, KIND, WHAT, PART = 'train.optimizer.offload', 'state', "the optimizer's state is", 'optimizer_moments'
    FILES = 2  # the two moments
    JOBS = ({'rule': 'adamw', 'dp': 2, 'train__precision': 'bf16', **AVERAGE}, {'dp': 2, 'zero': 1, 'fraction': 0.5},
            {'rule': 'lion', 'dp': 2, 'zero': 2}, {'rule': 'sgd', 'dp': 2, 'zero': 3, **AVERAGE},
            {'rule': 'muon', 'tp': 2, 'fraction': 0.5}, {'rule': 'adamw_8bit', 'dp': 2, 'zero': 1},
            {'rule': 'adafactor', 'pp': 2}, {'rule': 'adamw_bf16', **ADAPTER})
    # 22 million parameters, most of them in the embedding and the output layer
    WIDE = {'model__hidden_size': 128, 'model__intermediate_size': 256, 'model__vocab_size': 81920,
            'train__micro_batch_size': 1, 'train__global_batch_size': 1, 'data__valid': 0.0, 'checkpoint__every': 0}

    def job(self, offload, rule='adam', steps=4, dp=1, tp=1, pp=1, zero=0, fraction=None, **changes):
        document = self.document(steps, dp=dp, parallel__tp=tp, parallel__pp=pp, parallel__zero=zero,
                                 resources__slots_per_node=dp * tp * pp, checkpoint__every=2, checkpoint__keep=9,
                                 **{**SHORT, **changes})
        document['train']['optimizer'].update(kind=rule, offload=offload)
        if fraction and offload != 'none':
            document['train']['optimizer'].update(offload_fraction=fraction)
        return document

    def large(self, offload, **changes):
        document = self.document(2, dp=1, **self.WIDE, **changes)
        document['train']['optimizer'].update(kind='adam', offload=offload)
        return document

    def test_a_limit_of_memory_holds_with_the_key_alone(self):
        limit = {'parallel__recompute': 'auto', 'parallel__memory_limit': '640MiB'}
        self.refused(self.large('none', **limit), 2, 'parallel.memory_limit is 640 MiB')
        self.assertIn('"offloaded"', self.plan(self.large('state', **limit), '--json').stdout)


class ActivationTest(Offload, RankCase):
    KEY, KIND, WHAT, PART = 'train.activation_offload', 'saved', 'saved activations are', 'activations'
    FILES = 1
    JOBS = ({'pp': 2, 'parallel__schedule': 'gpipe', 'train__precision': 'fp64'},
            {'tp': 2, 'parallel__sequence': True, 'train__precision': 'bf16'},
            {'dp': 2, 'zero': 3, 'parallel__recompute': 'full', 'parallel__recompute_layers': 2},
            {'pp': 2, 'parallel__schedule': 'zb-h1', 'parallel__recompute': 'attention'},
            {'train__lora': {'r': 4, 'alpha': 8, 'dropout': 0.1}, 'train__precision': 'fp16'},
            {'data__attention': 'within_documents'})
    # A micro-batch saves values of at least 64 KiB
    ROWS = {'model__hidden_size': 64, 'model__intermediate_size': 128, 'model__num_hidden_layers': 4,
            'model__max_position_embeddings': 256, 'train__seq_length': 256, 'train__micro_batch_size': 2,
            'train__global_batch_size': 8}
    # Activations of 150 MiB in each of two micro-batches
    MANY = {'model__hidden_size': 256, 'model__intermediate_size': 768, 'model__num_hidden_layers': 6,
            'model__num_attention_heads': 4, 'model__num_key_value_heads': 4, 'model__max_position_embeddings': 256,
            'train__micro_batch_size': 8, 'train__global_batch_size': 16, 'train__seq_length': 256,
            'data__valid': 0.0, 'checkpoint__every': 0}

    def job(self, activations, steps=4, dp=1, tp=1, pp=1, zero=0, **changes):
        return self.document(steps, dp=dp, parallel__tp=tp, parallel__pp=pp, parallel__zero=zero,
                             resources__slots_per_node=dp * tp * pp, checkpoint__every=2, checkpoint__keep=9,
                             train__activation_offload=activations, **{**SHORT, **self.ROWS, **changes})

    def large(self, activations, **changes):
        return self.document(1, dp=1, train__activation_offload=activations, **self.MANY, **changes)

    def test_the_plan_of_both_keys_and_of_a_limit(self):
        both = self.large('saved', train__optimizer__offload='state')
        self.assertRegex(self.plan(both).stdout, r'\noffloaded   [0-9.]+ MiB of state and activations a rank: ')
        limit = {'parallel__recompute': 'auto', 'parallel__memory_limit': '380MiB'}
        again = [json.loads(self.plan(self.large(kind, **limit), '--json').stdout)['recompute']['flops_per_token']
                 for kind in ('none', 'saved')]
        self.assertGreater(again[0], 0)
        self.assertEqual(again[1], 0)


if __name__ == '__main__':
    unittest.main()
