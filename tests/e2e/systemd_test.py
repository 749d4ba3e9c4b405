#!/usr/bin/env python3
"""The units of a system installation, under a real systemd (booted_system.py)."""
import glob
import os
import re
import shutil
import unittest

from booted_system import BootedSystem
from harness import BIN, RollTest, text_of, wait_until

UNITS = os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..', 'systemd')
PROGRAMS = ('rolld', 'roll-worker', 'rollctl', 'roll-web')


class UnderSystemd(RollTest):

    def setUp(self):
        super().setUp()
        self.system = BootedSystem(self.top, {'ROLL_E2E_ID': self.id, 'ROLL_DIR': '/var/lib/roll'})
        self.addCleanup(self.system.shut)
        self.system.boot()
        for program in PROGRAMS:
            shutil.copy(os.path.join(BIN, program), self.system.path('/usr/bin'))
        for unit in glob.glob(os.path.join(UNITS, '*.service')):
            shutil.copy(unit, self.system.path('/usr/lib/systemd/system'))
        shutil.copy(os.path.join(UNITS, 'sysusers.conf'), self.system.path('/usr/lib/sysusers.d/roll.conf'))
        self.inside('systemctl daemon-reload && systemd-sysusers && mkdir -p /srv/work && chown roll /srv/work')

    def tearDown(self):
        self.system.shut()
        super().tearDown()

    def inside(self, line, check=True):
        """Returns what the line of shell prints when root types it in the booted system."""
        done = self.system.run(line, check)
        return (done.stdout + done.stderr).strip()

    def listen_at(self, endpoint):
        """Does what `systemctl edit rolld` does for an operator who gives rolld an endpoint."""
        self.inside('mkdir -p /etc/systemd/system/rolld.service.d && printf "[Service]\\nExecStart=\\nExecStart=rolld '
                    f'--dir /var/lib/roll --endpoint {endpoint}\\n" >/etc/systemd/system/rolld.service.d/test.conf && '
                    'systemctl daemon-reload')

    def submitted(self, command):
        return self.inside(f'cd /srv/work && rollctl submit --parsable -- {command}')

    def wait_node(self):
        wait_until(lambda: ' up ' in self.inside('rollctl nodes', check=False), 'the worker of the unit to be up')

    def test_the_units_of_a_system_installation(self):
        self.listen_at('tcp://0.0.0.0:7070')
        self.inside('systemctl enable --now rolld roll-worker roll-web')
        self.wait_node()
        self.assertRegex(self.inside('cat /var/lib/roll/endpoint'), r'^tcp://\S+:7070$')
        job = self.submitted('grep -E "NoNewPrivs|Seccomp:" /proc/self/status')
        self.inside(f'rollctl wait {job}')
        limits = self.inside(f'rollctl logs {job}')
        self.assertEqual(re.findall(r'\w+:\t(\d)', limits), ['0', '0'], f'jobs may run containers: {limits}')
        self.inside('systemctl reload rolld roll-web')
        wait_until(lambda: 'read again' in self.inside('cat /var/lib/roll/rolld.log'), 'rolld to read its file again')
        with self.subTest('a job outlives rolld, and a stopped worker gives it back'):
            job = self.submitted('sleep 600')
            show = f'rollctl show {job}'
            wait_until(lambda: ': running' in self.inside(show), 'the job to run')
            self.inside('systemctl kill -s KILL rolld')
            wait_until(lambda: ': running' in self.inside(show, check=False), 'rolld to adopt the job')
            self.assertIn('1-1', self.inside(show), 'the same attempt')
            self.inside('systemctl stop roll-worker')
            wait_until(lambda: 'roll-worker was asked to end' in self.inside(show), 'the end of the attempt')
            self.inside(f'systemctl start roll-worker; rollctl cancel {job}')
        with self.subTest('root restores a backup, and rolld can use it'):
            self.assertNotRegex(self.inside('rollctl doctor', check=False), r'BAD +state directory')
            before = self.inside('rollctl jobs --all')
            self.inside('rolld --dir /var/lib/roll --backup /root/copy && systemctl stop rolld && '
                        'rolld --dir /var/lib/roll --restore /root/copy && systemctl start rolld')
            self.assertEqual(self.inside('find /var/lib/roll -not -user roll'), '')
            wait_until(lambda: self.inside('rollctl jobs --all', check=False) == before, 'the queue of the backup')
        with self.subTest('an address that comes late'):
            self.listen_at('tcp://10.9.8.7:7070')
            self.inside('systemctl restart rolld', check=False)
            failed = 'systemctl show -P NRestarts rolld'
            wait_until(lambda: int(self.inside(failed)) >= 7, 'more failed starts than systemd allows by default')
            self.inside('ip address add 10.9.8.7/32 dev lo')
            wait_until(lambda: self.inside('rollctl version', check=False).count('0.'), 'rolld to listen')
            wait_until(lambda: self.inside('systemctl is-active rolld', check=False) == 'active', 'the unit')


class Files(unittest.TestCase):
    def test_a_worker_may_take_as_long_to_stop_as_its_jobs_to_save(self):
        grace = float(re.search(r'double checkpoint_grace = (\d+)', text_of(UNITS, '../worker/agent/main.cpp'))[1])
        for unit in ('roll-worker.service', 'user/roll-worker.service'):
            self.assertGreater(int(re.search(r'TimeoutStopSec=(\d+)s', text_of(UNITS, unit))[1]), grace, unit)

    def test_a_rolld_with_a_damaged_ledger_is_not_started_each_second(self):
        with open(os.path.join(UNITS, '../daemon/main.cpp'), encoding='utf-8') as file:
            damaged = re.search(r'kExitDamaged = (\d+);', file.read())[1]
        for unit in ('rolld.service', 'user/rolld.service'):
            with open(os.path.join(UNITS, unit), encoding='utf-8') as file:
                self.assertIn(f'\nRestartPreventExitStatus=2 {damaged}\n', file.read(), unit)

    def test_units_of_a_user_use_the_directory_of_rollctl(self):
        for name in ('rolld', 'roll-worker'):
            with open(os.path.join(UNITS, 'user', f'{name}.service'), encoding='utf-8') as file:
                self.assertIn(f'\nExecStart={name}\n', file.read(), 'the default of --dir is the same for all programs')


if __name__ == '__main__':
    unittest.main(verbosity=2)
