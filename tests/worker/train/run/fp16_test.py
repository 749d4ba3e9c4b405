#!/usr/bin/env python3
"""float16 with a dynamic loss scale: overflows, metrics, resume, refusals."""
import json
import unittest

from ranks import RankCase, json_of

# The scale is so large at first that several steps overflow; later it grows again.
SCALED = {'train__precision': 'fp16', 'checkpoint__every': 4, 'checkpoint__keep': 10,
          'train__loss_scale': {'initial': 2.0**30, 'growth_interval': 6, 'hysteresis': 2}}


class Fp16Test(RankCase):

    def test_overflows_lower_the_scale_and_a_resumed_run_has_the_same_bits(self):
        document = self.document(28, **SCALED)
        whole = self.run_whole(1, 1, document)
        rows = [row for row in whole.metrics() if 'loss' in row]
        self.assertEqual(len(rows), 28)
        skipped = [row for row in rows if row.get('skipped')]
        self.assertGreater(len(skipped), 4)
        scale, good, tolerated, goods = 2.0**30, 0, 1, []
        for number, row in enumerate(rows):
            self.assertEqual(row['loss_scale'], scale)
            good = 0 if row.get('skipped') else good + 1
            if row.get('skipped'):
                self.assertIsNone(row['grad_norm'])
                scale, tolerated = (scale, tolerated - 1) if tolerated else (scale / 2, 0)
            elif good == 6:
                scale, good, tolerated = scale * 2, 0, 1
            goods.append(good)
            self.assertEqual(row['overflows'], sum(1 for one in rows[:number + 1] if one.get('skipped')))
        # A skipped step does not move the learning rate's schedule on, as in Megatron.
        for before, row in zip(rows, rows[1:]):
            self.assertEqual(row['lr'] == before['lr'], bool(before.get('skipped')), row)
        scales = [row['loss_scale'] for row in rows]
        self.assertGreater(max(scales[scales.index(min(scales)):]), min(scales))
        self.assertLess(rows[-1]['loss'], 0.9 * rows[0]['loss'])
        self.assertIn('overflows', whole.log())
        # The first checkpoint was saved while the scale was still falling.
        step, folder = whole.published[0]
        saved = json_of(folder, 'roll/state.json')
        self.assertTrue(rows[step]['skipped'])
        self.assertEqual((saved['dtype'], saved['loss_scale']['scale'], saved['loss_scale']['overflows']),
                         ('fp16', rows[step]['loss_scale'], step))
        # In the same layout the bits are the same, and with two ranks' state shared, the skips are.
        again = self.run_whole(2, 1, document, [(step, folder)], kind='resume')
        self.assertEqual([row for row in again.metrics() if row['step'] > step],
                         [row for row in whole.metrics() if row['step'] > step])
        self.assertEqual(again.weights(28), whole.weights(28))
        # A checkpoint between two raises of the scale has the number of good steps since the first.
        late, directory = next(point for point in whole.published if goods[point[0] - 1] > 0)
        grown = self.run_whole(4, 1, document, [(late, directory)], kind='resume')
        self.assertEqual([row for row in grown.metrics() if row['step'] > late],
                         [row for row in whole.metrics() if row['step'] > late])
        shared = self.run_whole(3, 1, self.document(28, parallel={'dp': 1, 'tp': 2}, **SCALED), [(step, folder)],
                                kind='resume')
        for row, other in zip(rows[step:], (row for row in shared.metrics() if 'loss' in row and row['step'] > step),
                              strict=True):
            self.assertLess(abs(row['loss'] - other['loss']), 0.01 * row['loss'])
        self.refused(self.document(28, train__precision='bf16'), 2, 'train.precision: bf16 cannot continue',
                     kind='resume', checkpoints=whole.published[-1:])

    def test_a_least_scale_that_overflows_ends_the_job(self):
        document = self.document(40, dp=2, train__precision='fp16',
                                 train__loss_scale={'initial': 2.0**40, 'min': 2.0**38, 'hysteresis': 2})
        self.refused(document, 3, 'step 14: the gradient overflowed float16 in 11 consecutive steps, although the loss '
                                  'scale was at train.loss_scale.min 2.74878e+11')

    def test_the_plan_counts_the_main_weights(self):
        def memory(precision):
            plan = self.plan(self.document(4, dp=1, train__precision=precision), '--json')
            self.assertEqual(plan.returncode, 0, plan.stderr)
            return json.loads(plan.stdout)['memory_per_rank_bytes']
        fp32, bf16, fp16 = memory('fp32'), memory('bf16'), memory('fp16')
        self.assertEqual(fp16['weights'], fp32['weights'] / 2)
        self.assertEqual(fp16['main_weights'], fp32['weights'])
        self.assertEqual(bf16['main_weights'], fp32['weights'] / 2)
        self.assertEqual((fp16['gradients'], fp16['optimizer_moments']), (fp32['gradients'], fp32['optimizer_moments']))


if __name__ == '__main__':
    unittest.main()
