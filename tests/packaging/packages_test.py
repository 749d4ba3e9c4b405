"""The Debian package `roll`: its contents, and its life on a machine with systemd (../e2e/booted_system.py).

usage: packages_test.py BUILD_DIRECTORY
"""
import atexit
import functools
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / 'e2e'))
from booted_system import BootedSystem  # noqa: E402

BUILD = pathlib.Path(sys.argv.pop(1)).resolve()
FOLDER = pathlib.Path(tempfile.mkdtemp(prefix='roll-packages-'))
atexit.register(shutil.rmtree, FOLDER)
PROGRAMS = ['roll-convert', 'roll-notify', 'roll-web', 'roll-worker', 'rollctl', 'rolld']
DROP_IN = '/run/systemd/system/rolld.service.d'


def run(*words):
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, f'{words}: exit {done.returncode}\n{done.stdout}{done.stderr}'
    return done.stdout


@functools.cache
def package():
    run('cpack', '--config', BUILD / 'CPackConfig.cmake', '-D', 'CPACK_COMPONENTS_ALL=roll', '-B', FOLDER)
    [made] = FOLDER.glob('*.deb')
    return made


def newer_package():
    """Returns a copy of the package with a higher version."""
    tree = FOLDER / 'newer'
    run('dpkg-deb', '--raw-extract', package(), tree)
    control = tree / 'DEBIAN/control'
    control.write_text(re.sub(r'(?m)^Version: (.*)$', r'Version: \g<1>+next', control.read_text()))
    run('dpkg-deb', '--build', '--root-owner-group', '-Znone', tree, FOLDER / 'newer.deb')
    return FOLDER / 'newer.deb'


class Packages(unittest.TestCase):
    def setUp(self):
        self.folder, self.package = FOLDER, package()

    def test_the_control_file_names_what_the_programs_need_and_nothing_large(self):
        def field(name):
            return run('dpkg-deb', '--field', self.package, name).strip()
        needs = {re.split(r'[ :]', need.strip())[0] for need in field('Depends').split(',')}
        self.assertLessEqual({'libc6', 'libzmq5', 'libsqlite3-0', 'libssl3', 'systemd'}, needs)
        self.assertEqual([need for need in needs if 'torch' in need or 'cuda' in need], [])
        self.assertEqual(field('Suggests'), f'roll-trainer (= {field("Version")})')
        self.assertLess(self.package.stat().st_size, 30 << 20)
        self.assertLess(int(field('Installed-Size')), 60 << 10)

    def test_the_contents_are_complete(self):
        tree = self.folder / 'tree'
        run('dpkg-deb', '--raw-extract', self.package, tree)
        self.assertEqual(sorted(os.listdir(tree / 'usr/bin')), PROGRAMS)
        for unit in ('rolld', 'roll-worker', 'roll-web', 'roll-notify'):
            self.assertIn('Type=notify\n', (tree / f'usr/lib/systemd/system/{unit}.service').read_text())
        for path in ('lib/systemd/user/rolld.service', 'lib/sysusers.d/roll.conf', 'share/man/man8/rolld.8.gz',
                     'share/man/man5/roll-job.5.gz', 'share/doc/roll/copyright', 'share/doc/roll/changelog.gz',
                     'share/roll/schemas/job.schema.json', 'share/roll/examples/kjv.yaml'):
            self.assertTrue((tree / 'usr' / path).is_file(), path)
        for path in ('bash-completion/completions/rollctl', 'zsh/vendor-completions/_rollctl',
                     'fish/vendor_completions.d/rollctl.fish'):
            self.assertIn('submit', (tree / 'usr/share' / path).read_text(), path)
        self.assertEqual((tree / 'DEBIAN/conffiles').read_text(), '/etc/roll/rolld.yaml\n')
        config = tree / 'etc/roll/rolld.yaml'
        self.assertEqual([line for line in config.read_text().splitlines() if line and line[0] != '#'], [])
        said = run(tree / 'usr/bin/rolld', '--check-config', '--config', config, '--dir', self.folder / 'state')
        self.assertIn('the configuration is valid', said)
        # A key is usable once its mark of a comment is removed.
        text = config.read_text()
        for line in ('gang:', '  slurm_variables: false'):
            self.assertIn(f'# {line}\n', text)
            text = text.replace(f'# {line}\n', f'{line}\n')
        config.write_text(text.replace('slurm_variables: false', 'slurm_variables: 7'))
        wrong = subprocess.run([tree / 'usr/bin/rolld', '--check-config', '--config', config, '--dir',
                                self.folder / 'state'], capture_output=True, text=True, check=False)
        self.assertIn('slurm_variables', wrong.stderr)


