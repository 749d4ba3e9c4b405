#!/usr/bin/env python3
"""Jobs with GPUs in parallel layouts. Their ranks train on a device whose memory the CPU cannot address.

roll-rank-simulated (tests/worker/train/device) takes the place of roll-rank-cuda in a copy of the programs.
"""
import json
import os
import shutil
import unittest

import harness
from harness import RollTest, json_of

PROGRAMS = ('rollctl', 'rolld', 'roll-worker', 'roll-rank', 'roll-convert')
PARALLEL = {'tp': 2, 'pp': 2, 'dp': 2, 'zero': 1, 'sequence': True}


class GpuJobs(RollTest):

    def setUp(self):
        super().setUp()
        built, copy = harness.BIN, os.path.join(self.top, 'bin')
        os.makedirs(copy)
        for name in PROGRAMS:
            shutil.copy2(os.path.join(built, name), copy)
        shutil.copy2(os.path.join(built, 'roll-rank-simulated'), os.path.join(copy, 'roll-rank-cuda'))
        harness.BIN = copy
        self.addCleanup(setattr, harness, 'BIN', built)
        self.env['PATH'] = f'{copy}:/usr/bin:/bin'
        self.corpus()
        self.ctl('up', '--slots', 2, '--gpus', 8)

    def job(self, name, gpus, parallel, **changes):
        resources = {'nodes': 1, 'gpus_per_node': gpus} if gpus else {'nodes': 1, 'slots_per_node': 1}
        # peak_tflops: the matrix products that measure a GPU's peak take minutes on a CPU
        settings = {'train__precision': 'fp64', 'train__micro_batch_size': 1, 'train__valid_every': 6,
                    'train__peak_tflops': 1,
                    'train__sample': {'every': 6, 'prompts': ['the'], 'max_tokens': 12}, **changes}
        return self.submit(self.train_job(name, steps=6, resources=resources, parallel=parallel, **settings))

    def numbers(self, job):
        return [(row['step'], row[key]) for row in self.metrics(job) for key in ('loss', 'valid_loss') if key in row]

    def assert_close(self, job, other, limit):
        seen, expected = self.numbers(job), self.numbers(other)
        self.assertEqual([step for step, _ in seen], [step for step, _ in expected])
        self.assertGreater(len(seen), 6)
        worst = max(abs(a - b) / abs(b) for (_, a), (_, b) in zip(seen, expected))
        print(f'largest relative difference of the losses: {worst:.2g}')
        self.assertLess(worst, limit)

    def samples(self, job):
        return [line.split('sample: ')[1] for line in self.ctl('logs', job).stdout.splitlines() if 'sample: ' in line]

    def test_a_job_in_a_layout_on_gpus_trains_samples_exports_and_resumes_like_one_rank(self):
        on_gpus = self.job('gpus', 8, PARALLEL)
        alone = self.job('alone', 0, {'dp': 1})
        ended = self.wait_done(on_gpus)
        self.wait_done(alone)
        self.assert_close(on_gpus, alone, 1e-10)
        self.assertEqual(self.samples(on_gpus), self.samples(alone))
        self.assertEqual(len(self.samples(alone)), 1)
        self.wait_done(ended['export_job'])
        memory = json_of(ended['output'], 'memory.json')
        self.assertEqual(len(memory['ranks']), 8)
        peaks = [(rank['peak'], memory['planned_stages'][rank['stage']]['peak']) for rank in memory['ranks']]
        print('measured and planned:', peaks)
        self.assertGreater(min(peaks[0]), 0)
        # the checkpoint of the GPUs continues on the CPU, and the other way round
        cpus, gpus = {'nodes': 1, 'slots_per_node': 2}, {'nodes': 1, 'gpus_per_node': 4}
        for source, resources, parallel in ((on_gpus, cpus, {'dp': 2}), (alone, gpus, {'dp': 2, 'tp': 2, 'zero': 3})):
            sets = (f'resources={json.dumps(resources)}', f'parallel={json.dumps(parallel)}', 'train.steps=8')
            options = [word for one in sets for word in ('--set', one)]
            done = int(self.ctl('resume', source, *options, '--parsable').stdout)
            self.wait_done(done)
            self.assertEqual([row['step'] for row in self.metrics(done) if 'loss' in row][-2:], [7, 8])

    def test_narrow_types_and_lora_train_on_gpus(self):
        base = self.wait_done(self.job('base', 4, {'pp': 2, 'vpp': 2, 'dp': 2, 'zero': 3}, train__precision='bf16',
                                       model__num_hidden_layers=4, train__optimizer__offload='state'))
        self.assertIn("offload: the optimizer's state is in pinned host memory", self.ctl('logs', base['id']).stdout)
        self.wait_done(base['export_job'])
        self.assertLess(self.numbers(base['id'])[-1][1], self.numbers(base['id'])[0][1])
        lora = self.job('lora', 2, {'tp': 2}, model={'from': os.path.join(base['output'], 'export', 'hf')},
                        train__lora={'r': 4, 'alpha': 8, 'dropout': 0.1}, train__precision='fp32')
        tuned = self.wait_done(lora)
        self.wait_done(tuned['export_job'])
        self.assertTrue(os.path.exists(os.path.join(tuned['output'], 'export', 'hf', 'adapter_config.json')))

    def test_packed_weights_and_8_bit_states_train_on_gpus_as_on_cpus(self):
        base = self.wait_done(self.job('base', 0, {'dp': 1}))
        self.wait_done(base['export_job'])
        changes = {'model': {'from': os.path.join(base['output'], 'export', 'hf')},
                   'train__lora': {'r': 4, 'alpha': 8, 'base': 'nf4', 'double_quantization': True},
                   'train__optimizer__kind': 'adamw_8bit'}
        on_gpus = self.job('packed', 4, {'tp': 2, 'dp': 2, 'zero': 3}, **changes)
        alone = self.job('alone', 0, {'dp': 1}, **changes)
        self.wait_done(on_gpus)
        self.wait_done(alone)
        self.assert_close(on_gpus, alone, 1e-10)


if __name__ == '__main__':
    unittest.main()
