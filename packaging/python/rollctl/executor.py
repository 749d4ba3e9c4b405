"""Runs Python functions as jobs, behind the interface of concurrent.futures.

A call is a folder on a file system that the nodes share:

    call.pkl                       the function and its arguments, and how to import them
    result-INDEX-TOKEN-RANK.pkl    what process RANK of attempt TOKEN returned or raised

INDEX is the number of the call in its array. A result counts only if its token is the one of the
job's last attempt, so an attempt that the queue gave up cannot supply one.
"""
from __future__ import annotations

import concurrent.futures
import contextlib
import os
import pickle
import sys
import threading
import time
import types
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Optional, Union

from .client import Client, Job, JobFailed, RollError

try:  # pickles functions that no module defines, such as lambdas and those of a notebook
    import cloudpickle
    pickler: Any = cloudpickle
except ImportError:
    pickler = pickle

# A job imports the caller's main script as __mp_main__, and results may name classes of it.
sys.modules.setdefault('__mp_main__', sys.modules['__main__'])

Arguments = tuple[tuple[Any, ...], dict[str, Any]]  # of one call: by position and by name

POLL_S = 0.2
POLL_MAX_S = 2.0
LOG_LINES = 20


class RemoteTraceback(Exception):
    """The traceback of a call, as text: the cause of the exception that the call raised."""

    def __str__(self) -> str:
        return '\n' + str(self.args[0])


class RollFuture(concurrent.futures.Future):  # type: ignore[type-arg]
    """The result of a call that runs as a job."""

    def __init__(self, executor: Executor, job: int, folder: str, index: int):
        super().__init__()
        self._executor = executor
        self._folder = folder
        self._index = index
        self._results: list[Any] = []
        self._is_running = False  # the base class refuses to cancel a future that it calls running
        self.job_id = job

    def running(self) -> bool:
        return self._is_running and not self.done()

    def cancel(self) -> bool:
        """Cancels the job, also if it runs. Returns False if the call has already ended."""
        if self.done():
            return self.cancelled()
        self._executor.client.cancel([self.job_id])
        return super().cancel()

    def results(self, timeout: Optional[float] = None) -> list[Any]:
        """Returns the result of each process of the call: one for each task of each node."""
        self.result(timeout)
        return self._results

    def state(self) -> str:
        """Returns the job's state: queued, running, done, failed or cancelled."""
        return self._executor.client.job(self.job_id).state

    def log(self, rank: Union[int, str, None] = None) -> str:
        """Returns what the call printed."""
        return self._executor.client.logs(self.job_id, rank=rank)

    def _settle(self, job: Job) -> None:
        """Takes the result of the job, which is over."""
        try:
            ranks = read_results(self._folder, self._index, last_token(self._executor.client, job))
        except (OSError, EOFError, ImportError, AttributeError, pickle.UnpicklingError) as error:
            self._end(error=error)
            return
        failed = next((rank for rank in ranks if rank[0] == 'error'), None)
        if failed is not None:
            _, raised, text = failed
            raised.__cause__ = RemoteTraceback(text)
            self._end(error=raised)
        elif ranks and job.state == 'done':
            self._end(results=[value for _, value, _ in ranks])
        else:
            self._end(error=JobFailed(job, self._last_lines()))

    def _end(self, results: Optional[list[Any]] = None,
             error: Optional[BaseException] = None) -> None:
        with contextlib.suppress(concurrent.futures.InvalidStateError):  # it was cancelled
            if results is None:
                self.set_exception(error)
            else:
                self._results = results
                self.set_result(results[0])

    def _last_lines(self) -> str:
        try:
            return '\n'.join(self.log().splitlines()[-LOG_LINES:])
        except RollError:
            return ''


def last_token(client: Client, job: Job) -> str:
    """Returns the token of the job's last attempt; empty if the job never started."""
    attempts = client.job(job.id).summary['attempts']
    return attempts[-1]['token'] if attempts else ''


def read_results(folder: str, index: int, token: str) -> list[tuple[str, Any, str]]:
    """Returns (kind, value, traceback) of each process of an attempt, in the order of its ranks."""
    found: list[tuple[int, tuple[str, Any, str]]] = []
    start = f'result-{index}-{token}-'
    for name in os.listdir(folder) if token else []:
        if name.startswith(start) and name.endswith('.pkl'):
            with open(os.path.join(folder, name), 'rb') as file:
                found.append((int(name[len(start):-len('.pkl')]), pickle.load(file)))
    return [result for _, result in sorted(found, key=lambda pair: pair[0])]


def write_atomically(path: str, data: bytes) -> None:
    """Writes a file that is either whole or absent, also after a crash of the machine."""
    new = f'{path}.{os.getpid()}.new'
    with open(new, 'wb') as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    os.rename(new, path)


def preparation() -> dict[str, Any]:
    """Returns what a new interpreter needs to import the caller's functions."""
    main = sys.modules['__main__']
    spec = getattr(main, '__spec__', None)
    path = getattr(main, '__file__', None)
    return {'path': sys.path, 'directory': os.getcwd(),
            'main_module': getattr(spec, 'name', None),
            'main_file': os.path.abspath(path) if path and spec is None else None}


def pickled(function: Callable[..., Any], calls: list[Arguments]) -> bytes:
    """Returns the bytes of call.pkl. Fails with TypeError if a function cannot be pickled."""
    main = sys.modules['__main__']
    if (pickler is pickle and getattr(function, '__module__', None) == '__main__'
            and not hasattr(main, '__file__')):
        raise TypeError(f'{function!r} is defined in an interactive session, which pickle cannot '
                        'handle; install cloudpickle, or move the function to a module')
    try:
        return pickle.dumps(preparation()) + bytes(pickler.dumps((function, calls)))
    except (pickle.PicklingError, AttributeError) as error:
        raise TypeError(f'cannot pickle {function!r} or its arguments: {error}; install '
                        'cloudpickle, or define the function at the top of a module') from error


