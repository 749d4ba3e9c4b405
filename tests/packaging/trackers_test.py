#!/usr/bin/env python3
"""rollctl.trackers: metrics.jsonl as MLflow's file store, whole and while a job writes; without a package for W&B."""
import glob
import json
import os
import subprocess
import sys
import tempfile
import time
import unittest

PACKAGE = os.path.join(os.path.dirname(os.path.abspath(__file__)), '../../packaging/python')
HEAD = {'schema': 'roll.metrics/1', 'name': 'kjv', 'steps': 3, 'time': '2026-11-26T23:59:49.096Z'}
BEGAN = 1795737589096


class TrackersTest(unittest.TestCase):

    def setUp(self):
        top = tempfile.TemporaryDirectory(prefix='roll-trackers-')
        self.addCleanup(top.cleanup)
        self.run_, self.store = os.path.join(top.name, 'kjv-1'), os.path.join(top.name, 'mlruns')
        os.mkdir(self.run_)
        self.write(HEAD, {'step': 1, 'loss': 5.5, 'skipped': True, 'phases': {'forward': {'max': 0.25}}},
                   {'step': 2, 'loss': 4.5}, {'step': 2, 'valid_loss': 4.25, 'valid_loss/new set': 4.25, 'text': 'so'})

    def write(self, *rows, end=''):
        with open(os.path.join(self.run_, 'metrics.jsonl'), 'a', encoding='utf-8') as file:
            file.write(''.join(json.dumps(row) + '\n' for row in rows) + end)

    def command(self, *words):
        # -I -S: without the packages of the machine, such as wandb
        code = f'import sys; sys.path.insert(0, {PACKAGE!r}); from rollctl.trackers import main; sys.exit(main())'
        return [sys.executable, '-B', '-I', '-S', '-c', code, *words]

    def ran(self, *words):
        return subprocess.run(self.command(*words), capture_output=True, text=True, check=False)

    def text(self, name):
        with open(glob.glob(os.path.join(self.store, '*', '*', name))[0], encoding='utf-8') as file:
            return file.read()

    def has(self, name):
        return bool(glob.glob(os.path.join(self.store, '*', '*', name)))

    def test_rows_become_files_of_the_store(self):
        self.write(end='{"step": 3, "lo')  # a row that is not written yet
        for _ in range(2):  # the second copy replaces the first
            done = self.ran(self.run_, '--mlflow', self.store, '--experiment', 'bible')
            self.assertEqual((done.returncode, done.stdout), (0, ''))
            self.assertEqual(done.stderr, f'copied 3 rows of {self.run_}/metrics.jsonl to {self.store}\n')
            self.assertEqual(self.text('metrics/loss'), f'{BEGAN + 1} 5.5 1\n{BEGAN + 2} 4.5 2\n')
            self.assertEqual(self.text('metrics/phases/forward/max'), f'{BEGAN + 1} 0.25 1\n')
            self.assertEqual(self.text('metrics/valid_loss.new set'), f'{BEGAN + 2} 4.25 2\n')
            self.assertEqual((self.text('params/steps'), self.text('tags/mlflow.runName')), ('3', 'kjv-1'))
            self.assertIn('status: 3\n', self.text('meta.yaml'))
            self.assertFalse(glob.glob(os.path.join(self.store, '*', '*', 'metrics', 'skipped')))
        with open(glob.glob(os.path.join(self.store, '*', 'meta.yaml'))[0], encoding='utf-8') as file:
            self.assertIn('name: "bible"\n', file.read())

    def test_follows_a_job_to_its_end(self):
        with subprocess.Popen(self.command(self.run_, '--mlflow', self.store, '--follow')) as process:
            self.addCleanup(process.kill)
            self.write(end='{"step": 3, "lo')
            self.write(end='ss": 4.0}\n')
            self.write({'step': 3, 'export_valid_loss': 4.125})
            self.assertEqual(process.wait(60), 0)
        self.assertTrue(self.text('metrics/loss').endswith(f'{BEGAN + 3} 4.0 3\n'))

    def test_follows_the_file_that_a_further_attempt_writes_anew(self):
        path = os.path.join(self.run_, 'metrics.jsonl')
        with subprocess.Popen(self.command(self.run_, '--mlflow', self.store, '--follow')) as process:
            try:
                deadline = time.monotonic() + 60
                while f'{BEGAN + 2} 4.5 2\n' not in (self.text('metrics/loss') if self.has('metrics/loss') else ''):
                    self.assertLess(time.monotonic(), deadline)
                    time.sleep(0.05)
                os.rename(path, path + '.old')
                self.write(HEAD, {'step': 1, 'loss': 5.5}, {'step': 2, 'loss': 4.75})
                self.write({'step': 3, 'export_valid_loss': 4.125})
                self.assertEqual(process.wait(60), 0)
            finally:
                process.kill()
        self.assertEqual(self.text('metrics/loss'), f'{BEGAN + 1} 5.5 1\n{BEGAN + 2} 4.75 2\n')

    def test_refuses_in_one_sentence(self):
        self.assertIn('needs the package wandb', self.ran(self.run_, '--wandb', self.store).stderr)
        self.assertIn('metrics.jsonl does not exist', self.ran(self.store, '--mlflow', self.store).stderr)
        self.assertIn('nothing to write', self.ran(self.run_).stderr)


if __name__ == '__main__':
    unittest.main()
