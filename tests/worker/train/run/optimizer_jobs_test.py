#!/usr/bin/env python3
"""train.optimizer.kind and groups in jobs: every layout, bitwise resume, resharding, the plan, refusals."""
import json
import os
import unittest

from pipeline_test import DOUBLE, SHORT
from ranks import RankCase

GROUPS = [{'match': '*layernorm*|embedding.*', 'lr_scale': 0.5}, {'match': 'output_layer.*', 'weight_decay': 0}]


class OptimizerTest(RankCase):

    def of_kind(self, rule, steps=4, dp=1, tp=1, pp=1, zero=0, **changes):
        document = self.document(steps, dp=dp, parallel__tp=tp, parallel__pp=pp, parallel__zero=zero,
                                 resources__slots_per_node=dp * tp * pp, checkpoint__every=2, checkpoint__keep=9,
                                 **{**SHORT, **changes})
        document['train']['optimizer'].update(kind=rule, groups=GROUPS)
        return document

    def test_a_checkpoint_resumes_bitwise_and_in_other_layouts(self):
        layouts = {'muon': ({'tp': 2, 'dp': 2, 'zero': 1}, {'dp': 2, 'zero': 2}),
                   'lion': ({'dp': 2, 'zero': 1}, {'pp': 2}), 'sgd': ({'dp': 2}, {'tp': 2})}
        for job, (kind, (layout, other)) in enumerate(layouts.items()):
            with self.subTest(kind=kind):
                document = self.of_kind(kind, **layout, **DOUBLE)
                whole = self.run_whole(10 * job, 1, document)
                at_2 = [pair for pair in whole.published if pair[0] == 2]
                same = self.run_whole(10 * job, 2, document, at_2)
                self.assertIn('resumed at step 2', same.log())
                self.assertEqual(same.metrics(), whole.metrics())
                self.assertEqual(same.weights(4), whole.weights(4))
                moved = self.run_whole(10 * job + 1, 1, self.of_kind(kind, kind='resume', **other, **DOUBLE), at_2,
                                       kind='resume')
                self.expect_close_tensors(moved.doubles(4), whole.doubles(4))

    def test_bf16_resumes_bitwise_and_the_loss_falls(self):
        for job, kind in enumerate(('muon', 'lion', 'adam')):
            document = self.of_kind(kind, steps=6, dp=2, train__precision='bf16')
            document['train']['optimizer']['lr'] = {'muon': 2e-2, 'lion': 1e-3, 'adam': 3e-3}[kind]
            whole = self.run_whole(10 * job, 1, document)
            losses = [row['loss'] for row in whole.metrics() if 'loss' in row]
            self.assertLess(losses[-1], losses[0] - 0.1, kind)
            same = self.run_whole(10 * job, 2, document, [pair for pair in whole.published if pair[0] == 4])
            self.assertEqual(same.weights(6), whole.weights(6), kind)

    def test_the_plan_tells_the_bytes_of_each_state(self):
        def plan_of(kind, *words):
            return self.plan(self.of_kind(kind), *words).stdout
        plans = {kind: json.loads(plan_of(kind, '--json')) for kind in ('adamw', 'muon', 'lion', 'sgd')}
        states = {kind: plan['optimizer']['state_bytes'] for kind, plan in plans.items()}
        every = 4 * plans['adamw']['parameters']
        self.assertEqual(states['adamw'], {'exp_avg': every, 'exp_avg_sq': every})
        self.assertEqual(states['lion'], {'exp_avg': every})
        self.assertEqual(states['sgd'], {})
        moved = states['muon']
        self.assertEqual(moved['momentum_buffer'] + moved['exp_avg'], every)
        self.assertEqual(moved['exp_avg'], moved['exp_avg_sq'])
        for kind, plan in plans.items():
            self.assertEqual(plan['memory_per_rank_bytes']['optimizer_moments'], sum(states[kind].values()))
            self.assertEqual(plan['checkpoint_bytes']['optimizer'], sum(states[kind].values()))
        self.assertIn('optimizer   sgd, no state\n', plan_of('sgd'))
        self.assertIn('optimizer   muon, state of the model: momentum_buffer ', plan_of('muon'))

    def test_refuses_other_state_and_patterns_without_a_parameter(self):
        lion = self.run_whole(1, 1, self.of_kind('lion', steps=2))
        self.refused(self.of_kind('muon'), 2, 'train.optimizer.kind: muon cannot continue ', checkpoints=lion.published)
        document = self.of_kind('adamw')
        document['train']['optimizer']['groups'] = [{'match': '*norm*|embeding.*', 'lr': 0}]
        self.refused(document, 2, "train.optimizer.groups[0].match: no parameter's name matches embeding.*; names are")
        self.assertTrue(os.path.exists(lion.published[-1][1]))


if __name__ == '__main__':
    unittest.main()
