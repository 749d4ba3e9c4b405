"""packaging/gpu-check: the bundle, what it says in an empty root without a GPU, and a whole run on the CPU.

usage: gpu_check_test.py SOURCE_DIRECTORY BUILD_DIRECTORY LIBTORCH [--cpu-only]
"""
import glob
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

from json_schema import problems

CPU_ONLY = '--cpu-only' in sys.argv
SOURCE, BUILD, LIBTORCH = map(os.path.abspath, [word for word in sys.argv[1:] if word != '--cpu-only'][:3])
del sys.argv[1:]
sys.path.insert(0, os.path.join(SOURCE, 'packaging', 'gpu_check'))
import main as runner
import ranks

ORACLE = os.environ.get('ROLL_ORACLE_PYTHON', '')
MAKE = os.path.join(SOURCE, 'packaging', 'gpu-check')
# The libraries that Roll needs besides glibc and PyTorch.
LIBRARIES = {'libbsd.so.0', 'libcom_err.so.2', 'libcrypto.so.3', 'libfmt.so.9', 'libgcc_s.so.1',
             'libgssapi_krb5.so.2', 'libisal.so.2', 'libk5crypto.so.3', 'libkeyutils.so.1', 'libkrb5.so.3',
             'libkrb5support.so.0', 'libmd.so.0', 'libnorm.so.1', 'libpgm-5.3.so.0', 'libsodium.so.23',
             'libspdlog.so.1.10', 'libsqlite3.so.0', 'libssl.so.3', 'libstdc++.so.6', 'libutf8proc.so.2',
             'libxxhash.so.0', 'libyaml-cpp.so.0.7', 'libzmq.so.5'}
PROGRAMS = {'rolld', 'roll-worker', 'roll-rank', 'roll-convert', 'rollctl', 'device_check', 'gpu_ops_test'}
GLIBC = ('c', 'm', 'dl', 'rt', 'pthread', 'util', 'resolv', 'mvec', 'anl')
# A driver that finds no card.
STUB = r'''
#include <string.h>
int cuInit(unsigned flags) { (void)flags; return 100; }
int cuDriverGetVersion(int* version) { *version = 13000; return 0; }
int cuDeviceGetCount(int* count) { *count = 0; return 100; }
int cuGetProcAddress_v2(const char* name, void** function, int version, unsigned long flags, int* found) {
    (void)version, (void)flags;
    *function = !strcmp(name, "cuInit") ? (void*)cuInit
              : !strcmp(name, "cuDriverGetVersion") ? (void*)cuDriverGetVersion
              : !strcmp(name, "cuDeviceGetCount") ? (void*)cuDeviceGetCount
              : !strncmp(name, "cuGetProcAddress", 16) ? (void*)cuGetProcAddress_v2 : 0;
    if (found) *found = *function ? 0 : 1;
    return *function ? 0 : 500;
}
int cuGetProcAddress(const char* name, void** function, int version, unsigned long flags) {
    return cuGetProcAddress_v2(name, function, version, flags, 0);
}
'''
# Takes the place of PyTorch's Python part, and loads its libraries as that does.
TORCH = '''
import ctypes, os
__version__ = {version!r}
class version:
    cuda = '13.0'
class cuda:
    is_available = staticmethod(lambda: False)
    class nccl:
        version = staticmethod(lambda: (2, 28, 9))
class backends:
    class cudnn:
        version = staticmethod(lambda: 91900)
folder = os.path.join(os.path.dirname(__file__), 'lib')
for name in {names!r}:
    ctypes.CDLL(os.path.join(folder, name), ctypes.RTLD_GLOBAL)
'''


def run(*words, **options):
    return subprocess.run([str(word) for word in words], capture_output=True, text=True, check=False, **options)


def loaded_by(path):
    """Returns the paths of the libraries that the loader takes for a file."""
    found = run('ldd', path).stdout
    return [os.path.abspath(word) for word in re.findall(r'(/\S+)', found) if os.path.exists(word)]


