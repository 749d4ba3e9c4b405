#!/usr/bin/env python3
"""roll-rank as real processes: trains, saves, stops, resumes bitwise, fails in one sentence."""
import glob
import json
import math
import os
import re
import shutil
import signal
import subprocess
import tempfile
import unittest

from ranks import ORACLE, RANK, Attempt, RankCase, tensors_of

# A validation: the tail of round(fraction * size) bytes, cut into windows of seq_length inputs (the last may be
# shorter). Every token except the tail's first is predicted once.
BITS_PER_BYTE = '''
import math, sys, torch
from transformers import AutoModelForCausalLM
text = open(sys.argv[1], 'rb').read()
tail = list(text[len(text) - math.floor(float(sys.argv[2]) * len(text) + 0.5):])
length = int(sys.argv[3])
for folder in sys.argv[4:]:
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    nll, count = 0.0, 0
    with torch.no_grad():
        for begin in range(0, len(tail) - 1, length):
            window = torch.tensor(tail[begin:begin + length + 1])
            logp = model(window[None, :-1]).logits[0].double().log_softmax(-1)
            nll -= float(logp.gather(1, window[1:, None]).sum())
            count += len(window) - 1
    print(nll / count / math.log(2))
'''


class RankTest(RankCase):

    def test_trains_validates_samples_and_keeps_two_checkpoints(self):
        run = self.run_whole(1, 1, self.document(
            60, checkpoint__every=20, train__valid_every=30, train__sample={'every': 30, 'prompts': ['the ']}))
        steps = [row for row in run.metrics() if 'loss' in row]
        self.assertEqual([row['step'] for row in steps], list(range(1, 61)))
        self.assertLess(steps[-1]['loss'], 0.7 * steps[0]['loss'])
        valid = [row for row in run.metrics() if 'valid_loss' in row]
        self.assertEqual([row['step'] for row in valid], [30, 60])
        for row in valid:
            self.assertAlmostEqual(row['valid_bits_per_byte'], row['valid_loss'] / math.log(2), places=12)
            self.assertTrue(1 < row['ngram2_bits_per_byte'] < 5, row)
        self.assertEqual(len([row for row in run.metrics() if 'text' in row]), 2)
        self.assertEqual(len(run.said('ready')), 2)
        self.assertEqual([r['step'] for r in run.said('checkpoint')], [20, 40, 60])
        self.assertEqual([r['step'] for r in run.said('pruned')], [20])
        left = sorted(os.listdir(os.path.join(run.output, 'checkpoints')))
        self.assertEqual(left, ['step-00000040.1-1', 'step-00000060.1-1'])

    def test_stopped_by_sigterm_and_resumed_is_bitwise_the_same(self):
        whole = self.run_whole(1, 1, self.document(120))
        first = Attempt(self, 2, 1, self.document(120, checkpoint__every=7))
        first.wait_step(10)
        for process in first.ranks:
            process.send_signal(signal.SIGTERM)
        self.assertEqual(first.wait(), [75, 75], first.log())
        at = first.published[-1][0]
        self.assertLess(at, 70)
        second = self.run_whole(2, 2, self.document(120, checkpoint__every=7), reversed(first.published[-2:]))
        self.assertEqual(second.metrics(), whole.metrics())
        self.assertEqual(second.weights(120), whole.weights(120))
        self.assertIn(f'resumed at step {at} ', second.log())

    def test_a_resume_job_goes_further_with_more_steps(self):
        changes = {'train__optimizer__schedule': 'constant'}
        whole = self.run_whole(1, 1, self.document(40, **changes))
        first = self.run_whole(2, 1, self.document(20, **changes))
        more = self.run_whole(3, 1, self.document(40, kind='resume', **changes), first.published, kind='resume')
        self.assertEqual([row for row in more.metrics() if 'loss' in row],
                         [row for row in whole.metrics() if 'loss' in row])
        self.assertEqual(more.weights(40), whole.weights(40))
        self.assertTrue(os.path.exists(first.published[-1][1]), 'another job\'s checkpoint was deleted')

    def test_another_batch_size_goes_on_with_the_next_samples(self):
        still = {'train__precision': 'fp64', 'train__optimizer__lr': 0.0, 'train__optimizer__min_lr': 0.0}
        whole = self.run_whole(1, 1, self.document(40, dp=1, **still))
        first = self.run_whole(2, 1, self.document(20, dp=1, **still))
        more = self.run_whole(3, 1, self.document(30, dp=1, kind='resume', train__global_batch_size=16, **still),
                              first.published, kind='resume')
        loss = {row['step']: row['loss'] for row in whole.metrics() if 'loss' in row}
        found = {row['step']: row['loss'] for row in more.metrics() if 'loss' in row}
        for i in range(10):
            self.assertAlmostEqual(found[21 + i], (loss[21 + 2 * i] + loss[22 + 2 * i]) / 2, places=10)

    def test_what_is_not_there_ends_with_2_and_one_sentence(self):
        self.refused(self.document(5, dp=1, data__train=[os.path.join(self.top, 'none')]), 2, 'No such file')
        self.refused(self.document(5, dp=1), 2, 'no recorded checkpoint', kind='resume')

    def test_transformers_finds_the_same_bits_per_byte_in_the_export(self):
        run = self.run_whole(1, 1, self.document(30, export={'format': 'hf', 'dtype': 'bf16'}))
        told = [row['valid_bits_per_byte'] for row in run.metrics() if 'valid_loss' in row][-1]
        rounded = run.metrics()[-1]['export_valid_loss'] / math.log(2)
        self.assertNotEqual(rounded, told)
        self.assertRegex(run.log(), r'weights rounded as in the export: loss \d\.\d{6} \([-+]\d')
        self.assertIs(self.run_whole(2, 1, self.document(2)).metrics()[-1].get('export_valid_loss'), None)
        exports = [self.exported_as(run, dtype) for dtype in ('keep', 'bf16')]
        done = subprocess.run([ORACLE, '-c', BITS_PER_BYTE, self.corpus, '0.02', '32', *exports], capture_output=True,
                              text=True, check=False, env={'PATH': '/usr/bin:/bin', 'HF_HUB_OFFLINE': '1'})
        self.assertEqual(done.returncode, 0, done.stderr[-2000:])
        for theirs, wanted in zip(map(float, done.stdout.split()), (told, rounded), strict=True):
            print(f'bits per byte: roll {wanted:.9f}, transformers {theirs:.9f}')
            self.assertAlmostEqual(theirs, wanted, delta=1e-5)

    def exported_as(self, run, dtype):
        return self.convert(run.published[-1][1], 'export-' + dtype, '--dtype', dtype)

    def test_generates_the_same_from_its_checkpoint_twice(self):
        run = self.run_whole(1, 1, self.document(10, dp=1))
        folder = run.published[-1][1]
        command = [RANK, 'generate', folder, 'the ', '--max-tokens', '8', '--temperature', '1', '--seed', '3', '--json']
        first = subprocess.run(command, capture_output=True, check=True, text=True).stdout
        self.assertEqual(json.loads(first)['schema'], 'roll.generate/1')
        self.assertEqual(first, subprocess.run(command, capture_output=True, check=True, text=True).stdout)

    def test_plans_without_running(self):
        plan = json.loads(self.plan(self.document(10), '--json').stdout)
        self.assertEqual(plan['schema'], 'roll.plan/1')
        self.assertEqual(plan['parameters'], 2 * 256 * 32 + 2 * (4 * 32 * 32 + 3 * 32 * 64 + 2 * 32) + 32)
        self.assertLess(plan['flops_per_token']['causal'], plan['flops_per_token']['full'])
        # with dp 2, each rank sends its gradients once
        self.assertEqual(plan['communication_bytes_per_step']['gradients'], plan['parameters'] * 4)
        work = plan['flops_per_token']['causal'] * 8 * 32 * 10
        self.assertAlmostEqual(plan['time']['seconds'], work / (plan['time']['peak_tflops_per_rank'] * 1e12), places=9)
        told = self.plan(self.document(10)).stdout
        self.assertNotIn('frozen', told)
        self.assertRegex(told, r'\ntime        0s if each of 2 ranks reaches half of \S+ GFLOP/s')
        self.assertRegex(told, r'\nmemory      \S+ MiB a rank: .* program 144 MiB\n')
        memory = plan['memory_per_rank_bytes']
        self.assertEqual(memory['total'], sum(memory.values()) - memory['total'])

    def test_plans_for_gpus_say_nothing_of_this_machines_processor(self):
        document = self.document(10, resources__gpus_per_node=2)
        plan = json.loads(self.plan(document, '--json').stdout)
        self.assertEqual((plan['time']['seconds'], plan['time']['peak_tflops_per_rank']), (None, None))
        self.assertEqual(plan['memory_per_rank_bytes']['program'], 0)
        told = self.plan(document).stdout
        self.assertIn('\ntime        unknown: set train.peak_tflops to the TFLOP/s of one GPU in the '
                      "job's precision, from the GPU's data sheet\n", told)
        self.assertRegex(told, r"\nmemory      \S+ MiB a rank, without CUDA's own memory: ")
        document['train']['peak_tflops'] = 989
        work = plan['flops_per_token']['causal'] * 8 * 32 * 10
        plan = json.loads(self.plan(document, '--json').stdout)
        self.assertAlmostEqual(plan['time']['seconds'], work / 989e12, places=9)

    def test_a_plan_warns_of_a_time_limit_that_is_too_short(self):
        document = self.document(10, resources__time='2m')
        self.assertNotIn('warning', self.plan(document).stdout)
        document['train']['peak_tflops'] = 1e-6
        told = self.plan(document).stdout
        needed = re.search(r'\ntime        (\d+m \d\ds) if each', told)[1]
        self.assertIn(f'\nwarning     the job needs about {needed}, but the time limit of an attempt (resources.time) '
                      'is 2m 00s\n', told)
        self.assertEqual(json.loads(self.plan(document, '--json').stdout)['time']['limit_seconds'], 120)
        document['resources']['time'] = '10h'
        self.assertNotIn('warning', self.plan(document).stdout)


