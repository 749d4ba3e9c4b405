#!/usr/bin/env python3
"""Faults that ranks inject into themselves, and the comparison of replicas that finds a flipped bit."""
import csv
import os
import re
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
        faults = [(3, phase, 'kill', -9) for phase in ('forward', 'backward', 'reduce', 'optimizer')]
        faults += [(4, 'save', 'kill', -9), (3, 'reduce', 'exit', 1), (3, 'backward', 'nan', 3)]
        for job, (step, phase, kind, code) in enumerate(faults, 3):
            with self.subTest(phase=phase, kind=kind):
                attempt = Attempt(self, job, 1, self.faulty((1, step, phase, kind)), allow_faults=True)
                self.assertEqual(attempt.wait(), [76, code, 76], attempt.log(1))
                self.assertIn(f'fault: {kind} at step {step} in {phase}\n', attempt.log(1))
                self.assertLessEqual({at for at, _ in attempt.published}, {2})
                self.assertLess(attempt.metrics()[-1]['step'], step + (phase == 'save'))

    def test_a_full_disk_and_a_slow_rank_change_no_number(self):
        calm = self.run_whole(10, 1, self.faulty())
        full = self.run_whole(9, 1, self.faulty((1, 4, 'save', 'disk_full')), allow_faults=True)
        self.assertIn('fault: disk_full at step 4 in save\n', full.log(1))
        self.assertIn('the checkpoint of step 4 is postponed, and training continues: rank 1: no space left on the '
                      'device (train.faults)', full.log())
        self.assertEqual([row['step'] for row in full.metrics() if 'loss' in row], list(range(1, 9)))
        saved = [step for step, _ in full.published]
        self.assertNotIn(4, saved)
        self.assertEqual(saved[-1], 8)
        self.assertEqual(calm.metrics(), full.metrics())
        self.assertEqual(calm.weights(8), full.weights(8))

        document = self.faulty((1, 3, 'forward', 'slow'))
        document['train']['faults'][0]['ms'] = 700
        slow = self.run_whole(11, 1, document, allow_faults=True)
        self.assertEqual(slow.log(1).count('fault: slow at step 3 in forward\n'), 1)
        self.assertEqual(calm.metrics(), slow.metrics())

        def own_ms(rank):  # a moving average: after 6 slow steps, it has 47% of their time
            return [report['own_ms'] for at, report in slow.reports if at == rank and report['t'] == 'step'][-1]
        self.assertGreater(own_ms(1), own_ms(0) + 100)  # so roll-worker finds the straggler

    def test_a_rank_that_hangs_is_named_by_the_others(self):
        attempt = Attempt(self, 9, 1, self.faulty((1, 3, 'backward', 'hang'), parallel__collective_timeout='8s'),
                          allow_faults=True)
        self.assertEqual([attempt.ranks[other].wait(120) for other in (0, 2)], [76, 76], attempt.log())
        self.assertIsNone(attempt.ranks[1].poll())
        self.assertIn('fault: hang at step 3 in backward\n', attempt.log(1))
        for other in (0, 2):
            self.assertRegex(attempt.log(other), r'of group (dp|world), .* has waited \d+ s; rank 1 never issued '
                                                 'this transfer')
            file = os.path.join(os.path.dirname(attempt.launch), f'transfers-rank-{other}.tsv')
            self.assertIn(f'; the transfers are in {file}; the latest transfers:\n', attempt.log(other))
            with open(file, encoding='utf-8') as lines:
                rows = [line.rstrip('\n').split('\t') for line in lines]
            self.assertEqual(rows[0][:5], ['rank', 'group', 'sequence', 'number', 'transfer'])
            self.assertGreater(len(rows), 17)  # more than the log lists
            self.assertEqual({row[0] for row in rows[1:]}, {str(other)})
            self.assertEqual([row for row in rows[1:] if row[6] == 'not done'][-1], rows[-1])
        with open(os.path.join(os.path.dirname(attempt.launch), 'transfers.tsv'), encoding='utf-8') as lines:
            table = list(csv.DictReader(lines, delimiter='\t'))
        stuck = re.search(r'stuck: number (\d+) of group (\w+), (.*), has waited', attempt.log(0)).groups()
        row, = [row for row in table if (row['number'], row['group'], row['transfer']) == stuck]
        self.assertEqual([row[key] for key in ('ranks', 'came', 'not_done', 'never_came')],
                         ['0,1,2', '0,2', '0,2', '1'])


if __name__ == '__main__':
    unittest.main()
