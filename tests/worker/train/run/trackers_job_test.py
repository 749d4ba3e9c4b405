#!/usr/bin/env python3
"""rollctl.trackers with the packages of MLflow and W&B: it follows a job, is killed and started again, and the packages
read every number of metrics.jsonl from what it wrote."""
import glob
import json
import math
import os
import subprocess
import sys
import time
import unittest

from ranks import PATIENCE_S, Attempt, RankCase

TOP = os.path.join(os.path.dirname(os.path.abspath(__file__)), '../../../..')
PACKAGES = os.path.join(TOP, '.deps/oracle-trackers')
# Prints [[key, step, value]..] of the run in MLflow's store.
READ_MLFLOW = '''
import json, sys
from mlflow.entities import ViewType
from mlflow.store.tracking.file_store import FileStore
store = FileStore(sys.argv[1])
experiments = [one.experiment_id for one in store.search_experiments()]
run, = store.search_runs(experiments, '', ViewType.ALL)
assert run.info.status == 'FINISHED' and run.info.run_name == 'job-1', run.info
print(json.dumps([[key, one.step, one.value] for key in run.data.metrics
                  for one in store.get_metric_history(run.info.run_id, key)]))
'''
# Prints the same of an offline run of W&B. The last block of a run that was killed may be incomplete.
READ_WANDB = '''
import json, sys
from wandb.proto import wandb_internal_pb2
from wandb.sdk.internal.datastore import DataStore
store, found = DataStore(), []
store.open_for_scan(sys.argv[1])
while True:
    try:
        data = store.scan_data()
    except AssertionError:
        break
    if data is None:
        break
    record = wandb_internal_pb2.Record()
    record.ParseFromString(data)
    for item in record.history.item:
        key = item.key or '.'.join(item.nested_key)
        if not key.startswith('_'):
            found.append([key, record.history.step.num, json.loads(item.value_json)])
print(json.dumps(found))
'''


def numbers_of(row, prefix=''):
    """Yields the names and numbers of a row of metrics.jsonl."""
    for key, value in row.items():
        if isinstance(value, dict):
            yield from numbers_of(value, f'{prefix}{key}/')
        elif isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value):
            yield prefix + key, value


def stored_name(key):
    """Returns the name of a number in MLflow's store, where valid_loss is a file and cannot be a folder as well."""
    return key.replace('/', '.') if key.startswith(('valid_', 'ngram2_')) else key


class TrackersJobTest(RankCase):

    def env(self):
        return {'PATH': '/usr/bin:/bin', 'HOME': self.top, 'MLFLOW_ALLOW_FILE_STORE': 'true',
                'PYTHONPATH': f'{PACKAGES}:{TOP}/packaging/python'}

    def follow(self, run):
        exporter = subprocess.Popen([sys.executable, '-m', 'rollctl.trackers', run.output, '--follow', '--mlflow',
                                     self.store, '--wandb', self.top], env=self.env(), stderr=subprocess.PIPE)
        self.addCleanup(exporter.stderr.close)
        self.addCleanup(exporter.kill)
        return exporter

    def read(self, code, path):
        done = subprocess.run([sys.executable, '-c', code, path], env=self.env(), capture_output=True, text=True,
                              check=False)
        self.assertEqual(done.returncode, 0, done.stderr[-2000:])
        return sorted(map(tuple, json.loads(done.stdout)))

    def wait_copied(self, exporter, step):
        """Waits until the exporter has copied a step."""
        deadline = time.monotonic() + PATIENCE_S
        while True:
            paths = glob.glob(os.path.join(self.store, '*/*/metrics/loss'))
            with open(paths[0] if paths else os.devnull, encoding='utf-8') as file:
                if any(int(line.split()[2]) >= step for line in file):
                    return
            self.assertLess(time.monotonic(), deadline)
            self.assertIsNone(exporter.poll(), exporter.stderr.read() if exporter.poll() is not None else '')
            time.sleep(0.05)

    def test_both_packages_read_every_number_after_the_exporter_was_killed(self):
        self.store = os.path.join(self.top, 'mlruns')
        run = Attempt(self, 1, 1, self.document(100, dp=1, train__valid_every=25, export={'format': 'hf',
                                                                                          'dtype': 'bf16'},
                                                data__valid={'whole': self.corpus, 'tail': 0.02}, data__track='tail'))
        run.wait_step(10)
        run.pause()
        first = self.follow(run)
        self.wait_copied(first, 10)
        first.kill()
        self.assertEqual(first.wait(), -9)
        second = self.follow(run)
        self.wait_copied(second, 10)
        run.go_on()
        self.assertEqual(run.wait(), [0], run.log())
        self.assertEqual(second.wait(PATIENCE_S), 0, second.stderr.read())
        with open(os.path.join(run.output, 'metrics.jsonl'), encoding='utf-8') as file:
            rows = [row for row in map(json.loads, file) if 'step' in row]
        wanted = sorted((key, row['step'], value) for row in rows for key, value in numbers_of(row) if key != 'step')
        self.assertGreater(len(wanted), 100 * 10)
        self.assertEqual(self.read(READ_MLFLOW, self.store),
                         sorted((stored_name(key), *more) for key, *more in wanted))
        killed, whole = sorted(glob.glob(os.path.join(self.top, 'wandb/offline-run-*/*.wandb')), key=os.path.getmtime)
        self.assertEqual(self.read(READ_WANDB, whole), sorted({one[:2]: one for one in wanted}.values()))
        self.assertLessEqual(set(self.read(READ_WANDB, killed)), set(wanted))


if __name__ == '__main__':
    unittest.main(verbosity=2)
