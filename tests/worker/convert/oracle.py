"""Shared by the oracle scripts: the program under test, and a folder for each test."""
import pathlib
import shutil
import socket
import subprocess
import sys
import tempfile
import unittest

import torch
import transformers

PROGRAM = sys.argv.pop(1)
torch.set_num_threads(1)
transformers.utils.logging.disable_progress_bar()
transformers.utils.logging.set_verbosity_error()


def run(*args, code=0):
    """Runs the program. It must exit with `code` or, if that is None, with any error's code."""
    done = subprocess.run([PROGRAM, *map(str, args)], capture_output=True, text=True, timeout=120)
    wanted = range(1, 6) if code is None else (code,)
    assert done.returncode in wanted, f'{args}: exit {done.returncode}\n{done.stdout}{done.stderr}'
    return done


class FolderCase(unittest.TestCase):
    """A test with its own folder, `root`."""

    def setUp(self):
        self.root = pathlib.Path(tempfile.mkdtemp(prefix='roll-oracle-'))
        self.addCleanup(shutil.rmtree, self.root, ignore_errors=True)


def bits(tensor):
    return tensor.contiguous().view(torch.uint8)


def free_port():
    with socket.socket() as one:
        one.bind(('127.0.0.1', 0))
        return one.getsockname()[1]
