#!/usr/bin/env python3
"""The units of a system installation, under a real systemd that is process 1 of namespaces of its own.

Its root is an overlay of this machine's root, with Roll's programs in /usr/bin; all changes are in memory.
"""
import os
import re
import signal
import subprocess
import unittest

from harness import BIN, RollTest, is_alive, required, wait_until

SYSTEMD = '/lib/systemd/systemd'
UNITS = os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..', 'systemd')
PROGRAMS = ('rolld', 'roll-worker', 'rollctl', 'roll-web')
CONTROLLERS = ('cpu', 'cpuacct', 'cpuset', 'memory', 'devices', 'freezer', 'blkio', 'pids')
# Units that would touch the machine's devices, or wait for what this root does not have.
MASKED = ('systemd-udevd.service', 'systemd-udev-trigger.service', 'systemd-remount-fs.service', 'dev-hugepages.mount',
          'dev-mqueue.mount', 'sys-kernel-debug.mount', 'sys-kernel-tracing.mount', 'sys-fs-fuse-connections.mount',
          'systemd-modules-load.service', 'systemd-sysctl.service', 'systemd-random-seed.service',
          'systemd-tmpfiles-setup-dev.service', 'networking.service')
BOOT = r'''
set -e
mount --make-rprivate /
mkdir -p "$TOP/over" "$TOP/root"
mount -t tmpfs tmpfs "$TOP/over"
mkdir "$TOP/over/upper" "$TOP/over/work"
mount -t overlay overlay -o lowerdir=/,upperdir="$TOP/over/upper",workdir="$TOP/over/work" "$TOP/root"
cd "$TOP/root"
mount -t proc proc proc
mount -t sysfs -o ro sysfs sys
if [ "$(stat -f -c %T /sys/fs/cgroup)" = cgroup2fs ]; then
    mount -t cgroup2 cgroup2 sys/fs/cgroup
else
    mount -t tmpfs -o mode=755 tmpfs sys/fs/cgroup
    for controller in $CONTROLLERS; do
        mkdir "sys/fs/cgroup/$controller"
        mount -t cgroup -o "$controller" cgroup "sys/fs/cgroup/$controller" || rmdir "sys/fs/cgroup/$controller"
    done
    mkdir sys/fs/cgroup/systemd
    mount -t cgroup -o none,name=systemd cgroup sys/fs/cgroup/systemd
fi
mount -t tmpfs -o mode=755 tmpfs dev
for device in null zero full random urandom tty; do
    touch "dev/$device"
    mount --bind "/dev/$device" "dev/$device"
done
ln -s /proc/self/fd dev/fd
touch dev/console
mkdir dev/shm dev/pts
mount -t devpts -o newinstance,ptmxmode=0666 devpts dev/pts
ln -s pts/ptmx dev/ptmx
mount -t tmpfs -o mode=755 tmpfs run
mount -t tmpfs -o mode=1777 tmpfs tmp
cp $FILES usr/bin
cp "$UNITS"/*.service lib/systemd/system
mkdir -p usr/lib/sysusers.d
cp "$UNITS/sysusers.conf" usr/lib/sysusers.d/roll.conf
rm -rf etc/systemd/system/*.wants var/lib/roll etc/roll
printf '[Unit]\nRequires=basic.target\nAfter=basic.target\n' >etc/systemd/system/test.target
for unit in $MASKED; do ln -sf /dev/null "etc/systemd/system/$unit"; done
echo >etc/fstab
mkdir -p old srv/work
pivot_root . old
umount -l old
exec env -i container=test PATH=/usr/bin:/bin ROLL_E2E_ID="$ROLL_E2E_ID" /lib/systemd/systemd --unit=test.target
'''


class UnderSystemd(RollTest):

    def setUp(self):
        super().setUp()
        for program in (SYSTEMD, 'systemctl', 'systemd-sysusers', 'ip', 'unshare', 'nsenter'):
            required(program)
        variables = {'TOP': self.top, 'UNITS': os.path.abspath(UNITS), 'MASKED': ' '.join(MASKED),
                     'CONTROLLERS': ' '.join(CONTROLLERS), 'ROLL_E2E_ID': self.id, 'PATH': os.environ['PATH'],
                     'FILES': ' '.join(os.path.abspath(os.path.join(BIN, name)) for name in PROGRAMS)}
        with open(os.path.join(self.top, 'boot.log'), 'w', encoding='utf-8') as log:
            self.unshare = subprocess.Popen(
                ['unshare', '--pid', '--mount', '--uts', '--ipc', '--net', '--cgroup', '--fork', '--kill-child',
                 'bash', '-c', BOOT], env=variables, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        wait_until(self.find_init, 'systemd to run as process 1', 30)
        wait_until(lambda: self.inside('systemctl is-active test.target', check=False) == 'active', 'the boot', 60)
        self.inside('ip link set lo up && systemd-sysusers && chown roll /srv/work')

    def find_init(self):
        """Returns the pid of systemd, as this machine sees it."""
        if self.unshare.poll() is not None:
            with open(os.path.join(self.top, 'boot.log'), encoding='utf-8') as log:
                self.fail(f'systemd did not start: {log.read()}')
        with open(f'/proc/{self.unshare.pid}/task/{self.unshare.pid}/children', encoding='ascii') as file:
            children = file.read().split()
        if not children or os.path.basename(os.readlink(f'/proc/{children[0]}/exe')) != 'systemd':
            return None
        self.init = int(children[0])
        return self.init

    def tearDown(self):
        os.kill(self.init, signal.SIGKILL)
        self.unshare.wait()
        wait_until(lambda: not is_alive(self.init), 'systemd to be gone')
        super().tearDown()

    def inside(self, line, check=True):
        """Returns what the line of shell prints when root types it in the booted system."""
        done = subprocess.run(
            ['nsenter', '-t', str(self.init), '-p', '-m', '-u', '-i', '-n', '-C', '-r', '-w', 'env', '-i',
             'PATH=/usr/bin:/bin:/usr/sbin', 'HOME=/root', 'LC_ALL=C.UTF-8', 'ROLL_DIR=/var/lib/roll',
             f'ROLL_E2E_ID={self.id}', 'sh', '-c', line],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=60,
            check=False)
        if check and done.returncode != 0:
            journal = self.inside('journalctl --no-pager --lines 25 -o cat', check=False)
            self.fail(f'{line}: exit {done.returncode}\n{done.stdout}\n{journal}')
        return done.stdout.strip()

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
        with open(os.path.join(UNITS, '../worker/agent/main.cpp'), encoding='utf-8') as file:
            grace = float(re.search(r'double checkpoint_grace = (\d+)', file.read())[1])
        for unit in ('roll-worker.service', 'user/roll-worker.service'):
            with open(os.path.join(UNITS, unit), encoding='utf-8') as file:
                self.assertGreater(int(re.search(r'TimeoutStopSec=(\d+)s', file.read())[1]), grace, unit)

    def test_units_of_a_user_use_the_directory_of_rollctl(self):
        for name in ('rolld', 'roll-worker'):
            with open(os.path.join(UNITS, 'user', f'{name}.service'), encoding='utf-8') as file:
                self.assertIn(f'\nExecStart={name}\n', file.read(), 'the default of --dir is the same for all programs')


if __name__ == '__main__':
    unittest.main(verbosity=2)