def weights_of(folder):
    """Returns {name: (shape, bytes)} of a HuggingFace directory."""
    found = {}
    for path in glob.glob(os.path.join(folder, '*.safetensors')):
        found.update(tensors_of(path))
    return found


class StartTest(RankCase):
    """Jobs that start from a HuggingFace directory."""

    @classmethod
    def setUpClass(cls):
        cls.starts = tempfile.mkdtemp(prefix='roll-starts-')
        cls.addClassCleanup(shutil.rmtree, cls.starts)
        cls.oracle('hf_start.py', 'make', cls.starts, 'float32')

    def started(self, start, **changes):
        """Returns a document whose first step trains on every window of 257 bytes once; 5 bytes are held out."""
        with open(self.corpus, 'r+b') as file:
            file.truncate(262)
        rates = {'train__optimizer__lr': 0.0, 'train__optimizer__min_lr': 0.0}
        return self.document(1, model={'from': start}, **rates, **changes)

    def test_starts_from_a_directory_with_the_loss_of_transformers_and_gives_the_weights_back(self):
        for job, (name, precision, dtype, bound) in enumerate([
                ('sharded', 'fp32', 'float32', 1e-5), ('old', 'fp64', 'float64', 1e-10)], start=1):
            start = os.path.join(self.starts, name)
            run = self.run_whole(job, 1, self.started(start, train__precision=precision))
            told = self.oracle('hf_start.py', 'loss', start, dtype, self.corpus, 32, '0:257', '257:262')
            for key, wanted in zip(('loss', 'valid_loss'), map(float, told.split()), strict=True):
                ours = [row[key] for row in run.metrics() if key in row][0]
                print(f'{precision} {key}: roll {ours:.15f}, transformers {wanted:.15f}')
                self.assertLess(abs(ours - wanted), bound * wanted, key)
            if precision == 'fp32':
                self.assertEqual(weights_of(self.exported(run, f'export-{job}')), weights_of(start))
                # A job can also start from Roll's own checkpoint.
                again = self.run_whole(9, 1, self.started(run.published[-1][1]))
                self.assertEqual(weights_of(self.exported(again, 'export-again')), weights_of(start))

    def test_a_started_job_goes_on_without_what_it_started_from(self):
        start = shutil.copytree(os.path.join(self.starts, 'plain'), os.path.join(self.top, 'start'))
        first = self.run_whole(1, 1, self.document(2, model={'from': start}, train__optimizer__schedule='constant'))
        shutil.rmtree(start)
        document = self.document(4, model={'from': start}, train__optimizer__schedule='constant')
        second = self.run_whole(1, 2, document, first.published)
        self.assertIn('resumed at step 2 ', second.log())
        self.refused(document, 2, start + ' does not exist')


if __name__ == '__main__':
    unittest.main()
