"""Submits jobs and Python functions to a Roll queue.

`Client` has one method for each thing that `rollctl` does with jobs. `Executor` is a
`concurrent.futures.Executor` whose calls run as jobs. `AutoExecutor` takes submitit's parameters.
"""
from .client import Client, Job, JobFailed, RollError
from .executor import Executor, RollFuture
from .submitit import AutoExecutor

__all__ = ['AutoExecutor', 'Client', 'Executor', 'Job', 'JobFailed', 'RollError', 'RollFuture']
