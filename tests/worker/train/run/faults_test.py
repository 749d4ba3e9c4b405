#!/usr/bin/env python3
"""Faults that ranks inject into themselves, and the comparison of replicas that finds a flipped bit."""
import unittest

from ranks import Attempt, RankCase


class Faults(RankCase):

    def faulty(self, *faults, **changes):
        keys = ('rank', 'step', 'phase', 'kind')
        return self.document(8, dp=3, train__global_batch_size=12, train__check_replicas=2, checkpoint__every=2,
                             checkpoint__keep=9, train__faults=[dict(zip(keys, fault)) for fault in faults], **changes)

    def test_a_flipped_bit_ends_the_attempt_before_a_checkpoint_has_it(self):
        attempt = Attempt(self, 1, 1, self.faulty((2, 3, 'optimizer', 'flip')), allow_faults=True)
        self.assertEqual(attempt.wait(), [1, 76, 76], attempt.log())
        self.assertIn('after step 4, output_layer.weight differs between replicas: the copy of rank 2 differs from '
                      'the copy of ranks 0 and 1; memory or a processor of one of these ranks may be damaged',
                      [report['message'] for report in attempt.said('failed')])
        self.assertIn('fault: flip at step 3 in optimizer\n', attempt.log(2))
        self.assertEqual([step for step, _ in attempt.published], [2])
        # the same job without the fault, and without permission for faults
        whole = self.run_whole(2, 1, self.faulty())
        self.assertEqual(whole.metrics()[:3], attempt.metrics()[:3])
        self.refused(self.faulty((2, 3, 'optimizer', 'flip')), 2, 'does not allow faults; start it with --allow-faults')
        self.refused(self.faulty((3, 3, 'save', 'kill')), 2, 'rank 3 does not exist; the job has ranks 0 to 2',
                     allow_faults=True)

    def test_each_kind_ends_the_rank_in_its_phase(self):
        faults = [(3, 'forward', 'kill', -9), (3, 'reduce', 'exit', 1), (3, 'backward', 'nan', 3),
                  (4, 'save', 'kill', -9)]
        for job, (step, phase, kind, code) in enumerate(faults, 3):
            with self.subTest(phase=phase, kind=kind):
                attempt = Attempt(self, job, 1, self.faulty((1, step, phase, kind)), allow_faults=True)
                self.assertEqual(attempt.wait(), [76, code, 76], attempt.log(1))
                self.assertIn(f'fault: {kind} at step {step} in {phase}\n', attempt.log(1))
                self.assertLessEqual({at for at, _ in attempt.published}, {2})
                self.assertLess(attempt.metrics()[-1]['step'], step + (phase == 'save'))

    def test_a_rank_that_hangs_is_named_by_the_others(self):
        attempt = Attempt(self, 9, 1, self.faulty((1, 3, 'backward', 'hang'), parallel__collective_timeout='8s'),
                          allow_faults=True)
        self.assertEqual([attempt.ranks[other].wait(120) for other in (0, 2)], [76, 76], attempt.log())
        self.assertIsNone(attempt.ranks[1].poll())
        self.assertIn('fault: hang at step 3 in backward\n', attempt.log(1))
        for other in (0, 2):
            self.assertRegex(attempt.log(other), r'of group (dp|world), .* has waited \d+ s; rank 1 never issued '
                                                 'this transfer')


if __name__ == '__main__':
    unittest.main()