class Executor(concurrent.futures.Executor):
    """Runs each call as a job of kind `command`.

    `folder` holds calls and results, and must be visible on the nodes. `resources` has the keys of
    `resources` in a job file, such as {'slots_per_node': 4, 'time': '30m'}. `job` has other keys of
    the job file, such as {'account': 'lab', 'retry': {'app': 2}}. `python` is the interpreter of
    the jobs. Calls run in the current directory of the process that submits them.
    """

    def __init__(self, folder: Union[str, os.PathLike[str]] = 'roll-calls', *,
                 resources: Optional[Mapping[str, Any]] = None,
                 job: Optional[Mapping[str, Any]] = None, name: Optional[str] = None,
                 client: Optional[Client] = None, python: str = sys.executable):
        self.client = client or Client()
        self.folder = os.path.abspath(folder)
        self.resources = dict(resources or {})
        self.document = dict(job or {})
        self.name = name
        self.python = python
        self._pending: dict[int, RollFuture] = {}
        self._changed = threading.Condition()
        self._closed = False
        self._watcher: Optional[threading.Thread] = None

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> RollFuture:
        """Queues the call as a job. Returns when the job is durably queued."""
        return self._queue(fn, [(args, kwargs)], as_array=False)[0]

    def map_array(self, fn: Callable[..., Any], /, *iterables: Iterable[Any],
                  at_once: Optional[int] = None) -> list[RollFuture]:
        """Queues one call for each tuple of arguments, as one job array.

        At most `at_once` of the calls run at the same time.
        """
        calls: list[Arguments] = [(each, {}) for each in zip(*iterables)]
        return self._queue(fn, calls, as_array=True, at_once=at_once) if calls else []

    def map(self, fn: Callable[..., Any], *iterables: Iterable[Any],
            timeout: Optional[float] = None, chunksize: int = 1) -> Iterator[Any]:
        """Like the built-in map, as one job array. `chunksize` has no effect."""
        futures = self.map_array(fn, *iterables)
        end = None if timeout is None else time.monotonic() + timeout

        def results() -> Iterator[Any]:
            try:
                for future in futures:
                    yield future.result(None if end is None else max(0.0, end - time.monotonic()))
            finally:
                left = [future.job_id for future in futures if not future.done()]
                if left:
                    self.client.cancel(left)
        return results()

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Accepts no more calls. Jobs go on, unless `cancel_futures` cancels them."""
        with self._changed:
            self._closed = True
            pending = list(self._pending.values())
            self._changed.notify_all()
        if cancel_futures:
            for future in pending:
                future.cancel()
        if wait:
            concurrent.futures.wait(pending)

    def _queue(self, function: Callable[..., Any], calls: list[Arguments], as_array: bool,
               at_once: Optional[int] = None) -> list[RollFuture]:
        if self._closed:
            raise RuntimeError('cannot submit a call after shutdown')
        data = pickled(function, calls)
        folder = os.path.join(self.folder, uuid.uuid4().hex)
        os.makedirs(folder)
        write_atomically(os.path.join(folder, 'call.pkl'), data)
        label = self.name or getattr(function, '__name__', 'call').strip('<>')
        package = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
        document = {'name': label, **self.document, 'kind': 'command',
                    'command': [self.python, '-c',
                                f'import sys; sys.path.insert(0, {package!r}); '
                                'from rollctl.run import main; main(sys.argv[1])', folder],
                    'workdir': os.getcwd(),
                    'output': os.path.join(folder, 'job-{id}')}
        if self.resources:
            document['resources'] = self.resources
        if as_array:
            limit = f'%{at_once}' if at_once is not None else ''
            document['array'] = f'0-{len(calls) - 1}{limit}'
        # The folder's name is the key: a submission that is sent again queues nothing.
        jobs = self.client.submit(document, key=os.path.basename(folder))
        futures = [RollFuture(self, job, folder, index) for index, job in enumerate(jobs)]
        with self._changed:
            self._pending.update((future.job_id, future) for future in futures)
            if self._watcher is None:
                self._watcher = threading.Thread(target=self._watch, daemon=True)
                self._watcher.start()
            self._changed.notify_all()
        return futures

    def _watch(self) -> None:
        """Asks for the pending jobs until all have ended. Waits longer after each idle look."""
        delay = POLL_S
        while True:
            with self._changed:
                if not self._pending:
                    if self._closed:
                        return
                    self._changed.wait()
                    delay = POLL_S
                    continue
                pending = dict(self._pending)
            with contextlib.suppress(RollError):  # rolld restarts: ask again
                jobs = self.client.jobs(pending)
                delay = POLL_S if self._settle(pending, jobs) else min(1.5 * delay, POLL_MAX_S)
            time.sleep(delay)

    def _settle(self, pending: Mapping[int, RollFuture], jobs: list[Job]) -> bool:
        """Settles the futures of jobs that are over. Returns whether a state changed."""
        changed = False
        for job in jobs:
            future = pending[job.id]
            if job.is_over:
                future._settle(job)
                with self._changed:
                    del self._pending[job.id]
                changed = True
            elif job.state == 'running' and not future._is_running:
                future._is_running = changed = True
        return changed

    def __exit__(self, kind: Optional[type[BaseException]], error: Optional[BaseException],
                 trace: Optional[types.TracebackType]) -> None:
        self.shutdown(wait=True, cancel_futures=kind is not None)
