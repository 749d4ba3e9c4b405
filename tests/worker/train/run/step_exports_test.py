#!/usr/bin/env python3
"""Exports of checkpoints while the training goes on (export.every)."""
import os
import subprocess
import time
import unittest

from ranks import CONVERT, PATIENCE_S, Attempt, RankCase, json_of, tensors_of


class StepExports(RankCase):

    def exporting(self, steps, **changes):
        return self.document(steps, **{'checkpoint__every': 4, 'checkpoint__keep': 2,
                                       'export': {'format': 'hf', 'dtype': 'bf16', 'every': 2, 'keep': 2}, **changes})

    def folder(self, attempt, step=None):
        folder = os.path.join(attempt.output, 'export')
        return folder if step is None else os.path.join(folder, f'hf-step-{step:08}')

    def note(self, attempt, step):
        return json_of(self.folder(attempt, step), 'roll_export.json')

    def expect_exports(self, attempt, *steps):
        """Checks which exports exist, and that nothing unfinished is left."""
        self.assertEqual(sorted(os.listdir(self.folder(attempt))), [f'hf-step-{step:08}' for step in steps],
                         attempt.log())

    def await_export(self, attempt, step):
        deadline = time.monotonic() + PATIENCE_S
        while not os.path.exists(self.folder(attempt, step)):
            self.assertLess(time.monotonic(), deadline, attempt.log())
            time.sleep(0.01)

    def test_every_second_checkpoint_is_exported_compared_and_reported(self):
        run = self.run_whole(1, 1, self.exporting(28))
        self.assertEqual([step for step, _ in run.published], [4, 8, 12, 16, 20, 24, 28])
        reports = run.said('exported')
        self.assertTrue(reports, run.log())
        self.assertLessEqual({report['step'] for report in reports}, {8, 16, 24})
        self.assertEqual(reports[-1]['step'], 24)  # the newest is never skipped
        kept = [report['step'] for report in reports][-2:]
        self.expect_exports(run, *kept)
        self.assertEqual(reports[-1]['oldest'], kept[0])
        self.assertEqual(reports[-1]['directory'], self.folder(run, 24))
        note = self.note(run, 24)
        self.assertEqual((note['step'], note['checkpoint']), (24, os.path.basename(dict(run.published)[24])))
        self.assertLess(note['logit_difference'], 1e-3 * note['largest_logit'])
        self.assertIn('the export equals its checkpoint: largest difference of a logit', run.log())
        # An exported checkpoint is deleted only after its export, and retention then goes on.
        left = [path for _, path in run.published if os.path.exists(path)]
        self.assertEqual(left, [path for _, path in run.published][-2:], run.log())
        tensors = tensors_of(os.path.join(self.folder(run, 24), 'model.safetensors'))
        self.assertEqual(len(tensors), 2 * 9 + 3)
        calm = self.run_whole(2, 1, self.exporting(28, export='none'))
        self.assertEqual(calm.metrics()[:20], run.metrics()[:20])

    def test_the_export_is_the_one_that_roll_convert_makes(self):
        layouts = ({'parallel': {'tp': 2}}, {'parallel': {'pp': 2}}, {'parallel': {'dp': 2, 'zero': 3}},
                   {'parallel': {'dp': 2}, 'checkpoint__format': 'torch_dist'},
                   {'parallel': {'dp': 2}, 'train__ema': {'decay': 0.5}, 'export__weights': 'ema'})
        for job, layout in enumerate(layouts, 1):
            with self.subTest(**layout):
                run = self.run_whole(job, 1, self.exporting(9, **{'checkpoint__keep': 9, **layout}))
                state = ['--state', 'ema'] if 'train__ema' in layout else []
                by_hand = self.convert(dict(run.published)[8], f'by-hand-{job}', '--dtype', 'bf16', *state)
                self.expect_exports(run, 8)
                name = 'model.safetensors'
                self.assertTrue(tensors_of(os.path.join(by_hand, name)) ==
                                tensors_of(os.path.join(self.folder(run, 8), name)))

    def test_an_attempt_that_was_killed_neither_loses_nor_doubles_an_export(self):
        first = Attempt(self, 1, 1, self.exporting(100000))
        self.await_export(first, 8)
        first.kill()
        published = dict(first.published)
        os.makedirs(os.path.join(self.folder(first), '.hf-step-00000016'), exist_ok=True)  # as if killed in an export
        newest = max(published)
        at = sorted(((step, path) for step, path in published.items() if os.path.exists(path)), reverse=True)
        again = self.run_whole(1, 2, self.exporting(newest - newest % 8 + 9), at)
        reports = [report['step'] for report in again.said('exported')]
        self.assertEqual(len(reports), len(set(reports)), reports)
        self.assertIn(8, reports)  # reported again, because rolld may not know of it
        before = first.said('exported')
        self.assertLessEqual({report['step'] for report in before}, set(reports) | {8})
        self.assertNotIn('.hf-step-00000016', os.listdir(self.folder(again)))
        self.assertEqual(self.note(again, reports[-1])['step'], reports[-1])

    def test_an_adapter_is_exported_or_merged_in_any_layout(self):
        base = self.exported(self.run_whole(90, 1, self.document(1)), 'base')
        lora = lambda job, steps, **changes: self.exporting(steps, **{
            'model': {'from': base}, 'train__lora': {'r': 4}, 'checkpoint__keep': 9,
            'resources': {'nodes': 1, 'slots_per_node': 4 if job == 1 else 2},
            'parallel': {'dp': 1, 'tp': 2, 'pp': 2} if job == 1 else {'dp': 2, 'zero': 3}, **changes})
        adapter = self.run_whole(1, 1, lora(1, 9, train__lora={'r': 4, 'dora': True, 'dropout': 0.1}))
        self.expect_as_by_hand(adapter, 8, 'adapter_model.safetensors', 'convert', to='peft')
        merged = {'train__lora': {'r': 4, 'base': 'nf4'}, 'export__merge': True}
        first = Attempt(self, 2, 1, lora(2, 100000, **merged))
        self.await_export(first, 8)
        first.kill()
        newest = max(first.published)
        due = newest[0] - newest[0] % 8 + 8
        again = self.run_whole(2, 2, lora(2, due + 1, **merged), [newest])
        self.assertEqual(again.said('exported')[-1]['step'], due)
        self.expect_as_by_hand(again, due, 'model.safetensors', 'merge', base)
        # rollctl refuses this job, because no format but PEFT's holds an adapter.
        failed = self.run_whole(3, 1, lora(3, 9, checkpoint__format='torch_dist'))
        self.assertIn('the export of step 8 has failed, and training continues', failed.log())
        self.expect_exports(failed)

    def expect_as_by_hand(self, run, step, name, command, *base, to='hf'):
        """Checks the tensors of an export that was compared with its checkpoint."""
        note = self.note(run, step)
        self.assertLess(note['logit_difference'], 0.03 * note['largest_logit'])
        by_hand = os.path.join(self.top, f'by-hand-{to}')
        subprocess.run([CONVERT, command, *base, dict(run.published)[step], by_hand, '--to', to, '--dtype', 'bf16'],
                       check=True, capture_output=True)
        self.assertTrue(tensors_of(os.path.join(by_hand, name)) ==
                        tensors_of(os.path.join(self.folder(run, step), name)))

    def test_an_export_that_differs_from_its_checkpoint_is_not_announced(self):
        run = self.run_whole(1, 1, self.exporting(9, checkpoint__keep=9))
        self.expect_exports(run, 8)
        other = dict(run.published)[4]
        checked = self.rank('check-export', self.folder(run, 8), other, '--dtype', 'bf16')
        self.assertEqual(checked.returncode, 1, checked.stdout)
        self.assertIn(f'differ from the logits of its checkpoint {other}: largest difference', checked.stderr)
        right = self.rank('check-export', self.folder(run, 8), dict(run.published)[8], '--dtype', 'bf16')
        self.assertEqual(right.returncode, 0, right.stderr)


if __name__ == '__main__':
    unittest.main()
