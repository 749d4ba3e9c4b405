#!/usr/bin/env python3
"""train.optimizer.kind and groups in jobs: every layout, bitwise resume, resharding, the plan, refusals."""
import array
import json
import os
import subprocess
import unittest

from ranks import CONVERT, DOUBLE, SHORT, RankCase, tensors_of

GROUPS = [{'match': '*layernorm*|embedding.*', 'lr_scale': 0.5}, {'match': 'output_layer.*', 'weight_decay': 0}]
# the layout of each optimizer's jobs
LAYOUTS = {'muon': {'tp': 2, 'dp': 2, 'zero': 1}, 'lion': {'dp': 2, 'zero': 1}, 'sgd': {'dp': 2}, 'adam': {'dp': 2},
           'adafactor': {'tp': 2, 'dp': 2, 'zero': 1}, 'adamw_8bit': {'dp': 2, 'zero': 2}, 'adamw_bf16': {'tp': 2}}


class OptimizerTest(RankCase):

    def state_names(self, run, step):
        folder = os.path.join(dict(run.published)[step], 'roll', 'optimizer')
        return {name for file in os.listdir(folder) if file.endswith('.safetensors')
                for name in dict(tensors_of(os.path.join(folder, file)))}

    def of_kind(self, rule, steps=4, dp=1, tp=1, pp=1, zero=0, **changes):
        document = self.document(steps, dp=dp, parallel__tp=tp, parallel__pp=pp, parallel__zero=zero,
                                 resources__slots_per_node=dp * tp * pp, checkpoint__every=2, checkpoint__keep=9,
                                 **{**SHORT, **changes})
        document['train']['optimizer'].update(kind=rule, groups=GROUPS)
        return document

    def test_a_checkpoint_resumes_in_other_layouts(self):
        others = {'muon': {'dp': 2, 'zero': 2}, 'lion': {'pp': 2}, 'sgd': {'tp': 2},
                  'adafactor': {'pp': 2, 'dp': 2, 'zero': 3}, 'adamw_8bit': {'tp': 2, 'dp': 2, 'zero': 1},
                  'adamw_bf16': {'dp': 2, 'zero': 3}}
        for job, (kind, other) in enumerate(others.items()):
            with self.subTest(kind=kind):
                whole = self.run_whole(10 * job, 1, self.of_kind(kind, **LAYOUTS[kind], **DOUBLE))
                at_2 = [pair for pair in whole.published if pair[0] == 2]
                moved = self.run_whole(10 * job + 1, 1, self.of_kind(kind, kind='resume', **other, **DOUBLE), at_2,
                                       kind='resume')
                self.assertIn('resumed at step 2', moved.log())
                self.expect_close_tensors(moved.doubles(4), whole.doubles(4))

    def test_the_optimizer_of_a_job_with_frozen_parameters_goes_on(self):
        changes = {'checkpoint__every': 2, 'checkpoint__keep': 9, 'train__optimizer__schedule': 'constant'}
        whole = self.run_whole(1, 1, self.document(4, dp=1, model__freeze=['embedding.*'], **changes))
        changes['model'] = {'from': dict(whole.published)[2], 'optimizer': True}
        again = self.run_whole(2, 1, self.document(4, dp=1, **changes, model__freeze=['embedding.*']))
        self.assertEqual([row['loss'] for row in again.metrics() if 'loss' in row],
                         [row['loss'] for row in whole.metrics() if 'loss' in row][2:])
        self.assertEqual(again.weights(4)['roll/optimizer/rank-00000.safetensors'],
                         whole.weights(4)['roll/optimizer/rank-00000.safetensors'])
        del changes['model']['freeze']
        thawed = self.run_whole(3, 1, self.document(3, dp=1, **changes))
        self.assertIn(' had frozen these parameters, so their optimizer state begins at 0: '
                      'embedding.word_embeddings.weight\n', thawed.log())

    def test_bf16_resumes_bitwise_and_the_loss_falls(self):
        rates = {'muon': 2e-2, 'lion': 1e-3, 'sgd': 1e-1, 'adam': 3e-3, 'adafactor': 1e-2, 'adamw_8bit': 3e-3,
                 'adamw_bf16': 3e-3}
        for job, kind in enumerate(rates):
            document = self.of_kind(kind, steps=6, **LAYOUTS[kind], train__precision='bf16',
                                    train__ema={'decay': 0.5})
            document['train']['optimizer']['lr'] = rates[kind]
            whole = self.run_whole(10 * job, 1, document)
            losses = [row['loss'] for row in whole.metrics() if 'loss' in row]
            self.assertLess(losses[-1], losses[0] - 0.1, kind)
            if kind == 'adamw_8bit':
                self.assertTrue(any(name.endswith('.state1') for name in self.state_names(whole, 6)))
            same = self.run_whole(10 * job, 2, document, [pair for pair in whole.published if pair[0] == 4])
            self.assertEqual(same.metrics(), whole.metrics(), kind)
            self.assertEqual(same.weights(6), whole.weights(6), kind)

    def test_the_plan_tells_the_bytes_of_each_state(self):
        def plan_of(kind, *words):
            return self.plan(self.of_kind(kind), *words).stdout
        kinds = ('adamw', 'muon', 'lion', 'sgd', 'adafactor', 'adamw_8bit', 'adamw_bf16')
        plans = {kind: json.loads(plan_of(kind, '--json')) for kind in kinds}
        states = {kind: plan['optimizer']['state_bytes'] for kind, plan in plans.items()}
        every = 4 * plans['adamw']['parameters']
        self.assertEqual(states['adamw'], {'exp_avg': every, 'exp_avg_sq': every})
        self.assertEqual(states['adamw_bf16'], {'exp_avg': every // 2, 'exp_avg_sq': every // 2})
        self.assertEqual(states['lion'], {'exp_avg': every})
        self.assertEqual(states['sgd'], {})
        moved = states['muon']
        self.assertEqual(moved['momentum_buffer'] + moved['exp_avg'], every)
        self.assertEqual(moved['exp_avg'], moved['exp_avg_sq'])
        self.assertLess(sum(states['adafactor'].values()), every // 10)
        coded = states['adamw_8bit']
        self.assertEqual(coded['state1'] * 4 + coded['exp_avg'], every)
        self.assertEqual(coded['absmax1'] * 64, coded['state1'])
        averaged = json.loads(self.plan({**self.of_kind('adafactor', train__ema={'decay': 0.9})}, '--json').stdout)
        self.assertEqual(averaged['optimizer']['state_bytes'], {**states['adafactor'], 'ema': every})
        self.assertEqual(averaged['memory_per_rank_bytes']['optimizer_moments'],
                         plans['adafactor']['memory_per_rank_bytes']['optimizer_moments'] + every)
        for kind, plan in plans.items():
            self.assertEqual(plan['memory_per_rank_bytes']['optimizer_moments'], sum(states[kind].values()))
            self.assertEqual(plan['checkpoint_bytes']['optimizer'], sum(states[kind].values()))
        self.assertIn('optimizer   sgd, no state\n', plan_of('sgd'))
        self.assertIn('optimizer   muon, state for the whole model: momentum_buffer ', plan_of('muon'))

    def test_the_average_follows_the_weights_and_is_exported(self):
        def averages(run, step):
            folder = dict(run.published)[step]
            out = os.path.join(run.output, f'average-{step}')
            subprocess.run([CONVERT, 'convert', folder, out, '--to', 'hf', '--state', 'ema', '--overwrite'], check=True,
                           capture_output=True)
            tensors = tensors_of(os.path.join(out, 'model.safetensors'))
            return {name: array.array('d', data) for name, (_, data) in dict(tensors).items()}

        changes = {'train__ema': {'decay': 0.75, 'every': 2}, 'train__evaluation': {'weights': 'ema'}, **DOUBLE}
        document = self.of_kind('muon', steps=5, dp=2, tp=2, zero=1, **changes)
        document['checkpoint']['every'] = 1
        document['train']['valid_every'] = 1
        document['model']['tie_word_embeddings'] = True
        document['train']['optimizer']['groups'] = []
        whole = self.run_whole(1, 1, document)
        before = averages(whole, 3)
        self.assertEqual(before, averages(whole, 2))
        weights = whole.doubles(4)
        self.expect_close_tensors(averages(whole, 4), {name: array.array('d', (
            old + 0.25 * (weights[name][i] - old) for i, old in enumerate(values))) for name, values in before.items()})
        losses = [row['valid_loss'] for row in whole.metrics() if 'valid_loss' in row]
        self.assertEqual(losses[1], losses[2])  # the average of step 2 is that of step 3
        self.assertNotEqual(losses[2], losses[3])
        at_2 = [pair for pair in whole.published if pair[0] == 2]
        same = self.run_whole(1, 2, document, at_2)
        self.assertEqual(same.weights(5), whole.weights(5))
        self.assertEqual(same.metrics(), whole.metrics())
        other = self.of_kind('muon', steps=5, kind='resume', pp=2, dp=2, zero=2, **changes)
        other['model']['tie_word_embeddings'] = True
        other['train']['optimizer']['groups'] = []
        moved = self.run_whole(2, 1, other, at_2, kind='resume')
        self.expect_close_tensors(averages(moved, 5), averages(whole, 5))
        # A job without an average has none to export.
        plain = self.run_whole(3, 1, self.of_kind('sgd', steps=2))
        done = subprocess.run([CONVERT, 'convert', plain.published[-1][1], os.path.join(self.top, 'x'), '--state',
                               'ema'], capture_output=True, text=True, check=False)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn('has no average of the weights', done.stderr)

    def test_refuses_other_state_and_patterns_without_a_parameter(self):
        lion = self.run_whole(1, 1, self.of_kind('lion', steps=2))
        self.refused(self.of_kind('muon'), 2, 'train.optimizer.kind: muon cannot continue ', checkpoints=lion.published)
        muon = self.run_whole(2, 1, self.of_kind('muon', steps=2))  # its vectors have the states of AdamW
        self.refused(self.of_kind('adamw', model={'from': dict(muon.published)[2], 'optimizer': True}), 2,
                     ' has no optimizer state exp_avg of ')
        document = self.of_kind('adamw')
        document['train']['optimizer']['groups'] = [{'match': '*norm*|embeding.*', 'lr': 0}]
        self.refused(document, 2, "train.optimizer.groups[0].match: no parameter's name matches embeding.*; names are")
        self.assertTrue(os.path.exists(lion.published[-1][1]))


if __name__ == '__main__':
    unittest.main()
