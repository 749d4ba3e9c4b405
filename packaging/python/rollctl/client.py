"""Typed access to a Roll queue.

Every call runs the program `rollctl`, so a script has the same rights, retries and messages as the
command line.
"""
from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Optional, Union

OVER = frozenset({'done', 'failed', 'cancelled'})
OWN_TROUBLE = 125  # exit code of `rollctl wait` when rollctl itself failed


class RollError(Exception):
    """A request that rollctl or rolld refused.

    `code` is one of the codes of `rollctl --json`: invalid_argument, not_found, refused,
    unavailable, corrupt or failed. `hint` is the next command to try, or an empty string.
    """

    def __init__(self, code: str, message: str, hint: str = ''):
        super().__init__(f'{message}; {hint}' if hint else message)
        self.code = code
        self.message = message
        self.hint = hint


class JobFailed(Exception):
    """A job that ended without a result. `job` is its last state."""

    def __init__(self, job: Job, log: str = ''):
        text = f'job {job.id} {job.name} is {job.state}: {job.reason or "no reason is recorded"}'
        super().__init__(f'{text}\n{log}' if log else text)
        self.job = job


@dataclass(frozen=True)
class Job:
    """A job as the queue showed it. `summary` has all fields of `rollctl show --json`."""

    id: int
    name: str
    kind: str
    state: str
    exit_code: Optional[int]
    reason: str
    output: str
    summary: Mapping[str, Any]

    @property
    def is_over(self) -> bool:
        return self.state in OVER

    @staticmethod
    def of(summary: Mapping[str, Any]) -> Job:
        return Job(summary['id'], summary['name'], summary['kind'], summary['state'],
                   summary.get('exit_code'), summary.get('reason') or '',
                   summary.get('output') or '', summary)


def selector_of(ids: Iterable[int]) -> str:
    """Returns the selector of these jobs, in which consecutive numbers are one range."""
    runs: list[list[int]] = []
    for job in sorted(set(ids)):
        if runs and job == runs[-1][1] + 1:
            runs[-1][1] = job
        else:
            runs.append([job, job])
    return ','.join(str(first) if first == last else f'{first}-{last}' for first, last in runs)


class Client:
    """A Roll queue, as `rollctl` finds it.

    `directory` is rolld's state directory (`ROLL_DIR`). `program` is the path of rollctl.
    Methods raise RollError if rollctl refuses, and FileNotFoundError if there is no rollctl.
    """

    def __init__(self, directory: Union[str, os.PathLike[str], None] = None,
                 program: str = 'rollctl'):
        self.directory = os.fspath(directory) if directory is not None else None
        self.program = program

    def run(self, *words: object, text: Optional[str] = None,
            timeout: Optional[float] = None) -> subprocess.CompletedProcess[str]:
        """Runs rollctl with these arguments and `text` as its standard input."""
        env = {**os.environ, 'NO_COLOR': '1'}
        if self.directory is not None:
            env['ROLL_DIR'] = self.directory
        stdin: dict[str, Any] = {'stdin': subprocess.DEVNULL} if text is None else {'input': text}
        return subprocess.run([self.program, *map(str, words)], env=env, capture_output=True,
                              encoding='utf-8', timeout=timeout, check=False, **stdin)

    def ask(self, *words: object, text: Optional[str] = None,
            allowed: Sequence[int] = (0,)) -> dict[str, Any]:
        """Runs rollctl with `--json`. Returns its JSON value, or raises its error."""
        done = self.run(*words, '--json', text=text)
        try:
            value: dict[str, Any] = json.loads(done.stdout)
        except ValueError:
            raise RollError('failed', done.stderr.strip() or done.stdout.strip()
                            or f'rollctl {words[0]} ended with {done.returncode}') from None
        if 'error' in value:
            error = value['error']
            raise RollError(error['code'], error['message'], error.get('hint') or '')
        if done.returncode not in allowed and allowed:
            raise RollError('failed', done.stderr.strip())
        return value

    def submit(self, job: Union[str, os.PathLike[str], Mapping[str, Any]], *,
               settings: Optional[Mapping[str, Any]] = None, after: Iterable[str] = (),
               key: Optional[str] = None) -> list[int]:
        """Queues a job file, or a job given as a mapping. Returns the numbers of its jobs.

        Relative paths in a mapping are relative to the current directory. `settings` overrides keys
        of the job: {'train.steps': 10}. A second submission with the same `key` queues nothing and
        returns the jobs of the first one.
        """
        words: list[object] = ['submit']
        text = None
        if isinstance(job, Mapping):
            words.append('-')
            text = json.dumps(job)
        else:
            words.append(os.fspath(job))
        for name, value in (settings or {}).items():
            words += ['--set', f'{name}={value if isinstance(value, str) else json.dumps(value)}']
        for condition in after:
            words += ['--after', condition]
        if key is not None:
            words += ['--key', key]
        reply = self.ask(*words, text=text)
        return [first['id'] + task for first in reply.get('submitted', [reply])
                for task in range(first.get('jobs', 1))]

    def jobs(self, selector: Union[str, Iterable[int]] = 'all') -> list[Job]:
        """Returns the jobs of a selector (`7`, `3-9`, `@me`, `kjv*`) or of these numbers."""
        chosen = selector if isinstance(selector, str) else selector_of(selector)
        return [Job.of(summary) for summary in self.ask('jobs', '-a', chosen)['jobs']]

    def job(self, number: int) -> Job:
        """Returns a job, with its attempts, checkpoints and exports in `summary`."""
        return Job.of(self.ask('show', number)['job'])

    def wait(self, ids: Iterable[int]) -> list[Job]:
        """Waits until all these jobs have ended, also those that fail. Returns them."""
        return [Job.of(summary) for summary in self.ask('wait', *ids, allowed=())['jobs']]

    def cancel(self, selector: Union[str, Iterable[int]], reason: str = '') -> list[int]:
        """Stops running jobs and removes queued ones. Returns the numbers of the cancelled jobs."""
        chosen = selector if isinstance(selector, str) else selector_of(selector)
        words = ['cancel', chosen] + (['--reason', reason] if reason else [])
        return list(self.ask(*words)['cancelled'])

    def logs(self, number: int, *, rank: Union[int, str, None] = None,
             attempt: Optional[int] = None) -> str:
        """Returns the output of a job: of its first rank, of another `rank`, or of `all`."""
        words: list[object] = ['logs', number]
        words += ['--rank', rank] if rank is not None else []
        words += ['--attempt', attempt] if attempt is not None else []
        done = self.run(*words)
        if done.returncode != 0:
            raise RollError('failed', done.stderr.strip())
        return done.stdout

    def metrics(self, number: int) -> list[dict[str, Any]]:
        """Returns the rows of a training job's metrics.jsonl."""
        return list(self.ask('metrics', number)['metrics'])
