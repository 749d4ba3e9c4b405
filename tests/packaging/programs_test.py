#!/usr/bin/env python3
"""Every program that the tests run besides Roll's is installed: no test may be left out because one is missing."""
import os
import shutil
import subprocess
import unittest

TOP = os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..')
PATH = f'{os.environ.get("PATH", "")}:/usr/sbin:/sbin'
# For each group, one of the programs of each entry must be there.
PROGRAMS = {
    'Slurm': ('slurmctld', 'slurmd', 'munged', 'sbatch', 'squeue', 'scancel', 'sinfo', 'scontrol'),
    'accounting of Slurm': ('mariadbd', 'slurmdbd', 'sacctmgr'),
    'containers': ('podman', 'busybox'),
    'browser': ('chromium-headless-shell|chromium',),
    'metrics': ('promtool',),
    'HTTP': (os.path.join(TOP, '.deps/schemathesis/bin/schemathesis'),),
    'other processors': ('qemu-x86_64',),
    'terminals': ('tmux',),
    'MPI': ('mpirun',),
    'services': ('systemctl', 'systemd-sysusers', 'ip', 'setpriv', 'unshare', 'nsenter'),
    'packages': ('cpack', 'dpkg-deb', 'dpkg-shlibdeps', 'curl', 'pgrep'),
    'compilers and checkers': ('clang++-16', 'clang-format', 'valgrind'),
}


class Programs(unittest.TestCase):

    def test_each_program_is_installed(self):
        for group, wanted in PROGRAMS.items():
            for names in wanted:
                with self.subTest(group):
                    self.assertTrue(any(shutil.which(name, path=PATH) for name in names.split('|')),
                                    f'{names} is not installed; packaging/setup --tests installs it')

    def test_roll_parquet_is_built(self):
        self.assertTrue(os.path.isdir(os.path.join(TOP, '.deps/pyarrow/include/parquet')),
                        'Apache Arrow is missing; run packaging/setup --parquet and configure again')

    def test_there_is_a_python_to_compare_with(self):
        python = os.environ.get('ROLL_ORACLE_PYTHON', '')
        self.assertTrue(python, 'no Python with transformers; run packaging/setup --oracle and configure again')
        found = 'import sys, importlib.util as u; sys.exit([n for n in sys.argv[1:] if not u.find_spec(n)] or 0)'
        done = subprocess.run([python, '-c', found, 'torch', 'transformers', 'peft', 'safetensors', 'megatron'],
                              capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, f'{python} lacks {done.stderr.strip()}; run packaging/setup --oracle')

    def test_there_are_the_packages_that_the_oracles_import(self):
        for path in ('oracle-bitsandbytes/bitsandbytes', 'oracle-trackers/mlflow', 'oracle-trackers/wandb',
                     'templates'):
            self.assertTrue(os.path.isdir(os.path.join(TOP, '.deps', path)),
                            f'.deps/{path} is missing; run packaging/setup --oracle')


if __name__ == '__main__':
    unittest.main(verbosity=2)
