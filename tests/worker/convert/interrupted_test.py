"""Kills conversions at every write, fsync and rename, and fills the disk from every write on.

usage: interrupted_test.py ROLL_CONVERT INTERRUPT_LIBRARY
"""
import json
import os
import pathlib
import resource
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent.parent / 'oracle'))
from tiny_hf import write_llama, write_safetensors  # noqa: E402

LIBRARY, PROGRAM = sys.argv.pop(2), sys.argv.pop(1)
SIZES = dict(hidden_size=16, intermediate_size=24, num_hidden_layers=2, vocab_size=32)


def write_adapter(directory, hidden, rank):
    directory.mkdir()
    front = 'base_model.model.model.layers.1.self_attn.q_proj.lora_'
    ones = struct.pack('<f', 1) * rank * hidden
    write_safetensors(directory / 'adapter_model.safetensors',
                      {f'{front}A.weight': ([rank, hidden], ones), f'{front}B.weight': ([hidden, rank], ones)})
    (directory / 'adapter_config.json').write_text(json.dumps(
        {'peft_type': 'LORA', 'r': rank, 'lora_alpha': 16, 'target_modules': ['q_proj']}))


def run(*args, **environment):
    preload = {'LD_PRELOAD': LIBRARY} if environment else {}
    return subprocess.run([PROGRAM, *map(str, args)], capture_output=True, text=True, timeout=60,
                          env={**os.environ, **preload, **environment})


