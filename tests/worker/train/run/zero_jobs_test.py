#!/usr/bin/env python3
"""Ranks that share optimizer state (ZeRO) as processes: the numbers of one rank, bitwise resume."""
import json
import unittest

from pipeline_test import DOUBLE, SHORT
from ranks import RankCase


class Zero(RankCase):

    def shared(self, steps, dp=2, tp=1, pp=1, zero=1, **changes):
        """Returns a document for dp x tp x pp ranks."""
        return self.document(steps, dp=dp, parallel__tp=tp, parallel__pp=pp, parallel__zero=zero,
                             resources__slots_per_node=dp * tp * pp, **{**DOUBLE, **changes})

    def test_every_layout_trains_and_saves_as_one_rank_does(self):
        for tied, layouts in ((False, [{'tp': 2, 'zero': 3}]), (True, [{'tp': 2, 'pp': 2}])):
            changes = {**SHORT, 'model__tie_word_embeddings': tied}
            one = self.run_whole(1 + 10 * tied, 1, self.shared(3, dp=1, zero=0, **changes))
            for job, layout in enumerate(layouts, 2 + 10 * tied):
                with self.subTest(tied=tied, **layout):
                    run = self.run_whole(job, 1, self.shared(3, **layout, **changes))
                    self.expect_close(run.metrics(), one.metrics())
                    self.expect_close_tensors(run.doubles(3), one.doubles(3))
                    self.assertIn(f', zero {layout.get("zero", 1)}', run.log())

    def test_a_checkpoint_resumes_bitwise(self):
        changes = {'checkpoint__every': 2, 'checkpoint__keep': 9}
        whole = self.run_whole(1, 1, self.shared(4, **changes))
        same = self.run_whole(1, 2, self.shared(4, **changes), [pair for pair in whole.published if pair[0] == 2])
        self.assertEqual(same.metrics(), whole.metrics())
        self.assertEqual(same.weights(4), whole.weights(4))

    def test_bf16_resumes_bitwise(self):
        changes = {'checkpoint__every': 2, 'checkpoint__keep': 9, 'train__precision': 'bf16', 'zero': 3}
        whole = self.run_whole(1, 1, self.shared(4, **changes))
        same = self.run_whole(1, 2, self.shared(4, **changes), [pair for pair in whole.published if pair[0] == 2])
        self.assertEqual(same.metrics(), whole.metrics())
        self.assertEqual(same.weights(4), whole.weights(4))

    def test_the_plan_divides_the_optimizer_state(self):
        plans = [json.loads(self.plan(self.shared(1, dp=4, zero=zero), '--json').stdout) for zero in (0, 1, 2, 3)]
        whole, part, *same = [plan['memory_per_rank_bytes']['optimizer_moments'] for plan in plans]
        self.assertEqual(same, [part, part])
        self.assertEqual([plan['memory_per_rank_bytes']['gradients'] for plan in plans],
                         [whole // 2, whole // 2, part // 2, part // 2])
        self.assertEqual(part, whole // 4)  # 4 divides the rows of every tensor
        sent = plans[1]['communication_bytes_per_step']
        self.assertEqual(sent, {'gradients': 3 * part // 2, 'weights': 3 * part // 2})
        # Elements of the matrices of a layer, and of the embedding and the output layer; of all vectors
        layer, vocabulary, vectors = 96 * 32 + 32 * 32 + 128 * 32 + 32 * 64, 2 * 256 * 32, 9 * 32
        self.assertEqual(plans[3]['memory_per_rank_bytes']['weights'],
                         8 * ((4 * layer + vocabulary) // 4 + vectors + layer * 9 // 4))
        gathered = 2 * (2 * 4 * layer + vocabulary) // 4  # for two micro-batches; layers for backward, too
        self.assertEqual(plans[3]['communication_bytes_per_step'],
                         {'gradients': 2 * 3 * part // 2, 'weights': 3 * 8 * (gathered + vectors // 4)})

    def test_unknown_stages_are_refused(self):
        self.refused(self.shared(1, zero=4), 2, 'parallel.zero')


if __name__ == '__main__':
    unittest.main()