class GpuCheck(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        cls.top = tempfile.mkdtemp(prefix='roll-gpu-check-')
        cls.addClassCleanup(shutil.rmtree, cls.top, ignore_errors=True)
        cls.bundle = os.path.join(cls.top, 'bundle')
        made = run(MAKE, '--bundle', cls.bundle, '--build', BUILD, *(['--cpu-only'] if CPU_ONLY else []))
        assert made.returncode == 0, made.stderr
        print(made.stdout, end='', flush=True)
        print('with' + ('out roll-rank-cuda: this machine has no nvcc' if CPU_ONLY else ' roll-rank-cuda'), flush=True)
        with open(os.path.join(SOURCE, 'schemas', 'gpu-check.schema.json'), encoding='utf-8') as file:
            cls.schema = json.load(file)

    def imitation(self, name, version):
        """Makes a package torch that has LibTorch's libraries. Returns the folder that contains it."""
        folder = os.path.join(self.top, name)
        os.makedirs(os.path.join(folder, 'torch'))
        os.symlink(os.path.join(LIBTORCH, 'lib'), os.path.join(folder, 'torch', 'lib'))
        self.write_torch(folder, version)
        return folder

    def write_torch(self, folder, version):
        names = ['libtorch_cpu.so', *([] if CPU_ONLY else ['libtorch_cuda.so'])]
        with open(os.path.join(folder, 'torch', '__init__.py'), 'w', encoding='utf-8') as file:
            file.write(TORCH.format(version=version, names=names))

    def check(self, *words, torch=None, python=sys.executable, out='out'):
        env = {**os.environ, 'OMP_NUM_THREADS': '1', 'PATH': f'{os.path.dirname(python)}:/usr/bin:/bin'}
        if torch:
            env['PYTHONPATH'] = torch
        out = os.path.join(self.top, out)
        done = run(python, os.path.join(self.bundle, 'check', 'main.py'), '--out', out, *words, env=env)
        return done, os.path.join(out, 'gpu-check.json')

    def read(self, path):
        with open(path, encoding='utf-8') as file:
            found = json.load(file)
        self.assertEqual(list(problems(found, self.schema)), [])
        return found

    # --- the folder ---

    def test_the_folder_is_small_and_has_only_known_libraries(self):
        size = sum(os.path.getsize(path) for path in glob.glob(self.bundle + '/**', recursive=True)
                   if os.path.isfile(path))
        self.assertLessEqual(size, 64 << 20)
        self.assertEqual(set(os.listdir(os.path.join(self.bundle, 'lib'))), LIBRARIES)
        programs = PROGRAMS | (set() if CPU_ONLY else {'roll-rank-cuda', 'device_check_cuda'})
        self.assertEqual(set(os.listdir(os.path.join(self.bundle, 'bin'))), programs)

    def test_library_paths_are_relative(self):
        for path in glob.glob(self.bundle + '/bin/*') + glob.glob(self.bundle + '/lib/*'):
            told = [line for line in run('readelf', '-d', path).stdout.splitlines() if 'PATH' in line]
            if os.sep + 'bin' + os.sep in path:
                self.assertEqual(len(told), 1, path)
                self.assertRegex(told[0], r'\(RPATH\) +Library rpath: \[\$ORIGIN/\.\./lib\]')
            for line in told:
                self.assertNotRegex(line, r'[\[:]/', path)

    def test_bundle_json_lists_every_file(self):
        with open(os.path.join(self.bundle, 'bundle.json'), encoding='utf-8') as file:
            made = json.load(file)
        here = {os.path.relpath(path, self.bundle) for path in glob.glob(self.bundle + '/**', recursive=True)
                if os.path.isfile(path)} - {'bundle.json'}
        self.assertEqual(set(made['files']), here)
        self.assertEqual(made['cuda'], not CPU_ONLY)

    def test_an_existing_folder_is_not_overwritten(self):
        done = run(MAKE, '--bundle', self.bundle, '--build', BUILD)
        self.assertEqual(done.returncode, 1)
        self.assertIn('exists: remove it, or name another folder', done.stderr)

    def test_a_missing_program_is_named(self):
        done = run(MAKE, '--bundle', os.path.join(self.top, 'none'), '--build', self.top)
        self.assertEqual(done.returncode, 1)
        self.assertIn('lacks rolld, roll-worker', done.stderr)

    # --- the steps ---

    def test_a_program_that_a_signal_ends_is_off_its_limit(self):
        done = runner.machine.run(['sh', '-c', 'kill -SEGV $$'], time.monotonic() + 60)
        self.assertEqual(done.returncode, 128 + 11)
        self.assertFalse(runner.steps.case('x', done.returncode, 0, 'exit status')['good'])

    def test_a_folder_that_cannot_be_written_is_named(self):
        done = run(os.path.join(self.bundle, 'gpu-check'), '--device', 'cpu', '--out', '/proc')
        self.assertEqual(done.returncode, 2)
        self.assertIn('cannot write to --out /proc: ', done.stderr)
        self.assertNotIn('Traceback', done.stderr)

    def test_a_step_does_not_stop_the_next(self):
        def raises(error):
            def step(_context, _deadline):
                raise error
            return step
        good = runner.steps.case('x', 1e-6, 1e-5)
        bad = runner.steps.case('y', float('nan'), 1e-5)
        self.assertTrue(good['good'] and not bad['good'])
        self.assertFalse(runner.steps.case('z', 2e-5, 1e-5)['good'])
        for function, status, text in ((raises(ranks.Failed('no luck')), 'failed', 'no luck'),
                                       (raises(runner.Late()), 'late', 'time limit of 5 s'),
                                       (raises(KeyError('k')), 'failed', "KeyError: 'k'"),
                                       (lambda *_: ([good, bad], 'fine'), 'differs', 'y is not finite, limit 1e-05'),
                                       (lambda *_: ([], 'no tool'), 'absent', 'no tool'),
                                       (lambda *_: ([good], 'fine'), 'passed', 'fine')):
            found = runner.run_step(None, 'losses', function, 5, time.monotonic() + 60, '')
            self.assertEqual(found['status'], status)
            self.assertIn(text, found['sentence'])
        found = runner.run_step(None, 'losses', raises(KeyError()), 5, time.monotonic() - 1, '')
        self.assertEqual(found['status'], 'no_time')

    def test_a_program_that_hangs_is_ended_at_the_limit(self):
        began = time.monotonic()
        with self.assertRaises(runner.Late):
            runner.machine.run(['sh', '-c', 'sleep 60 & sleep 60'], began + 0.3)
        self.assertLess(time.monotonic() - began, 30)

    def test_an_interrupted_check_leaves_no_process(self):
        slow = os.path.join(self.top, 'slow')
        os.makedirs(slow)
        for name in ('data', 'shapes', 'bundle.json'):
            os.symlink(os.path.join(self.bundle, name), os.path.join(slow, name))
        shutil.copytree(os.path.join(self.bundle, 'check'), os.path.join(slow, 'check'))
        os.makedirs(os.path.join(slow, 'bin'))
        started = os.path.join(self.top, 'started')
        with open(os.path.join(slow, 'bin', 'roll-rank'), 'w', encoding='utf-8') as file:
            file.write(f'#!/bin/sh\necho $$ > {started}.new && mv {started}.new {started} && exec sleep 100\n')
        os.chmod(file.name, 0o755)
        check = subprocess.Popen(
            [sys.executable, os.path.join(slow, 'check', 'main.py'), '--device', 'cpu', '--only', 'losses',
             '--out', slow],
            env={**os.environ, 'PYTHONPATH': self.imitation('slow-site', '2.11.0+cu130')}, stdout=subprocess.DEVNULL)
        while not os.path.exists(started) and check.poll() is None:
            time.sleep(0.02)
        check.terminate()
        self.assertEqual(check.wait(60), 143)
        with open(started, encoding='ascii') as file:
            self.assertFalse(os.path.exists(f'/proc/{int(file.read())}'))

    def test_an_unknown_step_lists_the_steps(self):
        done, _ = self.check('--only', 'speed')
        self.assertEqual(done.returncode, 2)
        self.assertIn('speed is not a step; the steps are: programs, operators, sanitizer, communicator', done.stderr)

    def test_another_pytorch_is_refused_by_name(self):
        done, path = self.check('--device', 'cpu', torch=self.imitation('older', '2.10.0+cu128'), out='refused')
        self.assertEqual(done.returncode, 2, done.stdout)
        self.assertRegex(done.stderr, r'^gpu-check: PyTorch 2\.10\.0\+cu128 in \S+ is not 2\.11 built for cu130: .+\n$')
        self.assertFalse(os.path.exists(path))
        none, _ = self.check('--device', 'cpu', torch=self.bundle, python='/usr/bin/python3')
        self.assertEqual(none.returncode, 2, none.stdout)
        self.assertRegex(none.stderr, r'^gpu-check: \S+ cannot import torch \(.+\); the checks need PyTorch 2\.11 .+')

    def test_the_largest_costs_are_means_over_the_shapes(self):
        rows = [{'seconds': 2, 'costs': [{'name': 'a', 'seconds': 1}, {'name': 'b', 'seconds': 0.5}]},
                {'seconds': 1, 'costs': [{'name': 'b', 'seconds': 0.5}]}, {'note': 'does not fit'}]
        self.assertEqual(runner.figures.largest_costs(rows),
                         [{'name': 'b', 'share': 0.375}, {'name': 'a', 'share': 0.25}])

    # --- whole runs ---

    def empty_root(self):
        """Makes a root with glibc, a shell, Python and PyTorch's libraries. Returns it with its mounts."""
        root = os.path.join(self.top, 'root')
        files = ['/bin/sh', '/usr/bin/dirname', '/usr/bin/readlink', os.path.realpath('/usr/bin/python3')]
        version = os.path.basename(files[-1])  # python3.11
        standard = f'/usr/lib/{version}'
        libraries = {path for file in files for path in loaded_by(file)}
        for path in glob.glob(standard + '/lib-dynload/*.so'):
            libraries |= set(loaded_by(path))
        # glibc, and the two other libraries of every machine with PyTorch; the bundle has its own two.
        shared = os.path.dirname(next(path for path in libraries if os.path.basename(path).startswith('libc.so')))
        for name in (*GLIBC, 'stdc++', 'gcc_s'):
            libraries |= set(glob.glob(f'{shared}/lib{name}.so.[0-9]'))
        for path in [*files, *libraries]:
            os.makedirs(root + os.path.dirname(path), exist_ok=True)
            shutil.copy(path, root + path)
        os.symlink(version, root + '/usr/bin/python3')
        for folder in ('tmp', 'proc', 'dev', 'opt/site/torch', 'opt/bundle', 'etc'):
            os.makedirs(os.path.join(root, folder), exist_ok=True)
        shutil.copy('/etc/ld.so.cache', root + '/etc/ld.so.cache')
        mounts = {'/opt/site/torch/lib': LIBTORCH + '/lib'} | {path: path for path in (standard, '/proc', '/dev')}
        nvidia = os.path.join(os.path.dirname(os.path.realpath(LIBTORCH)), 'nvidia')
        if os.path.isdir(nvidia):
            mounts['/opt/site/nvidia'] = nvidia
        # CUDA of a toolkit, which ldconfig knows.
        for name in ('libcudart.so.13', 'libcublas.so.13'):
            for path in re.findall(rf'{re.escape(name)} .*=> (\S+)', run('/sbin/ldconfig', '-p').stdout):
                mounts[os.path.dirname(path)] = os.path.dirname(os.path.realpath(path))
        for target in mounts:
            os.makedirs(root + target, exist_ok=True)
        self.write_torch(root + '/opt/site', '2.11.0+cu130')
        return root, mounts

    def test_in_an_empty_root_every_step_says_that_there_is_no_gpu(self):
        root, mounts = self.empty_root()
        stub = os.path.join(self.top, 'stub.c')
        with open(stub, 'w', encoding='utf-8') as file:
            file.write(STUB)
        made = run('gcc', '-shared', '-fPIC', '-w', stub, '-o', root + '/opt/libcuda.so.1')
        self.assertEqual(made.returncode, 0, made.stderr)
        subprocess.run(f'tar -C "{self.bundle}" -c . | tar -C "{root}/opt/bundle" -x', shell=True, check=True)
        script = ''.join(f'mount --bind "{source}" "{root}{target}" && ' for target, source in mounts.items())
        script += (f'exec chroot "{root}" /bin/sh -c "cd /tmp && PATH=/usr/bin:/bin PYTHONPATH=/opt/site '
                   'LD_LIBRARY_PATH=/opt exec /opt/bundle/gpu-check"')
        space = ['unshare', '--mount', '--net', *([] if os.getuid() == 0 else ['--map-root-user'])]
        done = run(*space, 'sh', '-c', script, env={'PATH': '/usr/sbin:/usr/bin:/sbin:/bin'})
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        self.assertEqual(done.stderr, '')
        found = self.read(root + '/tmp/gpu-check.json')
        self.assertFalse(found['passed'])
        self.assertEqual([step['name'] for step in found['steps']], runner.NAMES)
        for step in found['steps']:
            self.assertEqual(step['status'], 'no_gpu', step)
            self.assertRegex(step['sentence'], r'^no GPU: [^\n]+$')
            reason = 'this bundle has no device_check_cuda' if CPU_ONLY else r'cannot use GPU 0: .+; run the job on'
            self.assertRegex(step['sentence'], reason)
        # All programs started.
        programs = found['steps'][0]['cases']
        self.assertEqual([one for one in programs if not one['good']], [])
        self.assertEqual(len(programs), len(PROGRAMS) + (0 if CPU_ONLY else 2))

    def test_a_whole_run_on_the_cpu_passes(self):
        torch = None if ORACLE else self.imitation('site', '2.11.0+cu130')
        moved = os.path.join(self.top, 'another place')
        shutil.copytree(self.bundle, moved)
        GpuCheck.bundle, bundle = moved, self.bundle
        self.addCleanup(setattr, GpuCheck, 'bundle', bundle)
        done, path = self.check('--device', 'cpu', '--minutes', '8', torch=torch, python=ORACLE or sys.executable)
        print(done.stdout)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        found = self.read(path)
        self.assertTrue(found['passed'])
        states = {step['name']: step['status'] for step in found['steps']}
        self.assertEqual(states, {name: 'absent' if name == 'sanitizer' else 'passed' for name in runner.NAMES})
        cases = {step['name']: len(step['cases']) for step in found['steps']}
        self.assertGreater(cases['operators'], 300)
        self.assertEqual(cases['losses'], 40)
        self.assertEqual(len(found['largest_costs']), 3)
        self.assertTrue(all(row['tokens_per_second'] > 0 for row in found['figures']))
        with open(os.path.join(os.path.dirname(path), 'gpu-check.txt'), encoding='utf-8') as file:
            page = file.read()
        self.assertLess(page.count('\n'), 60)
        for cost in found['largest_costs']:
            self.assertIn(cost['name'][:60], page)

    def test_without_time_no_step_runs(self):
        done, path = self.check('--device', 'cpu', '--minutes', '0.00001', out='hurry',
                                torch=self.imitation('hurry-site', '2.11.0+cu130'))
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertEqual({step['status'] for step in self.read(path)['steps']}, {'no_time'})


if __name__ == '__main__':
    unittest.main(verbosity=2)