class Interrupted(unittest.TestCase):
    def setUp(self):
        self.root = pathlib.Path(tempfile.mkdtemp(prefix='roll-interrupted-'))
        self.addCleanup(shutil.rmtree, self.root, ignore_errors=True)
        write_llama(self.root / 'hf', **SIZES)
        write_llama(self.root / 'other', **SIZES)
        self.out, self.staging = self.root / 'out', self.root / '.out.roll-staging'

    def is_whole(self, directory, of):
        return run('verify', directory).returncode == 0 and \
            run('diff', self.root / of, directory).returncode == 0

    def conversions(self, *flags, **environment):
        """Yields conversions, each interrupted one change later than the previous, until one succeeds."""
        for at in range(1, 1000):
            done = run('convert', self.root / 'hf', self.out, '--threads', 1, *flags,
                       INTERRUPT_AT=str(at), **environment)
            yield at, done
            if done.returncode == 0:
                self.assertGreater(at, 20)
                return
        self.fail('it never ends')

    def test_killed_at_any_change_it_leaves_no_target(self):
        run('convert', self.root / 'hf', self.root / 'earlier', '--to', 'hf', '--max-shard-size', '3KB')
        for flags in (['--tp', '2'], ['--to', 'hf', '--max-shard-size', '3KB'], ['--to', 'torch_dist'],
                      ['--to', 'hf', '--max-shard-size', '3KB', '--reuse', self.root / 'earlier'], ['nemo']):
            if flags == ['nemo']:  # the target's name selects this format
                self.out, self.staging, flags = self.root / 'out.nemo', self.root / '.out.nemo.roll-staging', []
            for at, done in self.conversions(*flags):
                if self.out.exists():  # the rename is done, and only its fsync is missing
                    self.assertTrue(self.is_whole(self.out, 'hf'), at)
                    self.out.unlink() if self.out.is_file() else shutil.rmtree(self.out)
                elif self.staging.exists() and run('verify', self.staging).returncode == 0:
                    self.assertTrue(self.is_whole(self.staging, 'hf'), at)
            self.assertFalse(self.staging.exists())

    def test_killed_at_any_change_an_overwritten_target_is_the_old_or_the_new(self):
        seen = set()
        run('convert', self.root / 'other', self.root / 'old', '--tp', '2')
        for at, done in self.conversions('--tp', '2', '--overwrite'):
            if not self.out.exists():
                shutil.copytree(self.root / 'old', self.out)
                continue
            old, new = self.is_whole(self.out, 'other'), self.is_whole(self.out, 'hf')
            self.assertNotEqual(old, new, at)
            seen.add('old' if old else 'new')
            if new:
                shutil.rmtree(self.out)
                shutil.copytree(self.root / 'old', self.out)
        self.assertEqual(seen, {'old', 'new'})
        self.assertFalse(self.staging.exists())

    def test_a_disk_that_is_too_small_is_said_before_anything_is_changed(self):
        for flags in (['--tp', '2'], ['--to', 'hf', '--bf16'], ['--to', 'torch_dist'], ['--to', 'nemo', '--bf16']):
            plan = json.loads(run('convert', self.root / 'hf', self.out, *flags, '--dry-run', '--json').stdout)
            self.assertGreater(plan['disk_free_bytes'], plan['bytes'])
            small = {'INTERRUPT_AT': '1', 'INTERRUPT_FREE': str(plan['bytes'] - 1)}  # any change would kill it
            done = run('convert', self.root / 'hf', self.out, *flags, **small)
            self.assertEqual(done.returncode, 4, done.stderr)
            says = rf"needs {plan['bytes']} bytes, but the disk has only \d+ bytes free"
            self.assertRegex(done.stderr, says)
            done = run('convert', self.root / 'hf', self.out, *flags, '--dry-run', **small)
            self.assertEqual(done.returncode, 4, done.stderr)
            self.assertRegex(done.stderr, says)
            self.assertIn('lm_head.weight' if 'hf' in flags else 'output_layer.weight', done.stdout)
            done = run('convert', self.root / 'hf', self.out, *flags, '--dry-run', '--json', **small)
            self.assertEqual(done.returncode, 4, done.stderr)
            told = json.loads(done.stdout)
            self.assertEqual((told['bytes'], told['error']['code']), (plan['bytes'], 'refused'))
            self.assertRegex(told['error']['message'], says)

    def test_a_disk_full_from_any_write_on_is_refused_and_left_as_it_was(self):
        for at, done in self.conversions('--tp', '2', INTERRUPT_WITH='full'):
            self.assertFalse(self.staging.exists(), at)
            if done.returncode:
                self.assertEqual(done.returncode, 4, done.stderr)
                self.assertIn('No space left on device', done.stderr)
                self.assertFalse(self.out.exists())

    def test_a_source_that_shrinks_is_named_and_nothing_is_left(self):
        source, other = self.root / 'hf/model.safetensors', self.root / 'other'
        whole, seen = source.read_bytes(), set()
        for flags in (['--tp', '2'], ['--to', 'hf', '--bf16']):
            for at in range(1, 1000):
                shutil.rmtree(self.out, ignore_errors=True)
                done = run('convert', self.root / 'hf', self.out, '--threads', 1, *flags,
                           INTERRUPT_AT=str(at), INTERRUPT_SHRINK=str(source))
                is_shorter = source.stat().st_size < len(whole)
                source.write_bytes(whole)
                seen.add(done.returncode)
                self.assertFalse(self.staging.exists(), at)
                if done.returncode == 0:  # the file shrank after the last read, or not at all
                    self.assertTrue(self.is_whole(self.out, 'hf') or flags[-1] == '--bf16', at)
                    if not is_shorter:
                        break
                    continue
                self.assertEqual(done.returncode, 1, (at, done.stderr))
                self.assertRegex(done.stderr.splitlines()[-2], rf'^roll-convert: {source} shrank from {len(whole)} to '
                                                               rf'{len(whole) // 2} bytes while it was read$')
                self.assertFalse(self.out.exists())
        self.assertEqual(seen, {0, 1})

    def test_a_limit_on_the_size_of_files_is_an_error_and_nothing_is_left(self):
        def limit():
            resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
        done = subprocess.run([PROGRAM, 'convert', self.root / 'hf', self.out], capture_output=True, text=True,
                              preexec_fn=limit, timeout=60)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertRegex(done.stderr, r'roll-convert: cannot write \S+: File too large\n$')
        self.assertFalse(self.out.exists() or self.staging.exists())

    def test_what_is_not_a_regular_file_is_refused(self):
        for name, code in (('config.json', 2), ('model.safetensors', 3)):
            source = self.root / f'of-{name}'
            shutil.copytree(self.root / 'hf', source)
            (source / name).unlink()
            os.mkfifo(source / name)
            self.assertEqual(run('convert', source, self.out).returncode, code)
            self.assertFalse(self.out.exists())
        self.assertIn('config.json is not a regular file', run('inspect', self.root / 'of-config.json').stderr)

    def test_a_bit_that_turned_on_its_way_to_the_disk_is_found_by_verify(self):
        write_llama(self.root / 'large', **{**SIZES, 'vocab_size': 2048})  # the embedding has 128 KiB
        write_adapter(self.root / 'lora', SIZES['hidden_size'], rank=2048)
        for flags in (['--tp', '1'], ['--to', 'hf'], ['--to', 'bin'], ['--to', 'torch_dist'], ['--to', 'nemo'],
                      ['--adapter', self.root / 'lora', '--tp', '1'],
                      ['--adapter', self.root / 'lora', '--to', 'peft']):
            args = ['convert', self.root / 'large', self.out, '--verify', '--threads', 1, *flags]
            done = run(*args, INTERRUPT_FLIP='100000')
            self.assertEqual(done.returncode, 1, (flags, done.stderr))
            self.assertRegex(done.stderr, r'the written \S+ differs from the (source|adapter)')
            self.assertFalse(self.out.exists() or self.staging.exists())
            self.assertEqual(run(*args, INTERRUPT_FLIP='100000000').returncode, 0, flags)
            shutil.rmtree(self.out)


if __name__ == '__main__':
    unittest.main(verbosity=2)