class Life(unittest.TestCase):
    """One machine, from the installation to the purge."""

    def setUp(self):
        self.folder, self.package = FOLDER, package()
        (FOLDER / 'system').mkdir()
        self.tree = BootedSystem(FOLDER / 'system', {})
        self.addCleanup(self.tree.shut)
        self.tree.boot()
        self.tree.run('rm -f /usr/sbin/policy-rc.d')  # images of containers forbid packages to touch services

    def install(self, package):
        shutil.copy(package, self.tree.path('/root/roll.deb'))
        return self.tree.run('dpkg --install /root/roll.deb').stdout

    def shown(self, unit, name):
        return self.tree.run(f'systemctl show --property {name} --value {unit}').stdout.strip()

    def ctl(self, words, check=True):
        return self.tree.run(f'cd /tmp/jobs && rollctl --dir /var/lib/roll {words}', check=check).stdout

    def wait_until(self, condition, what):
        deadline = time.monotonic() + 90
        while not condition():
            self.assertLess(time.monotonic(), deadline, what)
            time.sleep(0.2)

    def submit_long_job(self):
        self.tree.run('mkdir --mode 777 /tmp/jobs')
        self.ctl("submit -- sh -c 'echo variables: $(env | grep -c -e NOTIFY -e WATCHDOG); exec sleep 1000'")
        self.wait_until(lambda: 'variables:' in self.ctl('logs 1', check=False), 'the job prints')
        self.assertEqual(self.ctl('logs 1'), 'variables: 0\n')

    def check_installed(self):
        for unit in ('rolld', 'roll-worker', 'roll-web', 'roll-notify'):
            self.assertEqual(self.shown(unit, 'ActiveState'), 'inactive', 'nothing starts by itself')
            self.assertEqual(self.tree.run(f'systemctl is-enabled {unit}', check=False).stdout, 'disabled\n')
        self.assertIn('/var/lib/roll', self.tree.run('getent passwd roll').stdout)

    def check_start(self):
        self.tree.run('systemctl enable rolld && systemctl start rolld && rollctl --dir /var/lib/roll jobs')
        self.assertEqual(self.shown('rolld', 'StatusText'), 'jobs: 0 running, 0 waiting; workers: 0')
        self.tree.run('systemctl start roll-worker')
        self.assertEqual(self.shown('roll-worker', 'StatusText'), 'runs jobs for rolld')
        self.tree.run('systemctl start roll-web')
        self.assertIn('serves http://127.0.0.1:8410/', self.shown('roll-web', 'StatusText'))
        self.tree.run('curl --silent --fail --max-time 9 http://127.0.0.1:8410/ > /dev/null')

    def check_upgrade(self):
        self.tree.run('printf "gang:\\n  slurm_variables: true\\n" >> /etc/roll/rolld.yaml')
        units = ('rolld', 'roll-worker', 'roll-web')
        before = {unit: self.shown(unit, 'MainPID') for unit in units}
        rank = self.tree.run('pgrep -x sleep').stdout
        said = self.install(newer_package())
        self.assertIn('roll-worker still runs the previous version', said)
        same = {unit: self.shown(unit, 'MainPID') == before[unit] for unit in units}
        self.assertEqual(same, {'rolld': False, 'roll-worker': True, 'roll-web': False})
        self.assertEqual(self.tree.run('pgrep -x sleep').stdout, rank, 'the job has the same process')
        self.assertIn('running', self.ctl('show 1'))
        self.assertIn('slurm_variables: true', self.tree.run('cat /etc/roll/rolld.yaml').stdout)

    def check_watchdog(self):
        self.tree.run(f'mkdir -p {DROP_IN}; printf "[Service]\\nWatchdogSec=10\\n" > {DROP_IN}/short.conf; '
                      'systemctl daemon-reload; systemctl restart rolld')
        time.sleep(15)
        self.assertEqual(self.shown('rolld', 'NRestarts'), '0', 'a loop that turns is left alone')
        self.tree.run('systemctl kill --signal STOP --kill-who main rolld')
        self.wait_until(lambda: self.shown('rolld', 'NRestarts') == '1', 'a loop that hangs is restarted')
        self.wait_until(lambda: 'running' in self.ctl('show 1', check=False), 'the job runs on')

    def check_removal(self):
        self.tree.run('dpkg --remove roll')
        self.assertEqual(self.tree.run('pgrep -x "rolld|roll-worker|roll-web|sleep"', check=False).stdout, '')
        self.assertIn('slurm_variables: true', self.tree.run('cat /etc/roll/rolld.yaml').stdout)
        said = self.tree.run('dpkg --purge roll').stdout
        self.assertIn('rm -r /var/lib/roll', said)
        self.tree.run('test ! -e /etc/roll -a ! -e /etc/systemd/system/multi-user.target.wants/rolld.service '
                      '-a -s /var/lib/roll/ledger.db')

    def test_install_start_upgrade_remove_and_purge(self):
        self.install(self.package)
        self.check_installed()
        self.check_start()
        self.submit_long_job()
        self.check_upgrade()
        self.check_watchdog()
        self.check_removal()


if __name__ == '__main__':
    unittest.main(verbosity=2)
