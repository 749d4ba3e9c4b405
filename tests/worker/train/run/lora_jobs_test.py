#!/usr/bin/env python3
"""train.lora: a job trains an adapter, which PEFT reads, continues bitwise, and saves no weight of the base."""
import array
import json
import os
import shutil
import subprocess
import unittest

from ranks import CONVERT, RankCase, json_of, tensors_of

LORA = {'r': 4, 'alpha': 8}
VARIANTS = {**LORA, 'dora': True, 'dropout': 0.2, 'lr_ratio': 4, 'modules_to_save': ['lm_head']}
# layer 1 only, without k_proj
LAYERED = {**LORA, 'layers': [1], 'exclude': ['1.self_attn.k_proj'], 'rank_pattern': {r'layers\.1\.mlp\..*': 2}}
FILES = ('adapter_model.safetensors', 'adapter_config.json')


class LoraTest(RankCase):

    def setUp(self):
        super().setUp()
        self.base = self.base_model(self.document(2, dp=1))

    def lora(self, steps, lora=None, dp=1, **changes):
        return self.document(steps, dp=dp, **{'model': {'from': self.base}, 'train__lora': lora or LORA,
                                              'checkpoint__every': 3, **changes})

    def saved(self, run, step):
        folder, found = dict(run.published)[step], run.weights(step)
        for name in FILES:
            with open(os.path.join(folder, name), 'rb') as file:
                found[name] = file.read()
        return found

    def expect_continues(self, job, precision, lora=None, **parallel):
        document = self.lora(6, lora, train__precision=precision, **parallel)
        world = document['resources']['slots_per_node']
        whole = self.run_whole(job, 1, document)
        again = self.run_whole(job + 1, 1, document, checkpoints=whole.published[:1])
        self.assertIn('resumed at step 3', again.log())
        self.assertEqual(self.saved(whole, 6), self.saved(again, 6), (precision, world))
        self.assertNotEqual(self.saved(whole, 3)[FILES[0]], self.saved(whole, 6)[FILES[0]])
        return whole

    def test_a_job_continues_bitwise_and_saves_only_the_adapter(self):
        whole = self.expect_continues(1, 'fp32', dp=2)
        self.assertIn('parameters are frozen', whole.log())
        folder = whole.published[-1][1]
        self.assertFalse([name for name in os.listdir(folder) if name.startswith('iter_')])
        self.assertLess(os.path.getsize(os.path.join(folder, FILES[0])), 300_000)
        self.expect_continues(3, 'bf16', VARIANTS)
        self.expect_continues(5, 'bf16', dp=2, parallel__zero=1)

    def test_a_job_with_two_shards_of_two_stages_continues_bitwise(self):
        self.expect_continues(1, 'fp32', VARIANTS, resources={'nodes': 1, 'slots_per_node': 4},
                              parallel={'dp': 1, 'tp': 2, 'pp': 2, 'sequence': True})

    def test_another_adapter_is_not_continued(self):
        whole = self.run_whole(1, 1, self.lora(3))
        self.refused(self.lora(6, lora={'r': 4, 'alpha': 9}), 2, 'train.lora: lora_alpha is 9.0, but 8.0 in the '
                     'adapter', checkpoints=whole.published)
        self.refused(self.lora(6, lora={**LORA, 'layers': [2]}), 2, 'train.lora.layers: has 2; allowed: 0 to 1')
        self.refused(self.lora(6, lora={**LORA, 'targets': ['q_proj']}), 2, 'train.lora: target_modules is ["q_proj"]',
                     checkpoints=whole.published)
        plain = self.lora(6)
        del plain['train']['lora']
        self.refused(plain, 2, 'contains an adapter, but this job has no train.lora', checkpoints=whole.published)
        full = self.run_whole(2, 1, plain)
        self.refused(self.lora(9), 2, 'contains a whole model, but this job has train.lora', checkpoints=full.published)

    def test_the_plan_counts_only_the_factors_as_trained(self):
        done = self.plan(self.lora(6, train__precision='bf16'), '--json')
        self.assertEqual(done.returncode, 0, done.stderr)
        plan = json.loads(done.stdout)
        factors = 2 * 4 * (4 * (32 + 32) + 3 * (32 + 64))
        self.assertEqual(plan['parameters'] - plan['frozen_parameters'], factors)
        memory = plan['memory_per_rank_bytes']
        self.assertEqual(memory['weights'], 2 * plan['parameters'])
        self.assertEqual((memory['main_weights'], memory['gradients'], memory['optimizer_moments'],
                          memory['checkpoint_snapshot']), (2 * factors, 4 * factors, 8 * factors, 12 * factors))

    def losses(self, run):
        return [row['loss'] for row in run.metrics() if 'loss' in row]

    def test_a_packed_base_trains_in_every_layout_and_takes_few_bytes(self):
        packed = {**LORA, 'base': 'nf4', 'double_quantization': True}
        one = self.losses(self.run_whole(1, 1, self.lora(3, packed)))
        full = self.losses(self.run_whole(2, 1, self.lora(3)))
        self.assertGreater(abs(one[0] - full[0]), 1e-5)
        shared = self.losses(self.run_whole(3, 1, self.lora(3, packed, dp=2, parallel__zero=3)))
        split = self.lora(3, packed, resources={'nodes': 1, 'slots_per_node': 4}, parallel={'dp': 1, 'tp': 2, 'pp': 2})
        for other in (shared, self.losses(self.run_whole(4, 1, split))):
            for a, b in zip(one, other, strict=True):
                self.assertAlmostEqual(a, b, delta=2e-5)
        # A row of 32 or 64 inputs has 12 bytes for the scale of its one scale, 1 for the scale, and 16 or 32 of codes.
        # It is padded to a multiple of 8 bytes.
        saved = 2 * ((96 + 32 + 128) * (2 * 32 - 32) + 32 * (2 * 64 - 48))
        plans = [json.loads(self.plan(self.lora(3, lora, train__precision='bf16'), '--json').stdout)
                 for lora in (LORA, packed)]
        weights = [plan['memory_per_rank_bytes']['weights'] for plan in plans]
        self.assertEqual(plans[0]['parameters'], plans[1]['parameters'])
        self.assertEqual(weights[0] - weights[1], saved)

    def test_training_goes_on_upon_adapters(self):
        first = self.run_whole(1, 1, self.lora(3)).published[-1][1]
        second = self.run_whole(2, 1, self.lora(3, {'r': 2, 'alpha': 4, 'targets': ['q_proj', 'up_proj']}))
        below = [first, second.published[-1][1]]
        merged = [os.path.join(self.top, f'merged{i}') for i in range(2)]
        for base, adapter, target in ((self.base, below[0], merged[0]), (merged[0], below[1], merged[1])):
            subprocess.run([CONVERT, 'merge', base, adapter, target, '--to', 'hf', '--dtype', 'fp32'], check=True,
                           capture_output=True)
        upon = self.run_whole(3, 1, self.lora(3, model={'from': self.base, 'adapters': below}))
        self.assertIn('2 adapters merged', upon.log())
        for a, b in zip(self.losses(upon), self.losses(self.run_whole(4, 1, self.lora(3, model={'from': merged[1]}))),
                        strict=True):
            self.assertAlmostEqual(a, b, delta=1e-6)
        self.assertEqual(json_of(upon.published[-1][1], FILES[1])['base_adapters'], below)
        self.refused(self.lora(6), 2, 'train.lora: base_adapters is null', checkpoints=upon.published)
        self.refused(self.lora(3, model={'from': merged[1], 'adapters': below}), 2,
                     f'{first} is an adapter of {self.base}, not of model.from {merged[1]}')

    def factors(self, folder):
        """Returns {name: float32 bytes} of an adapter."""
        return {name: data for name, (_, data) in tensors_of(os.path.join(folder, FILES[0])).items()}

    def test_an_adapter_is_trained_further(self):
        """A learning rate of 1e-30 leaves every factor as the adapter has it, in each layout."""
        variants = {**VARIANTS, 'modules_to_save': []}
        first = self.run_whole(1, 1, self.lora(3, variants)).published[-1][1]
        further = {**variants, 'from': first}
        still = {'train__optimizer': {'lr': 1e-30, 'schedule': 'constant', 'weight_decay': 0.0}}
        four = {'nodes': 1, 'slots_per_node': 4}
        for job, parallel in ((2, {'dp': 1}), (3, {'dp': 2, 'zero': 3}), (4, {'dp': 1, 'tp': 2, 'pp': 2})):
            slots = four if 'tp' in parallel else {'nodes': 1, 'slots_per_node': parallel['dp']}
            run = self.run_whole(job, 1, self.lora(2, further, dp=1, resources=slots, parallel=parallel, **still))
            self.assertIn(f'starting from the adapter in {first}', run.log())
            self.assertEqual(self.factors(run.published[-1][1]), self.factors(first), parallel)
        # Training changes the factors, and a continued job does not start from the adapter again.
        whole = self.expect_continues(5, 'fp32', further)
        self.assertNotEqual(self.factors(whole.published[0][1]), self.factors(first))
        self.refused(self.lora(3, {**further, 'alpha': 9}), 2, 'train.lora: lora_alpha is 9.0, but 8.0 in the adapter '
                     f'{first} from which the job continues')
        self.refused(self.lora(3, {**further, 'from': self.base}), 2, 'adapter_config.json')
        other = shutil.copytree(self.base, os.path.join(self.top, 'other'))
        self.refused(self.lora(3, further, model={'from': other}), 2,
                     f'train.lora.from: {first} is an adapter of {self.base}, not of model.from')
        cut = shutil.copytree(first, os.path.join(self.top, 'cut'))
        os.truncate(os.path.join(cut, FILES[0]), 100)
        self.refused(self.lora(3, {**further, 'from': cut}), 2, os.path.join(cut, FILES[0]))

    def test_a_key_that_an_adapter_lacks_has_the_default_of_peft(self):
        lora = {'r': 8, 'alpha': 8}
        whole = self.run_whole(1, 1, self.lora(3, lora)).published[-1][1]
        short = shutil.copytree(whole, os.path.join(self.top, 'short'))
        with open(os.path.join(whole, FILES[1]), encoding='utf-8') as file:
            config = json.load(file)
        for key in ('r', 'lora_alpha', 'use_rslora', 'use_dora', 'rank_pattern', 'alpha_pattern', 'modules_to_save'):
            del config[key]
        with open(os.path.join(short, FILES[1]), 'w', encoding='utf-8') as file:
            json.dump(config, file)
        losses = [self.losses(self.run_whole(job, 1, self.lora(2, {**lora, 'from': adapter})))
                  for job, adapter in ((2, whole), (3, short))]
        self.assertEqual(*losses)
        self.refused(self.lora(3, {'r': 4, 'alpha': 8, 'from': short}), 2, 'train.lora: r is 4, but 8 in the adapter')

    def test_an_adapter_in_bf16_is_widened(self):
        first = self.run_whole(1, 1, self.lora(3)).published[-1][1]
        narrow = os.path.join(self.top, 'narrow')
        subprocess.run([CONVERT, 'convert', first, narrow, '--to', 'peft', '--dtype', 'bf16'], check=True,
                       capture_output=True)
        still = {'train__optimizer': {'lr': 1e-30, 'schedule': 'constant', 'weight_decay': 0.0}}
        run = self.run_whole(2, 1, self.lora(1, {**LORA, 'from': narrow}, **still))
        for name, data in self.factors(run.published[-1][1]).items():
            halves = array.array('H', self.factors(narrow)[name])
            self.assertEqual(array.array('I', data).tolist(), [half << 16 for half in halves], name)

    def test_the_average_of_an_adapter_is_an_adapter(self):
        """In fp64. With two shards of two stages, two replicas that share states, and weights trained whole."""
        changes = {'train__precision': 'fp64', 'train__ema': {'decay': 0.75}, 'checkpoint__every': 1,
                   'checkpoint__keep': 9}
        one = self.run_whole(1, 1, self.lora(3, {**LORA, 'modules_to_save': ['lm_head']}, **changes))
        tensors = lambda run, step, *folder: {name: array.array('d', data) for name, (_, data) in tensors_of(
            os.path.join(dict(run.published)[step], *folder, FILES[0])).items()}
        averages = {step: tensors(one, step, 'roll', 'ema') for step in (1, 2, 3)}
        for step in (2, 3):
            weights = tensors(one, step)
            self.expect_close_tensors(averages[step], {name: array.array('d', (
                old + 0.25 * (weights[name][i] - old) for i, old in enumerate(values)))
                for name, values in averages[step - 1].items()})
        self.assertIn('lm_head', ' '.join(averages[3]))
        for job, slots, parallel in ((2, 4, {'dp': 1, 'tp': 2, 'pp': 2}), (3, 2, {'dp': 2, 'zero': 1})):
            other = self.run_whole(job, 1, self.lora(3, {**LORA, 'modules_to_save': ['lm_head']}, **changes, dp=1,
                                                     resources={'nodes': 1, 'slots_per_node': slots},
                                                     parallel=parallel))
            self.expect_close_tensors(tensors(other, 3, 'roll', 'ema'), averages[3])
        plain = self.run_whole(4, 1, self.lora(1))
        done = subprocess.run([CONVERT, 'convert', plain.published[-1][1], os.path.join(self.top, 'x'), '--state',
                               'ema'], capture_output=True, text=True, check=False)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn('has no average of the weights', done.stderr)

    def expect_peft(self, checkpoint, weights, moved, *state):
        """Expects that PEFT reads the weights of a checkpoint, and merges them as roll-convert does."""
        adapter, merged = (os.path.join(self.top, name) for name in ('adapter', 'merged'))
        for words in (('convert', checkpoint, adapter, '--to', 'peft', *state),
                      ('merge', self.base, weights, merged, '--to', 'hf')):
            subprocess.run([CONVERT, *words], check=True, capture_output=True)
        found = json.loads(self.oracle('lora_adapter.py', self.base, weights, adapter, merged))
        print(found)
        self.assertEqual(found['adapter'], 0)
        self.assertGreater(found['base'], moved)
        self.assertLess(found['merged'], 1e-6)

    def test_peft_reads_the_average_of_an_adapter_and_merges_it_alike(self):
        run = self.run_whole(1, 1, self.lora(6, LAYERED, train__ema={'decay': 0.5}))
        checkpoint = run.published[-1][1]
        averaged = os.path.join(checkpoint, 'roll', 'ema')
        self.expect_peft(checkpoint, averaged, 1e-5, '--state', 'ema')
        self.assertNotEqual(self.factors(averaged), self.factors(checkpoint))

    def test_peft_reads_the_adapter_and_merges_it_alike(self):
        run = self.run_whole(1, 1, self.lora(6, {**VARIANTS, 'targets': ['q_proj', 'v_proj', 'up_proj'],
                                                'rslora': True, 'rank_pattern': {'up_proj': 2}}))
        self.expect_peft(run.published[-1][1], run.published[-1][1], 1e-4)


if __name__ == '__main__':
    unittest.main()
