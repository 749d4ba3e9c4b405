"""Several processes write one target together. They write the same bytes as a single process, or nothing if one
fails.

usage: parts_test.py ROLL_CONVERT
"""
import filecmp
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent.parent / 'oracle'))
from tiny_hf import write_llama  # noqa: E402

PROGRAM = sys.argv.pop(1)


def files_of(directory):
    return sorted(str(path.relative_to(directory)) for path in directory.rglob('*') if path.is_file())


class Parts(unittest.TestCase):
    def setUp(self):
        self.root = pathlib.Path(tempfile.mkdtemp(prefix='roll-parts-'))
        self.addCleanup(shutil.rmtree, self.root, ignore_errors=True)
        self.runs = 0
        write_llama(self.root / 'hf')

    def run_alone(self, *args):
        done = subprocess.run([PROGRAM, *map(str, args)], capture_output=True, text=True, timeout=60, cwd=self.root)
        return done

    def start(self, part, *args, run='one'):
        return subprocess.Popen([PROGRAM, *map(str, args), '--part', part, '--run', run], cwd=self.root, text=True,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def together(self, count, *args):
        """Runs `count` processes, starting with the last. Returns the statuses and messages, from part 0 on."""
        self.runs += 1
        parts = [self.start(f'{i}/{count}', *args, run=f'run{self.runs}') for i in reversed(range(count))]
        said = [part.communicate(timeout=60)[1] for part in parts]
        return [part.returncode for part in reversed(parts)], said[::-1]

    def assert_same_files(self, first, second):
        self.assertEqual(files_of(first), files_of(second))
        for name in files_of(first):
            self.assertTrue(filecmp.cmp(first / name, second / name, shallow=False), name)

    def test_the_target_is_the_same_whoever_writes_it(self):
        cases = [('hf', ['--tp', '2', '--pp', '2'], 3), ('hf', ['--to', 'hf', '--max-shard-size', '30KB'], 2),
                 ('hf', ['--to', 'torch_dist'], 2), ('alone0', ['--max-shard-size', '20KB', '--bf16'], 4)]
        for number, (source, options, count) in enumerate(cases):
            alone, parts = self.root / f'alone{number}', self.root / f'parts{number}'
            self.assertEqual(self.run_alone('convert', source, alone, *options).returncode, 0)
            statuses, said = self.together(count, 'convert', source, parts, *options, '--verify')
            self.assertEqual(statuses, [0] * count, said)
            self.assert_same_files(alone, parts)
        self.assertGreater(len([name for name in files_of(alone) if name.endswith('.safetensors')]), 4)

    def assert_nothing_is_left(self, of):
        self.assertEqual([name for name in os.listdir(self.root) if of in name], [])

    def test_one_that_never_comes_is_waited_for_until_somebody_stops_it(self):
        target = self.root / 'out'
        whole = self.start('0/2', 'convert', 'hf', target, '--tp', '2')
        other = self.start('1/2', 'convert', 'hf', target, '--tp', '2', '--reuse', 'hf/config.json')
        self.assertEqual(other.wait(60), 3, other.stderr.read())  # refused before it joined the others
        time.sleep(0.5)
        self.assertIsNone(whole.poll())  # it still waits for the other part
        whole.send_signal(signal.SIGTERM)
        self.assertEqual(whole.wait(60), 5)
        self.assert_nothing_is_left('out')

    def test_the_others_end_with_the_first(self):
        target = self.root / 'out'
        # Part 1 of 3 never comes, so the first waits. When the first is stopped, its message ends part 2.
        first, third = (self.start(part, 'convert', 'hf', target, '--tp', '2') for part in ('0/3', '2/3'))
        deadline = time.monotonic() + 30
        note = self.root / '.out.roll-staging/.roll-parts/2'
        while not (note.exists() and json.loads(note.read_text())['phase'] >= 1) and time.monotonic() < deadline:
            time.sleep(0.05)
        first.terminate()
        self.assertEqual(first.wait(60), 5)
        said = third.communicate(timeout=60)[1]
        self.assertEqual(third.returncode, 5)
        self.assertIn('part 0 ', said)
        self.assertIn('has ended', said)
        self.assert_nothing_is_left('out')

    def test_one_of_another_run_is_not_waited_for(self):
        target = self.root / 'out'
        stray = self.start('1/2', 'convert', 'hf', target, '--tp', '2', run='another')
        statuses, said = self.together(2, 'convert', 'hf', target, '--tp', '2')
        self.assertEqual(statuses, [0, 0], said)
        self.assertIsNone(stray.poll())
        stray.terminate()
        self.assertEqual(stray.wait(60), 5)
        self.assertEqual(self.run_alone('verify', target).returncode, 0)

    def test_what_is_no_part_is_refused(self):
        for words, why in ((['--part', '2/2', '--run', 'a'], 'I/N'), (['--part', '1', '--run', 'a'], 'I/N'),
                           (['--part', '0/2'], '--part requires --run'), (['--run', 'a'], '--run requires --part'),
                           (['--part', '-1/2', '--run', 'a'], 'I/N')):
            done = self.run_alone('convert', 'hf', 'out', *words)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn(why, done.stderr)
        self.assert_nothing_is_left('out')


if __name__ == '__main__':
    unittest.main(verbosity=2)
