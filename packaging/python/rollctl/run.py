"""Runs one call of an Executor inside a job: reads call.pkl and writes the result.

The exit status is 0 if the call returned, and 1 if it raised an exception.
"""
from __future__ import annotations

import os
import pickle
import runpy
import sys
import traceback
import types
from collections.abc import Mapping
from typing import Any

from .executor import pickler, write_atomically


def prepare(caller: Mapping[str, Any]) -> None:
    """Makes the caller's modules importable, and its main script importable as __main__.

    The main script runs under the name __mp_main__, as with multiprocessing: code below
    `if __name__ == '__main__'` does not run.
    """
    sys.path[:] = [path if path else caller['directory'] for path in caller['path']]
    main = types.ModuleType('__mp_main__')
    if caller['main_module'] is not None:
        main.__dict__.update(runpy.run_module(caller['main_module'], run_name='__mp_main__',
                                              alter_sys=True))
    elif caller['main_file'] is not None:
        main.__dict__.update(runpy.run_path(caller['main_file'], run_name='__mp_main__'))
    sys.modules['__main__'] = sys.modules['__mp_main__'] = main


def bytes_of(result: tuple[str, Any, str]) -> bytes:
    """Returns the pickled result. A value that cannot be pickled becomes an error that says so."""
    try:
        return bytes(pickler.dumps(result))
    except Exception as error:  # pickle raises whatever an object's own methods raise
        text = f'the call {result[0]} cannot be pickled: {error!r}\n{result[2]}'
        return pickle.dumps(('error', TypeError(text), result[2]))


def call(folder: str, index: int) -> tuple[str, Any, str]:
    """Runs call number `index` of the folder. Returns (kind, value, traceback)."""
    try:
        with open(os.path.join(folder, 'call.pkl'), 'rb') as file:
            prepare(pickle.load(file))
            function, calls = pickle.load(file)
        args, kwargs = calls[index]
        return ('value', function(*args, **kwargs), '')
    except BaseException as error:  # also SystemExit, which the caller would raise
        text = traceback.format_exc()
        sys.stderr.write(text)
        return ('error', error, text)


def main(folder: str) -> None:
    index = int(os.environ.get('ROLL_ARRAY_INDEX') or 0)
    rank = int(os.environ.get('RANK') or os.environ.get('ROLL_NODE_RANK') or 0)
    result = call(folder, index)
    name = f'result-{index}-{os.environ["ROLL_TOKEN"]}-{rank}.pkl'
    write_atomically(os.path.join(folder, name), bytes_of(result))
    sys.exit(0 if result[0] == 'value' else 1)
