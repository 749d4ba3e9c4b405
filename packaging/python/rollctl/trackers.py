"""Copies the metrics of a job to W&B or MLflow, in a process of its own.

usage: python3 -m rollctl.trackers RUN [--mlflow DIR] [--wandb DIR] [--experiment NAME] [--follow]

RUN is the output directory of a job. --mlflow writes MLflow's file store (its tracking URI is
file:DIR) and needs no package. --wandb writes an offline run, which `wandb sync` uploads, and needs
the package wandb. Without --follow, the program copies the rows that exist and ends. With --follow,
it copies rows as they are written, until the job has ended: a minute after the rows of its last step,
or after an hour without a row.

A run that is copied again is replaced in MLflow's store, so the program may be started at any time.
If a further attempt of the job goes back to a checkpoint, its steps replace the steps of the attempt
before in MLflow's store. W&B keeps the steps that it has.
"""
from __future__ import annotations

import argparse
import calendar
import hashlib
import json
import math
import os
import re
import shutil
import sys
import time
from collections.abc import Iterator
from typing import Any, TextIO

QUIET_S = 3600.0
LAST_QUIET_S = 60.0  # after the last step, for the rows of the last validation
POLL_S = 1.0


def numbers_of(row: dict[str, Any], prefix: str = '') -> dict[str, float]:
    """Returns the numbers of a row; those of an object get the object's name in front."""
    found: dict[str, float] = {}
    for key, value in row.items():
        if isinstance(value, dict):
            found.update(numbers_of(value, f'{prefix}{key}/'))
        elif isinstance(value, (int, float)) and not isinstance(value, bool) and key != 'step':
            found[prefix + key] = float(value)
    return found


def is_replaced(path: str, file: TextIO) -> bool:
    """Returns whether the open file is no longer the file at the path, because an attempt has written it anew."""
    try:
        now = os.stat(path)
    except OSError:
        return False
    known = os.fstat(file.fileno())
    return (now.st_dev, now.st_ino) != (known.st_dev, known.st_ino) or now.st_size < file.tell()


def rows_of(path: str, follow: bool) -> Iterator[dict[str, Any] | None]:
    """Yields the rows of metrics.jsonl. A line without its end is not a row yet.

    Yields None before it begins anew, after a further attempt of the job has replaced the file by one with the
    rows up to its checkpoint.
    """
    rest, quiet, patience, steps = '', time.monotonic(), QUIET_S, math.inf
    file = open(path, encoding='utf-8')  # pylint: disable=consider-using-with
    try:
        while True:
            if is_replaced(path, file):
                file.close()
                file, rest = open(path, encoding='utf-8'), ''  # pylint: disable=consider-using-with
                patience = QUIET_S
                yield None
            text = file.read()
            *lines, rest = (rest + text).split('\n')
            for line in lines:
                row = json.loads(line)
                steps = row.get('steps', steps)
                if row.get('step', 0) >= steps:
                    patience = LAST_QUIET_S
                yield row
            if text:
                quiet = time.monotonic()
            if not follow or time.monotonic() - quiet > patience:
                return
            time.sleep(POLL_S)
    finally:
        file.close()


def milliseconds_of(text: str) -> int:
    """Returns a time such as 2026-11-26T23:59:49.096Z in milliseconds since 1970."""
    seconds = calendar.timegm(time.strptime(text[:19], '%Y-%m-%dT%H:%M:%S'))
    return 1000 * seconds + int((text[20:23] if text[19:20] == '.' else '').ljust(3, '0'))


def write_yaml(path: str, values: dict[str, Any]) -> None:
    """Writes a mapping of texts and numbers. JSON's texts and numbers are also YAML's."""
    with open(path, 'w', encoding='utf-8') as file:
        file.writelines(f'{key}: {json.dumps(value)}\n' for key, value in values.items())


