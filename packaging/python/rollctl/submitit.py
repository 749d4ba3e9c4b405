"""submitit's AutoExecutor and Job on a Roll queue, for scripts that were written for submitit."""
from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterator
from typing import Any, Callable

from .executor import Executor, RollFuture

# Parameters of submitit that have no meaning for Roll: the scheduler decides these itself.
IGNORED = frozenset({'slurm_partition', 'slurm_qos', 'slurm_constraint', 'slurm_comment',
                     'slurm_exclude', 'slurm_signal_delay_s', 'stderr_to_stdout', 'tags'})
ALLOWED = ('name', 'timeout_min', 'nodes', 'tasks_per_node', 'cpus_per_task', 'gpus_per_node',
           'slurm_account', 'slurm_array_parallelism', 'slurm_time')


class AutoExecutor(Executor):
    """An Executor that is configured by `update_parameters`, as submitit's.

    Differences: `result()` raises the exception of the call itself, and stdout and stderr of a call
    are one log, `log()`.
    """

    def __init__(self, folder: str, **options: Any):
        super().__init__(folder, **options)
        self._at_once: Any = None
        self._cpus_per_task = 1

    def update_parameters(self, **parameters: Any) -> None:
        """Sets what later calls ask for. An unknown parameter raises TypeError."""
        for key, value in parameters.items():
            if key == 'name':
                self.name = value
            elif key == 'timeout_min':
                self.resources['time'] = f'{round(60 * value)}s'
            elif key == 'slurm_time':
                self.resources['time'] = value if isinstance(value, str) else f'{60 * value}s'
            elif key in ('nodes', 'tasks_per_node', 'gpus_per_node'):
                self.resources[key] = value
            elif key == 'cpus_per_task':
                self._cpus_per_task = value
            elif key == 'slurm_account':
                self.document['account'] = value
            elif key == 'slurm_array_parallelism':
                self._at_once = value
            elif key in IGNORED:
                warnings.warn(f'{key} has no effect with Roll', stacklevel=2)
            else:
                raise TypeError(f'unknown parameter {key}; allowed: {", ".join(ALLOWED)}')
        self.resources['slots_per_node'] = (self._cpus_per_task
                                            * self.resources.get('tasks_per_node', 1))

    def map_array(self, fn: Callable[..., Any], /, *iterables: Any,
                  at_once: Any = None) -> list[RollFuture]:
        return super().map_array(fn, *iterables, at_once=at_once or self._at_once)

    @contextlib.contextmanager
    def batch(self) -> Iterator[None]:
        """submitit queues the calls of a batch as one array; Roll queues each call at once."""
        yield
