#!/usr/bin/env python3
"""objective: distill as jobs: the teacher's stored values, layouts, continued jobs, and refused teachers."""
import glob
import json
import os
import unittest

from ranks import RankCase
from sft_test import write_pairs

TEACHER = {'family': 'llama', 'hidden_size': 48, 'intermediate_size': 64, 'num_hidden_layers': 3,
           'num_attention_heads': 4, 'num_key_value_heads': 2, 'vocab_size': 256, 'max_position_embeddings': 64}


class DistillTest(RankCase):

    def setUp(self):
        super().setUp()
        self.teacher = self.base_model(self.document(30, dp=1, model=TEACHER, train__optimizer__lr=1e-2))

    def student(self, steps, dp=1, base='pretrain', weight=1, top_k=16, **changes):
        teacher = {'from': self.teacher, 'top_k': top_k, 'temperature': 2, 'weight': weight}
        return self.document(steps, dp=dp, **{
            'objective': {'kind': 'distill', 'base': base, 'teacher': teacher}, 'train__precision': 'fp64',
            'train__valid_at_start': True, 'train__optimizer__lr': 1e-2, **changes})

    def stored(self):
        return glob.glob(os.path.join(self.top, 'tokens', 'teacher-*', '*.topk'))

    def test_a_student_comes_closer_to_its_teacher_in_every_layout(self):
        one = self.run_whole(1, 1, self.student(12))
        self.assertRegex(one.log(), r'computing its predictions for \d+ windows')
        rows = one.metrics()
        falls = [row['teacher_kl'] for row in rows if 'teacher_kl' in row]
        held_out = [row['valid_teacher_kl'] for row in rows if 'valid_teacher_kl' in row]
        print(f'divergence {falls[0]:.4f} to {falls[-1]:.4f}, held out {held_out[0]:.4f} to {held_out[-1]:.4f}')
        self.assertLess(falls[-1], 0.8 * falls[0])
        self.assertLess(held_out[-1], 0.8 * held_out[0])
        for row in rows:
            if 'loss' in row:  # with the weight 1, the loss is the square of the temperature times the divergence
                self.assertAlmostEqual(row['loss'], 4 * row['teacher_kl'], delta=1e-10)
        # The next jobs find the values, in other layouts, too.
        for job, slots, parallel in ((2, 2, {'tp': 2, 'sequence': True}), (3, 2, {'dp': 2, 'zero': 3})):
            run = self.run_whole(job, 1, self.student(12, resources={'nodes': 1, 'slots_per_node': slots},
                                                      parallel=parallel))
            self.assertRegex(run.log(), r'predictions for \d+ windows, 0 of them computed')
            self.expect_close(run.metrics(), rows)
        # A half-written record is ignored. The teacher computes the rest in two stages of two shards.
        path, = self.stored()
        self.assertGreater(os.path.getsize(path), 12 * 8 * 32 * 16 * 8)  # samples, targets, K, bytes
        os.truncate(path, os.path.getsize(path) // 2 + 5)
        again = self.run_whole(4, 1, self.student(12, resources={'nodes': 1, 'slots_per_node': 4},
                                                  parallel={'tp': 2, 'pp': 2, 'sequence': True}))
        self.assertRegex(again.log(), r'windows, [1-9]\d* of them computed')
        self.assertEqual(len(self.stored()), 2)
        for mine, row in zip(again.metrics(), rows, strict=True):
            for key in ('loss', 'valid_teacher_kl'):  # float32 rounds the stored values
                self.assertAlmostEqual(mine.get(key, 0), row.get(key, 0), delta=1e-6)

    def test_the_values_belong_to_their_targets(self):
        """A model does not diverge from itself. Prompts, documents and padding keep the values in place."""
        pairs = write_pairs(os.path.join(self.top, 'pairs.jsonl'), 60)
        for job, changes in ((1, {}), (2, {'base': 'sft', 'data': {'train': [pairs], 'valid': 0.1}}),
                             (3, {'base': 'sft', 'data': {'train': [pairs], 'valid': 0.1},
                                  'train__lora': {'r': 2, 'alpha': 4}})):
            run = self.run_whole(job, 1, self.student(1, model={'from': self.teacher}, top_k=256, weight=0.5,
                                                      train__optimizer__lr=0.0, train__optimizer__min_lr=0.0,
                                                      **changes))
            for row in run.metrics():
                for key in ('teacher_kl', 'valid_teacher_kl'):
                    self.assertLess(abs(row.get(key, 0)), 1e-6, row)
        self.assertEqual(len(self.stored()), 2)  # the adapter's job has found the values of the job before

    def test_a_job_continues_bitwise_and_notices_another_teacher(self):
        changes = {'weight': 0.5, 'train__precision': 'bf16', 'checkpoint__every': 2}
        whole = self.run_whole(1, 1, self.student(4, **changes))
        again = self.run_whole(2, 1, self.student(4, **changes), whole.published[:1])
        self.assertIn('resumed at step 2', again.log())
        self.assertEqual(again.weights(4), whole.weights(4))
        self.assertEqual(again.metrics(), whole.metrics())
        # More steps need more values, which a changed teacher would not give.
        os.utime(os.path.join(self.teacher, 'config.json'), (1, 1))
        self.refused(self.student(8, **changes), 2, f'the teacher {self.teacher} has changed since the job started',
                     checkpoints=whole.published)

    def test_refuses_a_teacher_that_does_not_fit_and_plans_for_one_that_does(self):
        wider = self.exported(self.run_whole(1, 1, self.document(1, dp=1, model={**TEACHER, 'vocab_size': 320})),
                              'wider')
        document = self.student(2)
        document['objective']['teacher']['from'] = wider
        self.refused(document, 2, f'objective.teacher.from: {wider} has a vocabulary of 320 tokens, but the trained '
                     'model has 256; set model.vocab_size to 320, or name another teacher')
        self.refused(self.student(2, top_k=257), 2, 'objective.teacher.top_k is 257; allowed: at most 256')
        done = self.plan(self.student(2), '--json')
        teacher = json.loads(done.stdout)['teacher']
        self.assertEqual((teacher['directory'], teacher['stored_bytes_per_token']), (self.teacher, 128))
        self.assertEqual(teacher['weight_bytes_per_rank'], 8 * teacher['parameters'])
        self.assertIn('teacher     ', self.plan(self.student(2)).stdout)


if __name__ == '__main__':
    unittest.main()
