#!/usr/bin/env python3
"""Checkpoints that all ranks write: any layout resumes any other, each byte is written once, damage is named."""
import glob
import json
import os
import pathlib
import shutil
import subprocess
import sys
import unittest

from ranks import CONVERT, DOUBLE, Attempt, RankCase, json_of

sys.path.append(str(pathlib.Path(__file__).resolve().parents[3]))
from shares import share  # noqa: E402

SIZES = {'model__vocab_size': 257, 'model__tie_word_embeddings': True, 'train__global_batch_size': 8}
LAYOUTS = ({'tp': 2, 'pp': 2, 'parallel__sequence': True}, {'dp': 2, 'cp': 2, 'parallel__zero': 3},
           {'pp': 4, 'schedule': 'zb-h1'}, {'tp': 2, 'dp': 2, 'parallel__zero': 2},
           {'pp': 2, 'vpp': 2, 'schedule': 'zb-v'})


class Reshard(RankCase):

    def of(self, steps, dp=1, tp=1, pp=1, cp=1, vpp=1, schedule='auto', **changes):
        """Returns a document for dp x tp x pp x cp ranks."""
        return self.document(steps, dp=dp, parallel__tp=tp, parallel__pp=pp, parallel__cp=cp, parallel__vpp=vpp,
                             parallel__schedule=schedule, resources__slots_per_node=dp * tp * pp * cp,
                             **{**DOUBLE, **SIZES, **changes})

    def resumed(self, job, start, steps, **layout):
        run = self.run_whole(job, 1, self.of(steps, kind='resume', **layout), [start], kind='resume')
        self.assertIn(f'resumed at step {start[0]} ', run.log())
        return run

    def expect_same(self, run, one, step):
        self.expect_close([row for row in run.metrics() if 'loss' in row],
                          [row for row in one.metrics() if 'loss' in row])
        self.expect_close_tensors(run.doubles(step), one.doubles(step))

    def test_any_layout_resumes_any_other(self):
        first = self.run_whole(1, 1, self.of(2, **LAYOUTS[0]))
        one = self.resumed(2, first.published[0], 4)
        for job, (layout, back) in share(enumerate(zip(LAYOUTS[1:], (*LAYOUTS[3:], *LAYOUTS[:2])), 3)):
            with self.subTest(layout=layout, back=back):
                run = self.resumed(job, first.published[0], 4, **layout)
                self.expect_same(run, one, 4)
                again = self.resumed(10 + job, run.published[-1], 6, **back)
                self.expect_same(again, self.resumed(20 + job, run.published[-1], 6), 6)

    def test_torch_dist_resumes_as_mca_does(self):
        often = {'checkpoint__every': 2, 'checkpoint__keep': 9}
        whole = self.run_whole(1, 1, self.of(4, **often, **LAYOUTS[0]))
        often['checkpoint__format'] = 'torch_dist'
        for job, (layout, back) in enumerate(((LAYOUTS[0], LAYOUTS[3]), (LAYOUTS[3], LAYOUTS[4])), 2):
            with self.subTest(layout=layout, back=back):
                run = self.run_whole(job, 1, self.of(4, **often, **layout))
                self.expect_close([row for row in run.metrics() if 'loss' in row],
                                  [row for row in whole.metrics() if 'loss' in row])
                at_2 = [pair for pair in run.published if pair[0] == 2]
                same = self.run_whole(job, 2, self.of(4, **often, **layout), at_2)
                self.assertIn('resumed at step 2 ', same.log())
                self.assertEqual(same.weights(4), run.weights(4))
                self.assertEqual(sum(path.endswith('.distcp') for path in run.weights(4)), 5)  # 4 ranks, and no tensors
                moved = self.run_whole(job + 10, 1, self.of(4, kind='resume', **back), at_2, kind='resume')
                self.expect_close_tensors(moved.doubles(4), whole.doubles(4))

    def test_the_export_of_every_layout_is_that_of_one_rank(self):
        first = self.run_whole(1, 1, self.of(1, train__precision='fp32', **LAYOUTS[0]))
        document = {'train__precision': 'fp32', 'export': 'none'}
        wanted = self.hf_of(first.published[0][1])
        for job, layout in enumerate(({}, LAYOUTS[3], LAYOUTS[4]), 2):
            run = self.run_whole(job, 1, self.of(1, kind='resume', **document, **layout), first.published,
                                 kind='resume')
            self.assertEqual(self.hf_of(run.published[-1][1]), wanted, layout)

    def hf_of(self, folder):
        target = os.path.join(self.top, f'hf-{len(os.listdir(self.top))}')
        subprocess.run([CONVERT, 'convert', folder, target, '--to', 'hf'], check=True, capture_output=True)
        with open(os.path.join(target, 'model.safetensors'), 'rb') as file:
            return file.read()

    def test_each_byte_is_written_once_and_the_replicas_write_alike(self):
        wide = {'model__hidden_size': 256, 'model__intermediate_size': 512, 'model__vocab_size': 4096,
                'model__tie_word_embeddings': False, 'train__precision': 'fp32'}
        attempt = Attempt(self, 1, 1, self.of(1, dp=2, tp=2, **wide))
        used = [os.wait4(process.pid, 0) for process in attempt.ranks]
        for process, (_, status, _) in zip(attempt.ranks, used):
            process.returncode = os.waitstatus_to_exitcode(status)
        self.assertEqual(attempt.wait(), [0] * 4, attempt.log())
        folder = attempt.published[0][1]
        sizes = {entry['path']: entry['size'] for entry in json_of(folder, 'roll/manifest.json')['files']}
        state = 12 * json.loads(self.plan(self.of(1, **wide), '--json').stdout)['parameters']
        self.assertLess(sum(sizes.values()), 1.02 * state)
        written = [512 * usage.ru_oublock for _, _, usage in used]
        print('bytes written by each rank:', written, 'state:', state)
        if min(written) > 0:  # the kernel does not count bytes of some file systems
            self.assertLess(sum(written), 1.02 * state + 4 * (256 << 10))
        for shard in (0, 1):
            pair = [sizes[f'roll/optimizer/rank-{rank:05}.safetensors'] for rank in (shard, 2 + shard)]
            weights = sizes[f'iter_0000001/mp_rank_{shard:02}/model_optim_rng.pt']
            pair[shard] += weights  # file f is written by replica f modulo dp
            self.assertLess(max(pair), 1.05 * sum(pair) / 2, pair)

        run = self.run_whole(2, 1, self.of(1, dp=2, tp=2, checkpoint__format='torch_dist', **wide))
        parts = [os.path.getsize(path) for path in glob.glob(run.published[0][1] + '/iter_*/__*_0.distcp')]
        self.assertLess(sum(parts), 1.02 * state)
        self.assertLess(max(parts), 1.05 * sum(parts) / 4, parts)

    def test_a_small_buffer_saves_the_same_bytes(self):
        wide = {'model__hidden_size': 128, 'model__vocab_size': 4096, 'train__precision': 'fp32'}
        for job, size in ((1, 1), (2, 2048)):
            run = self.run_whole(job, 1, self.of(2, dp=2, checkpoint__every=1, checkpoint__buffer_mib=size, **wide))
            if job == 1:
                small = run.weights(2)
        self.assertEqual(small, run.weights(2))
        self.assertGreater(max(map(len, small.values())), 2 << 20)

    def test_bf16_halves_are_joined_in_every_layout(self):
        half = {'train__precision': 'bf16', 'checkpoint__every': 1, 'checkpoint__keep': 9}
        for job, layout in enumerate(({'dp': 2, 'parallel__zero': 1, 'tp': 2}, {'pp': 2, 'dp': 2})):
            whole = self.run_whole(10 * job + 1, 1, self.of(2, **half, **layout))
            start = [pair for pair in whole.published if pair[0] == 1]
            same = self.run_whole(10 * job + 1, 2, self.of(2, **half, **layout), start)
            self.assertEqual(same.weights(2), whole.weights(2), layout)
            one = self.run_whole(10 * job + 2, 1, self.of(1, kind='resume', **half), start, kind='resume')
            self.assertEqual(self.hf_of(one.published[-1][1]), self.hf_of(start[0][1]))

    def test_a_damaged_shard_is_named_and_its_checkpoint_skipped(self):
        first = self.run_whole(1, 1, self.of(4, checkpoint__every=1, checkpoint__keep=9, **LAYOUTS[0]))
        folders = [path for _, path in first.published]
        shards = [os.path.join(folder, 'roll/optimizer/rank-00003.safetensors') for folder in folders]
        weights = glob.glob(os.path.join(folders[3], 'iter_*/mp_rank_01_001/*'))[0]
        shutil.copyfile(shards[0], shards[2])  # a shard of another step
        os.truncate(shards[1], os.path.getsize(shards[1]) - 1)
        os.remove(weights)
        second = self.run_whole(2, 1, self.of(4, kind='resume', **LAYOUTS[1]), reversed(first.published),
                                kind='resume')
        for told in ('mp_rank_01_001/model_optim_rng.pt is missing', 'does not match its checksum in the manifest',
                     'rank-00003.safetensors has '):
            self.assertIn(told, second.log())
        self.assertIn('resumed at step 1 ', second.log())


if __name__ == '__main__':
    unittest.main()
