#!/usr/bin/env python3
"""Layouts as real processes: the numbers of one rank, bitwise resumes, plans and refusals. reshard_test.py resumes
each layout in others."""
import json
import unittest

from ranks import DOUBLE, SHORT, RankCase

ROWS = {'tp': 2, 'parallel__sequence': True}


class LayoutJobs(RankCase):

    def split(self, steps, dp=1, tp=1, pp=1, cp=1, vpp=1, schedule='auto', zero=0, **changes):
        """Returns a document for dp x tp x pp x cp ranks."""
        return self.document(steps, dp=dp, parallel__tp=tp, parallel__pp=pp, parallel__cp=cp, parallel__vpp=vpp,
                             parallel__zero=zero, parallel__schedule=schedule,
                             resources__slots_per_node=dp * tp * pp * cp, **{**DOUBLE, **changes})

    def test_every_layout_trains_validates_samples_and_saves_as_one_rank_does(self):
        for tied, layouts in (
                (False, [{'pp': 4, 'schedule': 'zb-h1'}, {'pp': 2, 'vpp': 2, 'schedule': 'zb-v'}, {'pp': 2, **ROWS},
                         {'tp': 2, 'dp': 2, 'zero': 3}, {'cp': 2, 'dp': 2, 'zero': 1}]),
                (True, [{'pp': 2, 'dp': 2, 'vpp': 2}, {'pp': 2, 'vpp': 2, 'schedule': 'dualpipe-v'}, {'dp': 2, **ROWS},
                        {'tp': 2, 'pp': 2, 'dp': 2}, {'tp': 2, 'pp': 2, 'dp': 2, 'zero': 1}])):
            changes = {**SHORT, 'model__tie_word_embeddings': tied}
            one = self.run_whole(1 + 10 * tied, 1, self.split(4, **changes))
            steps = [row for row in one.metrics() if 'loss' in row]
            self.assertEqual({row['clip_factor'] < 1 for row in steps}, {True})
            self.assertEqual(len([row for row in one.metrics() if 'text' in row]), 2)
            for job, layout in enumerate(layouts, 2 + 10 * tied):
                with self.subTest(tied=tied, **layout):
                    document = self.split(4, **layout, **changes)
                    run = self.run_whole(job, 1, document)
                    self.expect_close(run.metrics(), one.metrics())
                    self.expect_close_tensors(run.doubles(4), one.doubles(4))
                    for axis in set(layout) & {'tp', 'pp', 'cp', 'zero'}:
                        self.assertIn(f', {axis} {layout[axis]}', run.log())
                    if 'pp' in layout:
                        chosen = json.loads(self.plan(document, '--json').stdout)['pipeline']['schedule']
                        self.assertIn(f', schedule {chosen}, fp64, ', run.log())
                        self.assertEqual(run.said('progress')[-1]['p']['schedule'], chosen)

    def test_each_layout_resumes_bitwise(self):
        changes = {'checkpoint__every': 2, 'checkpoint__keep': 9}
        for job, layout in enumerate(({'pp': 2}, {'tp': 2}, ROWS, {'cp': 2}, {'dp': 2, 'zero': 1},
                                      {'dp': 2, 'zero': 3, 'train__precision': 'bf16'})):
            with self.subTest(**layout):
                document = self.split(4, **layout, **changes)
                whole = self.run_whole(job, 1, document)
                same = self.run_whole(job, 2, document, [pair for pair in whole.published if pair[0] == 2])
                self.assertEqual(same.metrics(), whole.metrics())
                self.assertEqual(same.weights(4), whole.weights(4))

    def test_bf16_trains_on_shards(self):
        one = self.run_whole(1, 1, self.split(3, train__precision='bf16'))
        two = self.run_whole(2, 1, self.split(3, tp=2, train__precision='bf16'))
        rows = [[row for row in run.metrics() if 'loss' in row] for run in (two, one)]
        for mine, theirs in zip(*rows, strict=True):
            self.assertLess(abs(mine['loss'] - theirs['loss']), 0.02, (mine, theirs))

    def test_plans_the_parts_of_a_rank(self):
        document = self.split(1, dp=2, tp=2, pp=2, model__vocab_size=257, train__global_batch_size=16)
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

    def test_the_plan_divides_the_optimizer_state(self):
        documents = [self.split(1, dp=4, zero=zero, train__global_batch_size=16) for zero in (0, 1, 2, 3)]
        plans = [json.loads(self.plan(document, '--json').stdout) for document in documents]
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
        self.refused(self.split(1, dp=2, zero=4), 2, 'parallel.zero')


if __name__ == '__main__':
    unittest.main()
