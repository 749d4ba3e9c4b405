#!/usr/bin/env python3
"""A sample that makes every step non-finite: named, then left out by every later rank, attempt and job."""
import array
import json
import os
import re
import unittest

import invented_family_test as made
from ranks import Attempt, RankCase, write_text

WINDOWS, LENGTH, ROWS = 40, 32, 8
LATE = 24 * LENGTH + 7  # like POISON, but in one of the last of 30 steps
POISON = 8 * LENGTH + 7  # offset of a byte that occurs nowhere else, in the third step
SIZES = {**made.SIZES, 'num_hidden_layers': 2, 'rms_norm_eps': 0.0}


class Rewind(RankCase):

    def setUp(self):
        super().setUp()
        with open(self.corpus, 'r+b') as file:
            self.text = file.read()
            file.truncate(WINDOWS * LENGTH + 1)
            file.seek(POISON)
            file.write(b'\1')
        # A row of zeros, for which the norm computes 0 / 0.
        tensors = {name: tensor for name, tensor in made.make_tensors().items()
                   if not name.startswith(('model.layers.2.', 'model.layers.3.'))}
        shape, data = tensors['model.embed_tokens.weight']
        rows = array.array('f', data)
        rows[shape[1]:2 * shape[1]] = array.array('f', bytes(4 * shape[1]))
        tensors['model.embed_tokens.weight'] = (shape, rows.tobytes())
        self.start = os.path.join(self.top, 'start')
        made.write_model(self.start, {'model_type': 'qwen3', 'rope_theta': 500.0, **SIZES}, tensors)

    def poisoned(self, policy, dp=2, **changes):
        return self.document(5, dp=dp, model={'from': self.start}, data__valid=0.0, train__on_not_finite=policy,
                             train__precision='fp64', checkpoint__every=1, checkpoint__keep=9, **changes)

    def sent_back(self, job, dp):
        """Runs a first attempt, checks its message, and a second attempt that finishes."""
        document = self.poisoned('rewind', dp)
        first = Attempt(self, job, 1, document)
        codes = first.wait()
        message, = [report['message'] for report in first.said('failed') if 'at step' in report['message']]
        told = re.fullmatch(r'the loss is not finite at step (\d+) on rank (\d+) \(samples (\d+) to (\d+)\); first '
                            r'non-finite value: '
                            r'the loss, then the gradient of output_layer.weight; samples (\d+) to (\d+) are '
                            r'left out from now on', message)
        self.assertTrue(told, message)
        step, rank, *samples = map(int, told.groups())
        self.assertGreater(step, 1)
        self.assertEqual(codes, [1 if one == rank else 76 for one in range(dp)])
        self.assertEqual(samples[:2], samples[2:])
        self.assertEqual((samples[0] // ROWS, samples[1] - samples[0]), (step - 1, 1))
        second = self.run_whole(job, 2, document, reversed(first.published))
        self.assertIn(f'left out: samples {samples[0]} to {samples[1]}, because the loss or the gradient of their step '
                      'was not finite or too high\n', second.log())
        return first, second, step, samples[:2]

    def test_goes_back_and_leaves_the_samples_out_in_every_layout_and_resume(self):
        first, second, step, (begin, end) = self.sent_back(1, 2)
        rows = [row for row in second.metrics() if 'loss' in row]
        tokens = [row['tokens'] for row in rows]
        missing = (end - begin + 1) * LENGTH
        self.assertEqual(tokens, [n * ROWS * LENGTH - (missing if n >= step else 0) for n in range(1, 6)])
        self.assertFalse(any(row.get('skipped') for row in rows))
        # A single rank does the same.
        _, alone, *told = self.sent_back(2, 1)
        self.assertEqual(told, [step, [begin, end]])
        for mine, theirs in zip(alone.metrics(), second.metrics(), strict=True):
            for key in ('loss', 'grad_norm'):
                self.assertLess(abs(mine[key] - theirs[key]), 1e-10 * abs(theirs[key]))
        # A job that resumes this one also leaves the sample out: before that step by the file, after it by the
        # checkpoint.
        document = {**self.poisoned('rewind'), 'kind': 'resume'}
        before = [(n, path) for n, path in first.published if n == step - 1]
        resumed = self.run_whole(3, 1, document, before, kind='resume')
        self.assertEqual(resumed.weights(5), second.weights(5))
        os.remove(os.path.join(second.output, 'left_out.json'))
        after = [(n, path) for n, path in second.published if n == step]
        later = self.run_whole(4, 1, document, after, kind='resume')
        self.assertEqual(later.weights(5), second.weights(5))
        self.assertIn(f'left out: samples {begin} to {end}', later.log())
        self.assertEqual(json.loads(later.weights(5)['roll/state.json'])['left_out'], list(range(begin, end + 1)))

    def test_goes_back_to_before_the_loss_rose(self):
        windows = 30 * ROWS  # one of them makes its step non-finite
        with open(self.corpus, 'wb') as file:
            text = bytearray(self.text[:windows * LENGTH + 1])
            text[LATE] = 1
            file.write(text)
        document = {**self.poisoned('rewind', 1), 'train': {**self.poisoned('rewind', 1)['train'], 'steps': 30}}
        document['checkpoint']['keep'] = 99
        seen = self.run_whole(1, 1, {**document, 'train': {**document['train'], 'on_not_finite': 'skip'}})
        bad, = [row['step'] for row in seen.metrics() if row.get('skipped')]
        self.assertGreater(bad, 20)
        # Raises the recorded losses of the last three steps before the bad one.
        first = Attempt(self, 2, 1, document)
        first.wait()
        os.remove(os.path.join(first.output, 'left_out.json'))
        path = os.path.join(first.output, 'metrics.jsonl')
        with open(path, encoding='utf-8') as file:
            rows = [json.loads(line) for line in file]
        for row in rows:
            if row.get('step', 0) in range(bad - 3, bad) and 'loss' in row:
                row['loss'] *= 3
        with open(path, 'w', encoding='utf-8') as file:
            file.writelines(json.dumps(row) + '\n' for row in rows)
        second = Attempt(self, 2, 2, document, reversed(first.published))
        self.assertEqual(second.wait(), [1], second.log())
        self.assertIn(f'resumed at step {bad - 1} ', second.log())
        message = second.said('failed')[0]['message']
        begin, end = (bad - 5) * ROWS, bad * ROWS - 1
        self.assertIn(f'; the loss rose from step {bad - 3} on, so the job goes back to a checkpoint before step '
                      f'{bad - 4}; samples {begin} to {end} are left out from now on', message)
        third = self.run_whole(2, 3, document, reversed(first.published))
        self.assertIn(f'resumed at step {bad - 5} ', third.log())
        self.assertIn('is skipped: it was written after the loss began to rise', third.log())
        skipped = [row['step'] for row in third.metrics() if row.get('skipped')]
        self.assertEqual(skipped, list(range(bad - 4, bad + 1)))
        # Checkpoints written after going back are good. If only poisoned ones are left, the job fails.
        poisoned = [(step, place) for step, place in first.published if step > bad - 5]
        again = self.run_whole(2, 4, document, [third.published[-2], *reversed(poisoned)])
        self.assertIn('resumed at step ', again.log())
        ended = Attempt(self, 2, 5, document, reversed(poisoned))
        self.assertEqual(ended.wait(), [3], ended.log())
        self.assertIn('no checkpoint is left from before the loss began to rise', ended.said('failed')[0]['message'])

    def test_other_data_has_other_numbers(self):
        first, second, *_ = self.sent_back(1, 1)
        document = {**self.poisoned('rewind', 1, train__seed=2), 'kind': 'resume'}
        after = [second.published[-1]]
        other = self.run_whole(2, 1, document, after, kind='resume')
        self.assertIn('training continues on other data', other.log())
        self.assertNotIn('left out: samples', other.log())
        self.assertTrue(first.published)

    def test_a_skipped_step_names_its_samples_and_goes_on(self):
        run = self.run_whole(1, 1, self.poisoned('skip'))
        rows = run.metrics()
        self.assertEqual([row['step'] for row in rows if row.get('skipped')], [3])
        self.assertEqual(len(rows), 5)
        self.assertRegex(run.log(), r'the loss is not finite at step 3 on rank \d \(samples \d+ to \d+\); first '
                                    r'non-finite value: '
                                    r'the loss, then the gradient of output_layer.weight; the step is skipped')

    def test_a_step_all_of_whose_samples_are_left_out_is_none(self):
        os.makedirs(os.path.join(self.top, 'job-1'))
        listed = {'schema': 'roll.left_out/1', 'seed': 1, 'seq_length': LENGTH, 'train_tokens': WINDOWS * LENGTH + 1,
                  'samples': list(range(2 * ROWS, 3 * ROWS))}
        path = os.path.join(self.top, 'job-1', 'left_out.json')
        write_text(path, json.dumps(listed))
        run = self.run_whole(1, 1, self.poisoned('stop'))
        self.assertEqual([row['step'] for row in run.metrics() if row.get('skipped')], [3])
        moments = [run.weights(step)['roll/optimizer/rank-00000.safetensors'] for step in (2, 3)]
        self.assertEqual(*moments)
        write_text(path, '{}')
        self.refused(self.poisoned('stop', 1), 2, 'left_out.json: ', output=os.path.dirname(path))


if __name__ == '__main__':
    unittest.main()
