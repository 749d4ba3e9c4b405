#!/usr/bin/env python3
"""Early stopping, and the best checkpoint."""
import os
import signal
import unittest

from ranks import Attempt, RankCase, json_of


class StopTest(RankCase):

    def state(self, run, step):
        return json_of(dict(run.published)[step], 'roll', 'state.json')

    def overfitting(self, **changes):
        """Returns a job that overfits 600 bytes, so that its held-out loss falls and then rises."""
        with open(self.corpus, 'r+b') as file:
            file.truncate(700)
        return self.document(400, dp=1, data__valid=0.15, train__valid_every=5, train__optimizer__lr=1e-2,
                             train__optimizer__schedule='constant', checkpoint__keep=1, **changes)

    def test_ends_when_validation_gets_no_better_and_keeps_the_best_checkpoint(self):
        run = self.run_whole(1, 1, self.overfitting(checkpoint__keep_best=True, train__early_stop={'patience': 3}))
        losses = {row['step']: row['valid_loss'] for row in run.metrics() if 'valid_loss' in row}
        best = min(losses, key=losses.get)
        last = max(losses)
        self.assertLess(last, 400)
        self.assertEqual(last, best + 15)
        self.assertIn(f'stopped early at step {last}: none of the last 3 values of valid_loss improved on the '
                      f'best earlier value by more than 0; the best valid_loss was at step {best}\n', run.log())
        left = sorted(os.listdir(os.path.join(run.output, 'checkpoints')))
        self.assertEqual(left, [f'step-{best:08}.1-1', f'step-{last:08}.1-1'])
        state = self.state(run, last)
        self.assertEqual((state['best_step'], state['stale_validations']), (best, 3))
        self.assertEqual(state['best'], {'metric': 'valid_loss', 'value': losses[best], 'mode': 'min'})
        # If it is resumed as another job, it trains on.
        job = self.run_whole(2, 1, self.overfitting(kind='resume', train__early_stop={'patience': 3}),
                             reversed(run.published[-1:]), kind='resume')
        self.assertGreaterEqual(max(row['step'] for row in job.metrics()), last + 15)
        # If it is run again, it stops at once; with more patience it goes on.
        again = self.run_whole(1, 2, self.overfitting(train__early_stop={'patience': 3}), reversed(run.published[-1:]))
        self.assertEqual(again.metrics(), run.metrics())
        more = self.run_whole(1, 3, self.overfitting(train__early_stop={'patience': 4}), reversed(run.published[-1:]))
        self.assertEqual(max(row['step'] for row in more.metrics()), last + 5)

    def test_the_best_that_is_recorded_stays_if_the_best_is_not(self):
        changes = {'checkpoint__every': 5, 'checkpoint__keep_best': True, 'train__early_stop': {'patience': 3}}
        document = self.overfitting(**changes)
        document['checkpoint']['keep'] = 99
        run = self.run_whole(1, 1, document)
        losses = {row['step']: row['valid_loss'] for row in run.metrics() if 'valid_loss' in row}
        best, last = min(losses, key=losses.get), max(losses)
        self.assertEqual(last, best + 15)
        folders = dict(run.published)
        before = min((step for step in losses if step < best), key=losses.get)
        known = [(step, folders[step]) for step in (last, best + 5, before)]
        changes['train__early_stop'] = {'patience': 4}
        again = self.run_whole(1, 2, self.overfitting(**changes), known)
        self.assertEqual([report['step'] for report in again.said('pruned')], [last, best + 5])

    def test_a_long_validation_ends_if_the_job_is_told_to_stop(self):
        held_out = os.path.join(self.top, 'held_out.txt')
        with open(held_out, 'wb') as file:
            file.write(bytes(range(97, 122)) * 800_000)
        document = self.document(4, dp=2, data={'train': [self.corpus], 'valid': {'long': held_out}},
                                 train__valid_every=2)
        attempt = Attempt(self, 1, 1, document)
        attempt.wait_step(2)
        attempt.ranks[1].send_signal(signal.SIGTERM)
        self.assertEqual(attempt.wait(), [75, 75])
        self.assertIn('step 2  the job stops, so its measurement is not completed\n', attempt.log())
        self.assertFalse([row for row in attempt.metrics() if 'valid_loss/long' in row or 'valid_loss' in row])
        self.assertEqual([step for step, _ in attempt.published], [2])

    def test_what_is_lower_by_too_little_is_no_better_but_the_lowest_still(self):
        run = self.run_whole(1, 1, self.overfitting(train__early_stop={'patience': 1, 'min_delta': 5}))
        self.assertIn('stopped early at step 10: none of the last 1 values of valid_loss improved on the best '
                      'earlier value by more than 5; the best valid_loss was at step 10\n', run.log())

    def test_any_metric_decides(self):
        with open(self.corpus, 'rb') as file:
            text = file.read()
        other = os.path.join(self.top, 'other.txt')
        with open(other, 'wb') as file:
            file.write(bytes(reversed(text[:400])))
        valid = {'own': 0.15, 'other': other}
        rules = {'train__early_stop': {'patience': 3, 'metric': 'valid_perplexity/other', 'mode': 'max'},
                 'train__best': {'metric': 'valid_bits_per_byte/other'}, 'data__track': 'own'}
        document = self.overfitting(checkpoint__keep_best=True, checkpoint__every=5, **rules)
        document['data']['valid'] = valid
        document['checkpoint']['keep'] = 99
        run = self.run_whole(1, 1, document)
        rows = [row for row in run.metrics() if 'valid_loss' in row]
        bits = {row['step']: row['valid_bits_per_byte/other'] for row in rows}
        values = {row['step']: row['valid_perplexity/other'] for row in rows}
        best, last = min(bits, key=bits.get), max(bits)
        highest = max(values, key=values.get)
        self.assertEqual(last, highest + 15)
        self.assertIn(f'stopped early at step {last}: none of the last 3 values of valid_perplexity/other improved',
                      run.log())
        state = self.state(run, last)
        self.assertEqual(state['best'], {'metric': 'valid_bits_per_byte/other', 'value': bits[best], 'mode': 'min'})
        self.assertEqual((state['best_step'], state['stale_validations']), (best, 3))
        # An attempt that begins anew at an earlier checkpoint counts on from there.
        again = self.run_whole(1, 2, document, [pair for pair in run.published if pair[0] == last - 5])
        self.assertEqual(again.metrics(), run.metrics())
        document['train']['best'] = {'metric': 'valid_f1'}
        self.refused(document, 2, 'train.best.metric: valid_f1 is not measured by this job; allowed: valid_loss, ')

    def test_a_stopped_job_counts_on_where_it_was(self):
        document = self.overfitting(checkpoint__every=1, train__early_stop={'patience': 2, 'min_delta': 0.01})
        whole = self.run_whole(1, 1, document)
        first = Attempt(self, 2, 1, document)
        first.wait_step(max(row['step'] for row in whole.metrics()) - 4)
        first.ranks[0].kill()
        first.wait()
        second = self.run_whole(2, 2, document, reversed(first.published))
        self.assertEqual(second.metrics(), whole.metrics())


if __name__ == '__main__':
    unittest.main()
