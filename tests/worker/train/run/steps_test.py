#!/usr/bin/env python3
"""Steps that differ: batch sizes by tokens, exact over resume; samples balanced over replicas, and outlier
micro-batches that are split, with the same losses and weights."""
import unittest

from preference_jobs_test import write_pairs
from ranks import RankCase

# clip_grad is below the norm of every step, so a wrong norm changes the weights.
DOUBLE = {'train__precision': 'fp64', 'train__optimizer__clip_grad': 0.5, 'train__optimizer__warmup_steps': 0,
          'train__global_batch_size': 16}


class Steps(RankCase):

    def laid(self, steps, dp=1, pp=1, **changes):
        return self.document(steps, dp=dp, parallel__pp=pp, resources__slots_per_node=dp * pp,
                             **{**DOUBLE, **changes})

    def pairs(self, steps, **changes):
        return self.laid(steps, **{'objective': 'orpo', 'data__train': [write_pairs(self.top + '/pairs.jsonl', 80)],
                                   **changes})

    @staticmethod
    def without(rows, *keys):
        return [{key: value for key, value in row.items() if key not in keys} for row in rows]

    def test_batch_sizes_change_exactly_at_their_thresholds_and_over_resume(self):
        # 640 tokens are 20 samples of 32 tokens: five steps of 4, exactly up to the threshold; then steps of 8.
        # 1,000 tokens are 31.25 samples: two more steps of 8, and the step from sample 36 on is above it.
        sizes = [4] * 5 + [8] * 2 + [16] * 2
        changes = {'train__batch_size_schedule': '0:4 640:8 1K:16', 'checkpoint__every': 1, 'checkpoint__keep': 20}
        whole = self.run_whole(1, 1, self.laid(9, dp=2, pp=2, **changes))
        steps = [row for row in whole.metrics() if 'loss' in row]
        self.assertEqual([row['batch_size'] for row in steps], sizes)
        self.assertEqual([row['tokens'] for row in steps], [32 * sum(sizes[:i + 1]) for i in range(9)])
        for step in (4, 5, 6):
            again = self.run_whole(1, 2 + step, self.laid(9, dp=2, pp=2, **changes),
                                   [pair for pair in whole.published if pair[0] == step])
            self.assertEqual(again.metrics(), whole.metrics())
            self.assertEqual(again.weights(9), whole.weights(9))
        fours = {'train__global_batch_size': 4, 'train__optimizer__decay_steps': 9}
        same = self.run_whole(2, 1, self.laid(5, dp=2, pp=2, **fours))
        self.expect_close([row for row in same.metrics() if 'loss' in row], self.without(steps[:5], 'batch_size'))

    def test_balanced_samples_train_as_samples_in_order_do(self):
        plain = self.run_whole(1, 1, self.pairs(5, dp=2))
        for job, changes in enumerate(({}, {'pp': 2}, {'parallel__zero': 2}), 2):
            run = self.run_whole(job, 1, self.pairs(5, **{'dp': 2, 'train__balance': True, **changes}))
            self.expect_close(self.without(run.metrics(), 'reduced'), self.without(plain.metrics(), 'reduced'))
            self.expect_close_tensors(run.doubles(5), plain.doubles(5))
        self.assertNotEqual(run.weights(5), plain.weights(5))  # the order of a sum did change

    def test_a_large_micro_batch_is_split_with_the_same_gradient(self):
        plain = self.run_whole(1, 1, self.pairs(5, dp=2, train__micro_batch_size=4))
        for job, changes in enumerate(({}, {'pp': 2}, {'parallel__zero': 2}, {'train__balance': True}), 2):
            run = self.run_whole(job, 1, self.pairs(5, **{'dp': 2, 'train__micro_batch_size': 4,
                                                          'train__microbatch_limit': '300KiB', **changes}))
            steps = [row for row in run.metrics() if 'loss' in row]
            self.assertTrue(any(row.get('split_microbatches', 0) > 0 for row in steps), steps)
            self.expect_close(self.without(run.metrics(), 'split_microbatches', 'reduced'),
                              self.without(plain.metrics(), 'reduced'))
            self.expect_close_tensors(run.doubles(5), plain.doubles(5))


if __name__ == '__main__':
    unittest.main(verbosity=2)
