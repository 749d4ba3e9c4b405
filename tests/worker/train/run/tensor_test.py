#!/usr/bin/env python3
"""Tensor parallelism as real processes: the numbers of one rank, and bitwise resume."""
import json
import unittest

from pipeline_test import DOUBLE, SHORT
from ranks import Attempt, RankCase


class Tensor(RankCase):

    def split(self, steps, dp=1, tp=2, pp=1, **changes):
        """Returns a document for tp x dp x pp ranks."""
        return self.document(steps, dp=dp, parallel__tp=tp, parallel__pp=pp, resources__slots_per_node=dp * tp * pp,
                             **{**DOUBLE, **changes})

    def test_every_layout_trains_validates_samples_and_saves_as_one_rank_does(self):
        rows = {'parallel__sequence': True}
        for tied, layouts in ((False, [{'pp': 2, **rows}]), (True, [{'dp': 2, **rows}, {'pp': 2, 'dp': 2}])):
            changes = {**SHORT, 'model__tie_word_embeddings': tied}
            one = self.run_whole(1 + 10 * tied, 1, self.split(6, tp=1, **changes))
            for job, layout in enumerate(layouts, 2 + 10 * tied):
                with self.subTest(tied=tied, **layout):
                    run = self.run_whole(job, 1, self.split(6, **layout, **changes))
                    self.expect_close(run.metrics(), one.metrics())
                    self.expect_close_tensors(run.doubles(6), one.doubles(6))

    def test_a_checkpoint_resumes_bitwise(self):
        for job, sequence in enumerate((False, True), 1):
            document = self.split(6, parallel__sequence=sequence, checkpoint__every=3, checkpoint__keep=9)
            whole = self.run_whole(job, 1, document)
            same = self.run_whole(job, 2, document, [pair for pair in whole.published if pair[0] == 3])
            self.assertEqual(same.metrics(), whole.metrics())
            self.assertEqual(same.weights(6), whole.weights(6))

    def test_plans_the_parts_of_a_rank(self):
        document = self.split(1, dp=2, pp=2, model__vocab_size=257)
        plan = json.loads(self.plan(document, '--json').stdout)
        self.assertEqual(plan['mesh']['world_size'], 8)
        self.assertEqual(plan['ranks'][3], {'rank': 3, 'dp': 1, 'tp': 1, 'pp': 0, 'cp': 0})
        layer = 4 * 32 * 32 // 2 + 3 * 32 * 64 // 2 + 2 * 32
        rows = 129  # of 257
        self.assertEqual([stage['parameters_per_rank'] for stage in plan['stages']],
                         [2 * layer + rows * 32, 2 * layer + rows * 32 + 32])
        self.assertEqual([stage['weights'] for stage in plan['memory_per_stage_bytes']],
                         [8 * stage['parameters_per_rank'] for stage in plan['stages']])
        # Each stage sums the rows of 2 layers four times, and once more at its end. 4 micro-batches of 2 x 32 tokens.
        self.assertEqual(plan['communication_bytes_per_step']['tensor'], 9 * 4 * 64 * 32 * 8)
        self.assertIn('2 ranks\n', self.plan(document).stdout)

    def test_a_step_that_is_not_finite_is_named(self):
        rates = {'lr': 1e30, 'schedule': 'constant', 'clip_grad': 0.0}
        attempt = Attempt(self, 1, 1, self.split(40, train__precision='fp32', train__optimizer=rates))
        codes = attempt.wait()
        message, = [report['message'] for report in attempt.said('failed') if 'at step' in report['message']]
        self.assertRegex(message, r'is not finite at step \d+ on rank [01] \(samples \d+ to \d+\); first non-finite '
                                  r'value: the (weight|loss|gradient)')
        self.assertEqual(sorted(codes), [3, 76], attempt.log())

    def test_bf16_trains(self):
        one = self.run_whole(1, 1, self.split(3, tp=1, train__precision='bf16'))
        two = self.run_whole(2, 1, self.split(3, train__precision='bf16'))
        rows = [[row for row in run.metrics() if 'loss' in row] for run in (two, one)]
        for mine, theirs in zip(*rows, strict=True):
            self.assertLess(abs(mine['loss'] - theirs['loss']), 0.02, (mine, theirs))

    def test_what_does_not_divide_is_refused(self):
        self.refused(self.split(1, tp=3), 2, 'parallel.tp is 3, which does not divide model.num_attention_heads 2')
        self.refused(self.split(1, tp=1, parallel__sequence=True), 2, 'parallel.tp is 1')
        self.refused(self.split(1, tp=4, model__num_attention_heads=4), 2, 'a multiple of model.num_key_value_heads 2')


if __name__ == '__main__':
    unittest.main()
