#!/usr/bin/env python3
"""A sample that makes a step a spike, and a gradient that is wrong once: what the job does in each layout."""
import json
import random
import re
import unittest

from ranks import Attempt, RankCase

STEPS, ROWS, LENGTH = 60, 8, 32
ODD = 293  # a window of one of the later steps


class Spike(RankCase):

    def setUp(self):
        super().setUp()
        with open(self.corpus, 'r+b') as file:
            file.truncate(STEPS * ROWS * LENGTH + 1)
            file.seek(ODD * LENGTH)
            file.write(bytes(random.Random(1).choices(range(128, 256), k=LENGTH)))

    def guarded(self, policy='skip', dp=1, **changes):
        document = self.document(STEPS, dp=dp, data__valid=0.0, train__on_spike=policy, train__precision='fp64',
                                 train__spike={'deviations': 5, 'window': 32}, checkpoint__every=5,
                                 checkpoint__keep=99, **changes)
        if policy == 'ignore':
            del document['train']['spike']
        return document

    def split(self, tp, dp=1, **changes):
        document = self.guarded(dp=dp, parallel__pp=2, parallel__tp=tp, **changes)
        document['resources']['slots_per_node'] = dp * tp * 2
        return document

    def test_every_layout_skips_the_same_step(self):
        one = self.run_whole(1, 1, self.guarded())
        rows = one.metrics()
        self.assertEqual(len(rows), STEPS)
        bad, = [row['step'] for row in rows if row.get('skipped')]
        self.assertGreater(bad, 20)
        self.assertEqual([row['step'] for row in rows if 'spike' in row], [bad])
        told = re.search(r'the (loss|gradient norm) of step (\d+) is a spike: (\S+) is above the limit (\S+); the '
                         r'median of the last (\d+) applied steps is (\S+) \(samples (\d+) to (\d+)\); the step is '
                         r'skipped\n', one.log())
        self.assertTrue(told, one.log())
        self.assertEqual(told[1].replace('gradient norm', 'grad_norm'), rows[bad - 1]['spike'])
        self.assertEqual([int(told[i]) for i in (2, 5, 7, 8)],
                         [bad, min(bad - 1, 32), (bad - 1) * ROWS, bad * ROWS - 1])
        self.assertTrue(float(told[6]) < float(told[4]) < float(told[3]))
        told = f'1 of {STEPS} steps were skipped because of a spike or a value that is not finite\n'
        self.assertEqual(one.log().count(told), 1, one.log())
        self.assertEqual(one.said('progress')[-1]['p']['skipped_steps'], 1)
        # The step is not applied, but its samples count as consumed.
        self.assertEqual([row['tokens'] for row in rows], [ROWS * LENGTH * (i + 1) for i in range(STEPS)])
        others = [self.guarded(dp=2), self.guarded(dp=2, parallel__zero=3), self.split(1), self.split(2)]
        for job, document in enumerate(others, 2):
            other = self.run_whole(job, 1, document)
            self.assertEqual([row['step'] for row in other.metrics() if row.get('skipped')], [bad])
            self.expect_close(other.metrics(), rows)
        # Without a policy, the step is applied, and the state holds no earlier steps.
        ignored = self.run_whole(9, 1, self.guarded('ignore'))
        self.assertFalse(any(row.get('skipped') for row in ignored.metrics()))
        self.assertEqual(ignored.metrics()[:bad - 1], rows[:bad - 1])
        self.assertNotEqual(ignored.metrics()[bad], rows[bad])
        self.assertNotIn('recent', json.loads(ignored.weights(STEPS)['roll/state.json']))
        self.assertEqual(len(json.loads(one.weights(STEPS)['roll/state.json'])['recent']['losses']), 32)

    def test_a_killed_job_decides_as_if_it_had_not_been_killed(self):
        whole = self.run_whole(1, 1, self.guarded(dp=2))
        bad, = [row['step'] for row in whole.metrics() if row.get('skipped')]
        first = Attempt(self, 2, 1, self.guarded(dp=2))
        first.wait_step(bad - 1)
        first.kill()
        before = [(step, path) for step, path in reversed(first.published) if step < bad]
        second = self.run_whole(2, 2, self.guarded(dp=2), before)
        self.assertIn(f'resumed at step {before[0][0]} ', second.log())
        self.assertEqual(second.metrics(), whole.metrics())
        self.assertEqual(second.weights(STEPS), whole.weights(STEPS))
        self.assertIn(f'1 of {STEPS} steps were skipped', second.log())

    def test_rewind_leaves_the_samples_out(self):
        document = self.guarded('rewind', dp=2)
        first = Attempt(self, 1, 1, document)
        self.assertEqual(first.wait(), [1, 76], first.log())
        message, = [report['message'] for report in first.said('failed') if 'is a spike' in report['message']]
        told = re.fullmatch(r'the .* of step (\d+) is a spike: .* \(samples (\d+) to (\d+)\); samples \2 to \3 are '
                            r'left out from now on', message)
        self.assertTrue(told, message)
        step, begin, end = map(int, told.groups())
        self.assertEqual((begin, end), ((step - 1) * ROWS, step * ROWS - 1))
        second = self.run_whole(1, 2, document, reversed(first.published))
        self.assertIn(f'left out: samples {begin} to {end}, because the loss or the gradient of their step was not '
                      'finite or too high\n', second.log())
        self.assertEqual([row['step'] for row in second.metrics() if row.get('skipped')], [step])
        self.assertFalse(any('spike' in row for row in second.metrics()))
        self.assertIn(f'{ROWS} samples were left out after a return to an earlier checkpoint ({begin} to {end})\n',
                      second.log())
        self.assertEqual(second.said('progress')[-1]['p']['left_out_samples'], ROWS)
        self.assertEqual(second.metrics()[-1]['tokens'], (STEPS - 1) * ROWS * LENGTH)

    def test_stop_ends_the_job(self):
        attempt = Attempt(self, 1, 1, self.guarded('stop', dp=2))
        self.assertEqual(attempt.wait(), [3, 76], attempt.log())
        message, = [report['message'] for rank, report in attempt.reports if report['t'] == 'failed' and rank == 0]
        self.assertRegex(message, r'^the .* of step \d+ is a spike: ')

    def test_a_glitch_is_told_from_a_bad_step_and_a_retry_undoes_it(self):
        whole = self.run_whole(1, 1, self.split(1))
        bad, = [row['step'] for row in whole.metrics() if row.get('skipped')]
        step = 25 if bad > 25 else 35
        faults = [{'rank': 1, 'step': step, 'phase': 'reduce', 'kind': 'glitch'}]
        first = Attempt(self, 2, 1, self.split(1, train__faults=faults), allow_faults=True)
        self.assertEqual(first.wait(), [76, 1], first.log(1))
        self.assertIn(f'fault: glitch at step {step} in reduce\n', first.log(1))
        message, = [report['message'] for report in first.said('failed') if 'two results: ' in report['message']]
        self.assertRegex(message, rf'^computing step {step} twice from the same weights and samples gave two results: '
                                  r'loss (\S+), then \1; gradient norm 1000\S+, then \S+; only the gradients of rank 1 '
                                  r'differ; memory or a processor may be damaged$')
        self.assertEqual(first.metrics(), whole.metrics()[:step - 1])
        second = self.run_whole(2, 2, self.split(1), reversed(first.published))
        self.assertEqual(second.metrics(), whole.metrics())
        self.assertEqual(second.weights(STEPS), whole.weights(STEPS))
        # A glitch of one replica is in the sums of both. A wrong copy of a sum is on one replica only.
        for job, zero, phase in ((3, 0, 'reduce'), (4, 3, 'reduce'), (5, 0, 'optimizer'), (6, 1, 'optimizer')):
            faults[0]['phase'] = phase
            both = Attempt(self, job, 1, self.guarded(dp=2, parallel__zero=zero, train__faults=faults),
                           allow_faults=True)
            self.assertEqual(both.wait(), [76, 1], both.log())
            message, = [report['message'] for report in both.said('failed') if 'two results: ' in report['message']]
            self.assertIn('; only the gradients of rank 1 differ; ', message, (zero, phase))
            self.assertEqual([row['step'] for row in both.metrics()], list(range(1, step)))
        self.refused({**self.guarded(), 'train': {**self.guarded()['train'], 'faults': faults}}, 2,
                     'rank 1 does not exist', allow_faults=True)


if __name__ == '__main__':
    unittest.main()
