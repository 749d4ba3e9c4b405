#!/usr/bin/env python3
"""The reports of a run: metrics.jsonl, metrics.csv, TensorBoard files, and the origin of a NaN."""
import csv
import json
import os
import subprocess
import time
import unittest

from ranks import ORACLE, Attempt, RankCase

# Prints {tag: [[step, value]...]} and the sample texts, as stock TensorBoard reads them from the folder.
READ_EVENTS = '''
import json, sys
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
events = EventAccumulator(sys.argv[1], size_guidance={'scalars': 0, 'tensors': 0}).Reload()
tags = events.Tags()
told = {tag: [[e.step, e.value] for e in events.Scalars(tag)] for tag in tags['scalars']}
texts = {tag: [[e.step, e.tensor_proto.string_val[0].decode()] for e in events.Tensors(tag)] for tag in tags['tensors']}
print(json.dumps([told, texts]))
'''
DIVERGES = {'train__optimizer__lr': 1e30, 'train__optimizer__clip_grad': 0.0, 'train__optimizer__warmup_steps': 0}


def rows_of(output):
    with open(os.path.join(output, 'metrics.jsonl'), encoding='utf-8') as file:
        return [row for row in map(json.loads, file) if 'step' in row]


class MetricsTest(RankCase):

    def check_csv(self, output):
        with open(os.path.join(output, 'metrics.csv'), encoding='utf-8', newline='') as file:
            cells = list(csv.DictReader(file))
        rows = [row for row in rows_of(output) if 'text' not in row]
        self.assertEqual(len(cells), len(rows))
        for row, told in zip(rows, cells):
            row |= {f'phases/{name}/{key}': value for name, times in row.pop('phases', {}).items()
                    for key, value in times.items()}
            known = {key: json.loads(value) for key, value in told.items() if value}
            self.assertEqual(known, {'schema': 1, **row})

    def check_events(self, output):
        done = subprocess.run([ORACLE, '-c', READ_EVENTS, os.path.join(output, 'tensorboard')], capture_output=True,
                              text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr[-2000:])
        scalars, texts = json.loads(done.stdout)
        rows = rows_of(output)
        for tag in ('loss', 'lr', 'grad_norm', 'tokens_per_second', 'mfu', 'memory_bytes', 'valid_loss'):
            wanted = [[row['step'], row[tag]] for row in rows if tag in row]
            self.assertEqual([step for step, _ in scalars[tag]], [step for step, _ in wanted], tag)
            for (_, ours), (_, theirs) in zip(scalars[tag], wanted):
                self.assertLessEqual(abs(ours - theirs), 1e-7 * abs(theirs), tag)
        wanted = [[row['step'], row['prompt'] + row['text']] for row in rows if 'text' in row]
        self.assertEqual(texts, {'sample/the ': wanted})

    def test_csv_and_tensorboard_hold_the_rows_of_a_run_that_was_killed_and_resumed(self):
        document = self.document(30, dp=1, checkpoint__every=5, train__valid_every=10,
                                 data__valid={'whole': self.corpus, 'tail': 0.02}, data__track='tail',
                                 train__sample={'every': 10, 'prompts': ['the '], 'max_tokens': 4},
                                 train__metrics={'csv': True, 'tensorboard': True, 'grad_zeros': True},
                                 export={'format': 'hf', 'dtype': 'bf16'})
        first = Attempt(self, 1, 1, document)
        first.wait_step(17)
        first.ranks[0].kill()
        first.wait()
        at = first.published[-1][0]
        self.assertGreaterEqual(len(first.metrics()), 17)
        second = self.run_whole(1, 2, document, reversed(first.published))
        self.assertIn(f'resumed at step {at} ', second.log())
        self.check_csv(second.output)
        keys = {key for row in rows_of(second.output) for key in row}
        for key in ('valid_loss/whole', 'ngram2_bits_per_byte', 'ngram2_bits_per_byte/tail', 'export_valid_loss'):
            self.assertIn(key, keys)
        self.check_events(second.output)
        more = self.run_whole(2, 1, {**document, 'kind': 'resume', 'train': {**document['train'], 'steps': 35}},
                              second.published, kind='resume')
        self.check_csv(more.output)
        self.check_events(more.output)

    def test_a_sigkill_loses_one_steps_line_at_most(self):
        whole_lines = lambda path: [line for line in open(path, encoding='utf-8') if line.endswith('\n')]
        document = self.document(100000, dp=1, train__metrics={'csv': True, 'tensorboard': True})
        for trial in range(4):
            attempt = Attempt(self, 20 + trial, 1, document)
            attempt.wait_step(5 + 7 * trial)
            reported = len(attempt.said('progress'))
            while len(attempt.said('progress')) == reported:
                time.sleep(1e-4)
            attempt.ranks[0].kill()
            attempt.wait()
            begun = max(report['p']['step'] for report in attempt.said('progress')) + 1
            for name in ('metrics.jsonl', 'metrics.csv'):
                lines = whole_lines(os.path.join(attempt.output, name))[1:]
                steps = [json.loads(line)['step'] if name.endswith('l') else int(line.split(',')[0]) for line in lines]
                self.assertEqual(steps, list(range(1, len(steps) + 1)))
                self.assertGreaterEqual(len(steps), begun - 1, name)

    def test_a_step_line_holds_speed_mfu_memory_and_time(self):
        run = self.run_whole(1, 1, self.document(5, train__peak_tflops=0.25))
        with open(os.path.join(run.output, 'metrics.jsonl'), encoding='utf-8') as file:
            head = json.loads(file.readline())
        self.assertEqual(head['peak'], 'train.peak_tflops')
        row = rows_of(run.output)[3]
        self.assertEqual(row['peak_tflops'], 0.5)  # the peak of two ranks
        self.assertAlmostEqual(row['mfu'], row['tflops'] / 0.5, places=12)
        share = head['flops_per_token_full'] / head['flops_per_token_causal']
        self.assertAlmostEqual(row['mfu_full'], row['mfu'] * share, places=12)
        self.assertGreater(row['memory_peak_bytes'], 50 << 20)
        self.assertLessEqual(row['memory_bytes'], row['memory_peak_bytes'])
        self.assertRegex(run.log(), r'step 5/5  loss +\d\.\d{4}  lr +\S+  norm +\S+  clip x\S+ '
                                    r'\( *\d+ % of steps\)  +\d+ '
                                    r'tokens/s, +\d+ a rank  +\S+ TFLOP/s  mfu +\S+ % causal, +\S+ % full  '
                                    r'wait +\S+ ms  memory +\d+ MiB, peak +\d+  left 0s\n')

    def test_the_phases_of_a_step_add_up_and_gradients_are_reduced_while_backward_runs(self):
        slow = {'rank': 3, 'step': 5, 'phase': 'forward', 'kind': 'slow', 'ms': 1000}
        run = self.run_whole(1, 1, self.document(6, checkpoint__every=2, parallel__dp=2, parallel__pp=2,
                                                 resources__slots_per_node=4, train__faults=[slow]), allow_faults=True)
        for row in rows_of(run.output):
            if 'phases' not in row:
                continue
            times = row['phases']
            self.assertEqual(list(times), ['data', 'forward', 'backward', 'optimizer', 'tp', 'cp', 'pp', 'dp', 'bubble',
                                           'agreement', 'save', 'other'])
            for name, time_of in times.items():
                self.assertTrue(0 <= time_of['mean'] <= time_of['max'] * (1 + 1e-9), (name, row))
            whole = sum(time_of['mean'] for time_of in times.values())
            self.assertTrue(0.25 * row['wall_s'] < whole <= row['wall_s'] * (1 + 1e-9), row)
            for name in ('data', 'forward', 'backward', 'optimizer', 'dp', 'bubble'):
                self.assertGreater(times[name]['mean'], 0, (name, row))
            self.assertEqual((times['tp']['max'], times['pp']['max']), (0, 0))
            if row['step'] > 1:
                self.assertGreater(times['agreement']['mean'], 0, row)
            # rank 3 is slow in forward from step 5 on; the row of step 5 shows it
            self.assertEqual(times['forward']['max'] > 1, row['step'] >= 5, row)
            # the save of the step before
            self.assertEqual(times['save']['max'] > 0, row['step'] in (3, 5), row)
            # counted from the order of the trace, not timed
            self.assertTrue(0.5 <= row['reduced_early'] < 1, row)

    def test_the_peak_of_mfu_is_a_matrix_product_of_this_machine(self):
        run = self.run_whole(1, 1, self.document(3, dp=1))
        first, second = rows_of(run.output)[:2]
        self.assertNotIn('mfu', first)
        self.assertTrue(1e-3 < second['peak_tflops'] < 10, second)
        self.assertTrue(0 < second['mfu'] < 1, second)

    def test_a_diverged_run_is_named_by_one_rank_and_not_tried_again(self):
        attempt = Attempt(self, 1, 1, self.document(40, **DIVERGES))
        self.assertEqual(attempt.wait(), [3, 76], attempt.log(1))
        message = [r['message'] for r in attempt.said('failed') if 'at step' in r['message']]
        self.assertEqual(len(message), 1)
        self.assertRegex(message[0], r'^the (loss|gradient norm) is not finite at step \d+ on rank 0 \(samples (\d+) '
                                     r'to (\d+)\); first non-finite value: the (loss|gradient|weight)')
        again = Attempt(self, 2, 1, self.document(40, dp=1, train__on_not_finite='retry', **DIVERGES))
        self.assertEqual(again.wait(), [1], again.log())

    def test_steps_may_be_skipped_but_not_for_ever(self):
        attempt = Attempt(self, 1, 1, self.document(40, dp=1, train__on_not_finite='skip', **DIVERGES))
        self.assertEqual(attempt.wait(), [3], attempt.log())
        rows = rows_of(attempt.output)
        skipped = [row['step'] for row in rows if row.get('skipped')]
        self.assertEqual(len(skipped), 10)
        self.assertEqual(skipped, list(range(skipped[0], skipped[0] + 10)))
        self.assertGreater(skipped[0], 1)
        self.assertRegex(attempt.log(), r'step +\d+/40  loss +\S+  lr +\S+  norm +\S+  skipped  ')


if __name__ == '__main__':
    unittest.main()
