#!/usr/bin/env python3
"""Jobs that train models with experts: layouts, resumes, exports, plans and refusals."""
import json
import subprocess
import unittest

from rank_test import BITS_PER_BYTE
from ranks import DOUBLE, ORACLE, SHORT, RankCase

EXPERTS = {'model__family': 'mixtral', 'model__num_local_experts': 5, 'model__num_experts_per_tok': 2,
           'model__router_aux_loss_coef': 0.1}


class ExpertJobs(RankCase):

    def job(self, steps, dp=1, tp=1, pp=1, zero=0, **changes):
        return self.document(steps, dp=dp, parallel__tp=tp, parallel__pp=pp, parallel__zero=zero,
                             resources__slots_per_node=dp * tp * pp, **{**DOUBLE, **EXPERTS, **changes})

    def test_layouts_train_validate_sample_and_save_as_one_rank_does(self):
        one = self.run_whole(1, 1, self.job(4, **SHORT))
        rows = [row for row in one.metrics() if 'loss' in row]
        self.assertTrue(all(1 <= row['balance_loss'] < 3 and 1 < row['expert_load'] <= 2.5 for row in rows), rows)
        self.assertIn('balance', one.log())
        for job, layout in enumerate(({'dp': 2, 'pp': 2, 'parallel__schedule': 'zb-h1', 'zero': 1},
                                      {'dp': 2, 'tp': 2, 'zero': 3, 'parallel__recompute': 'full'}), 2):
            with self.subTest(**layout):
                run = self.run_whole(job, 1, self.job(4, **layout, **SHORT))
                self.expect_close(run.metrics(), one.metrics())
                self.expect_close_tensors(run.doubles(4), one.doubles(4))

    def test_bf16_resumes_bitwise(self):
        document = self.job(4, dp=2, zero=2, train__precision='bf16', checkpoint__every=2, checkpoint__keep=9)
        whole = self.run_whole(1, 1, document)
        same = self.run_whole(1, 2, document, [pair for pair in whole.published if pair[0] == 2])
        self.assertEqual(same.metrics(), whole.metrics())
        self.assertEqual(same.weights(4), whole.weights(4))

    def test_transformers_finds_the_same_bits_per_byte_in_the_export(self):
        run = self.run_whole(1, 1, self.job(4, dp=2, train__precision='fp32'))
        export = self.exported(run, 'export')
        alone = {'PATH': '/usr/bin:/bin', 'HF_HUB_OFFLINE': '1', 'OMP_NUM_THREADS': '1'}
        done = subprocess.run([ORACLE, '-c', BITS_PER_BYTE, self.corpus, '0.005', '32', export], check=True,
                              capture_output=True, text=True, env=alone)
        told = [row['valid_bits_per_byte'] for row in run.metrics() if 'valid_loss' in row][-1]
        self.assertAlmostEqual(float(done.stdout), told, delta=1e-5)
        further = self.run_whole(2, 1, self.document(1, dp=1, model={'from': export, 'router_aux_loss_coef': 0}))
        self.assertLess(further.metrics()[0]['loss'], 5.4)  # an untrained model has 5.55

    def test_plans_count_the_experts_of_a_token(self):
        plan = json.loads(self.plan(self.job(1), '--json').stdout)
        expert = 3 * 32 * 64
        self.assertEqual(plan['parameters'] - plan['active_parameters'], 4 * 3 * expert)
        dense = json.loads(self.plan(self.document(1, **DOUBLE), '--json').stdout)
        router = 5 * 32
        self.assertEqual(plan['flops_per_token']['causal'] - dense['flops_per_token']['causal'],
                         6 * 4 * (expert + router))
        self.assertIn('of them used for each token', self.plan(self.job(1)).stdout)

    def test_what_is_not_built_is_refused(self):
        for changes, text in (({'parallel__ep': 2}, 'parallel.ep'),
                              ({'parallel__cp': 2}, 'parallel.cp'),
                              ({'train__lora': {'r': 4, 'alpha': 8}}, 'the model has experts')):
            with self.subTest(**changes):
                done = self.plan(self.job(1, **changes))
                self.assertNotEqual(done.returncode, 0)
                self.assertIn(text, done.stdout + done.stderr)


if __name__ == '__main__':
    unittest.main()