class MlflowStore:
    """A run in MLflow's file store: meta.yaml, params/, tags/ and metrics/ with one file for each metric."""

    def __init__(self, directory: str, experiment: str, run: str, head: dict[str, Any]) -> None:
        self.began = milliseconds_of(head.get('time', '1970-01-01T00:00:00Z'))
        digest = hashlib.sha256(experiment.encode()).hexdigest()
        number = str(int(digest[:15], 16))
        base = os.path.join(os.path.abspath(directory), number)
        os.makedirs(base, exist_ok=True)
        write_yaml(os.path.join(base, 'meta.yaml'), {
            'artifact_location': 'file://' + base, 'creation_time': self.began, 'experiment_id': number,
            'last_update_time': self.began, 'lifecycle_stage': 'active', 'name': experiment})
        self.number = hashlib.sha256(os.path.abspath(run).encode()).hexdigest()[:32]
        self.path = os.path.join(base, self.number)
        shutil.rmtree(self.path, ignore_errors=True)
        for folder in ('metrics', 'params', 'tags', 'artifacts'):
            os.makedirs(os.path.join(self.path, folder))
        self.experiment, self.name = number, os.path.basename(os.path.abspath(run))
        for key, value in head.items():
            self.put('params', key, value)
        self.put('tags', 'mlflow.runName', self.name)
        self.put('tags', 'mlflow.user', 'roll')
        self.describe(status=1, end=None)

    def put(self, folder: str, key: str, value: Any) -> None:
        with open(os.path.join(self.path, folder, key), 'w', encoding='utf-8') as file:
            file.write(value if isinstance(value, str) else json.dumps(value))

    def describe(self, status: int, end: int | None) -> None:
        """Writes meta.yaml. Status 1 is running, 3 is finished."""
        write_yaml(os.path.join(self.path, 'meta.yaml'), {
            'artifact_uri': 'file://' + os.path.join(self.path, 'artifacts'), 'end_time': end, 'entry_point_name': '',
            'experiment_id': self.experiment, 'lifecycle_stage': 'active', 'run_id': self.number,
            'run_name': self.name, 'run_uuid': self.number, 'source_name': '', 'source_type': 4, 'source_version': '',
            'start_time': self.began, 'status': status, 'tags': [], 'user_id': 'roll'})

    def add(self, step: int, values: dict[str, float]) -> None:
        for key, value in values.items():
            name = re.sub(r'[^\w. /-]', '_', key)  # the characters that MLflow allows
            if name.startswith(('valid_', 'ngram2_')):
                name = name.replace('/', '.')  # valid_loss is a file, so valid_loss/SET cannot be one
            path = os.path.join(self.path, 'metrics', name)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, 'a', encoding='utf-8') as file:
                file.write(f'{self.began + step} {value!r} {step}\n')

    def restart(self) -> None:
        """Drops the metrics, because all rows follow again."""
        shutil.rmtree(os.path.join(self.path, 'metrics'))
        os.makedirs(os.path.join(self.path, 'metrics'))

    def close(self) -> None:
        self.describe(status=3, end=int(time.time() * 1000))


class WandbRun:
    """An offline run of W&B, written by its package."""

    def __init__(self, directory: str, experiment: str, run: str, head: dict[str, Any]) -> None:
        try:
            import wandb  # pylint: disable=import-outside-toplevel
        except ImportError:
            sys.exit('error: --wandb needs the package wandb; install it with: pip install wandb')
        os.makedirs(directory, exist_ok=True)
        name = os.path.basename(os.path.abspath(run))
        self.last = self.known = -1  # the last step; the steps up to `known` follow again
        self.run = wandb.init(mode='offline', dir=directory, project=experiment, name=name, config=head,
                              settings=wandb.Settings(console='off', x_disable_stats=True, silent=True))

    def add(self, step: int, values: dict[str, float]) -> None:
        self.last = max(self.last, step)
        if step > self.known:
            self.run.log(values, step=step)

    def restart(self) -> None:
        """Leaves out the steps that the run has, because W&B cannot change them."""
        self.known = self.last

    def close(self) -> None:
        self.run.finish()


def main(words: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog='python3 -m rollctl.trackers', description='Copy the metrics of a job.')
    parser.add_argument('run', help='output directory of a job')
    parser.add_argument('--mlflow', metavar='DIR', help="directory of MLflow's file store")
    parser.add_argument('--wandb', metavar='DIR', help='directory of an offline run of W&B')
    parser.add_argument('--experiment', default='roll', help="MLflow's experiment, or W&B's project [roll]")
    parser.add_argument('--follow', action='store_true', help='copy rows as they are written, until the job ends')
    options = parser.parse_args(words)
    if not options.mlflow and not options.wandb:
        parser.error('nothing to write; give --mlflow DIR or --wandb DIR')
    path = os.path.join(options.run, 'metrics.jsonl')
    if not os.path.exists(path):
        parser.error(f'{path} does not exist; give the output directory of a train job')
    targets: list[Any] = []
    copied = 0
    for row in rows_of(path, options.follow):
        if row is None:
            for target in targets:
                target.restart()
            copied = 0
            continue
        if not targets:
            head = row if 'schema' in row and 'steps' in row else {}
            targets = [kind(directory, options.experiment, options.run, head)
                       for kind, directory in ((MlflowStore, options.mlflow), (WandbRun, options.wandb)) if directory]
        if 'step' not in row:
            continue
        values = {key: value for key, value in numbers_of(row).items() if math.isfinite(value)}
        for target in targets:
            target.add(row['step'], values)
        copied += 1
        # A job that was continued has this row in the middle, too.
        if options.follow and 'export_valid_loss' in row:
            break
    for target in targets:
        target.close()
    stores = ' and '.join(directory for directory in (options.mlflow, options.wandb) if directory)
    print(f'copied {copied} row{"s" * (copied != 1)} of {path} to {stores}', file=sys.stderr)
    return 0


if __name__ == '__main__':
    sys.exit(main())
