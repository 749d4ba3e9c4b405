#!/usr/bin/env python3
"""Every code path for processors: qemu-x86_64 emulates other processors, ROLL_PROCESSOR selects paths of this one.

qemu does not emulate AVX-512, so Skylake-Server tests only the choice by vendor.
"""
import json
import os
import shutil
import subprocess
import time
import unittest

from ranks import CONVERT, RANK, RankCase

BIN = os.path.dirname(RANK)
MKL, ONEDNN = 'float32 matrix products: by MKL', 'float32 matrix products: by oneDNN'
WIDENED = {'avx2': 'bfloat16 matrix products: in float32 by oneDNN',
           'default': 'bfloat16 matrix products: in float32 by MKL'}
PATHS = {
    'EPYC': f'avx2; {ONEDNN}, {WIDENED["avx2"]}',
    'Haswell-noTSX': f'avx2; {MKL}, {WIDENED["avx2"]}',
    'Nehalem': f'default; {MKL}, {WIDENED["default"]}',
    'Skylake-Server': f'avx2; {MKL}, {WIDENED["avx2"]}',
}
PATIENCE_S = 120


class ProcessorsTest(RankCase):

    def trained(self, number, precision, **options):
        """Trains two steps. Returns the attempt, its path, and its losses."""
        document = self.document(2, dp=1, train__precision=precision, data__valid=0.0)
        run = self.run_whole(number, 1, document, **options)
        path, = (line.removeprefix('processor: ') for line in run.log().splitlines() if line.startswith('processor: '))
        return run, path, [row['loss'] for row in run.metrics() if 'loss' in row]

    def assert_near(self, losses, native, precision):
        limit = 1e-5 if precision == 'fp32' else 1e-2
        self.assertEqual(len(losses), 2)
        for ours, theirs in zip(losses, native, strict=True):
            self.assertLess(abs(ours - theirs), limit, (precision, losses, native))

    def trains_on(self, cpu, precisions):
        """Compares emulated training with this processor's. Returns the last emulated attempt."""
        qemu = shutil.which('qemu-x86_64')
        self.assertIsNotNone(qemu, 'qemu-x86_64 is missing: packaging/setup --tests installs it (qemu-user)')
        self.emulator = (qemu, '-cpu', cpu)
        for number, precision in enumerate(precisions, start=1):
            _, _, native = self.trained(10 + number, precision)
            run, path, losses = self.trained(number, precision, emulator=self.emulator)
            print(f'{cpu}, {precision}: {path}; losses {losses}, native {native}')
            self.assertEqual(path, PATHS[cpu])
            self.assert_near(losses, native, precision)
        return run

    def emulated(self, cpu):
        run = self.trains_on(cpu, ('fp32', 'bf16'))
        export = os.path.join(self.top, 'export')
        self.said_by(CONVERT, 'convert', run.published[-1][1], export, '--to', 'hf')
        said = json.loads(self.said_by(RANK, 'generate', export, 'the ', '--max-tokens', '4', '--json'))
        self.assertEqual(said['prompt'], 'the ')
        self.serves(PATHS[cpu])

    def said_by(self, *command, status=0, env=None):
        done = subprocess.run([*self.emulator, *command], capture_output=True, text=True, check=False,
                              timeout=PATIENCE_S, env=env)
        self.assertEqual(done.returncode, status, f'{command}: {done.stdout}{done.stderr}')
        return done.stdout

    def serves(self, path):
        """Runs a command by a rolld and a worker on that processor, and checks doctor's name of the path."""
        state = os.path.join(self.top, 'state')
        os.mkdir(state, mode=0o700)
        env = {'PATH': '/usr/bin:/bin', 'HOME': self.top, 'ROLL_DIR': state}
        began = []
        for program, last in (('rolld', 'rolld.sock.cli'), ('roll-worker', 'worker')):
            began.append(subprocess.Popen([*self.emulator, os.path.join(BIN, program), '--dir', state], env=env,
                                          stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True))
            self.addCleanup(began[-1].wait)
            self.addCleanup(began[-1].kill)
            deadline = time.monotonic() + PATIENCE_S
            while not os.path.exists(os.path.join(state, last)):
                self.assertIsNone(began[-1].poll(), f'{program} ended')
                self.assertLess(time.monotonic(), deadline, f'{program} did not start')
                time.sleep(0.05)
        ctl = os.path.join(BIN, 'rollctl')
        self.said_by(ctl, 'submit', '--wait', '--', 'true', env=env)
        jobs = json.loads(self.said_by(ctl, 'jobs', '-a', '--json', env=env))['jobs']
        self.assertEqual([job['state'] for job in jobs], ['done'])
        checks = json.loads(self.said_by(ctl, 'doctor', '--json', env=env))['checks']
        self.assertEqual([check['detail'] for check in checks if check['check'] == 'processor'], [path])

    def test_epyc(self):
        self.emulated('EPYC')

    def test_haswell(self):
        self.emulated('Haswell-noTSX')

    def test_nehalem(self):
        self.emulated('Nehalem')

    def test_skylake_server(self):
        self.trains_on('Skylake-Server', ('fp32',))  # without AVX-512, all else is as on Haswell

    def test_forced(self):
        native = {precision: self.trained(number, precision) for number, precision in enumerate(('fp32', 'bf16'), 1)}
        best = native['fp32'][1].split(';')[0]
        known = ['default', 'avx2', 'avx512', 'avx512_bf16', 'amx']
        runnable = known[:max(known.index(best) + 1, 5 if best == 'avx512_bf16' else 0)]
        number = 2
        for value in [*runnable, *(f'{name}-{maker}' for name in runnable[:2] for maker in ('intel', 'other'))]:
            for precision in ('fp32', 'bf16'):
                number += 1
                _, path, losses = self.trained(number, precision, env={'ROLL_PROCESSOR': value})
                print(f'{value}, {precision}: {path}; losses {losses}')
                self.assertTrue(path.startswith(value.split('-')[0] + '; '), path)
                self.assertTrue(path.endswith(f'; forced by ROLL_PROCESSOR={value}'), path)
                self.assert_near(losses, native[precision][2], precision)
        _, path, losses = self.trained(90, 'fp32', env={'ATEN_CPU_CAPABILITY': 'default'})
        self.assertTrue(path.startswith('default; ') and
                        (best == 'default' or path.endswith('forced by ATEN_CPU_CAPABILITY=default')), path)
        self.assert_near(losses, native['fp32'][2], 'fp32')
        self.refused(self.document(2, dp=1), 2, 'ROLL_PROCESSOR is "sse9"; allowed are default, avx2',
                     env={'ROLL_PROCESSOR': 'sse9'})


if __name__ == '__main__':
    unittest.main()
