"""A copy of this machine's root file system with systemd as its first process, in namespaces of its own.

The copy is an overlay, so that tests install packages and start units without a change of the machine.
"""
import os
import signal
import subprocess
import tempfile
import time

TARGET = '[Unit]\nDescription=what a test boots: nothing\nDefaultDependencies=no\n'
# Run as the first process of the new namespaces: $1 is a folder for the mounts.
BOOT = r'''
set -e
mount --make-rprivate /
mount -t tmpfs tmpfs "$1"
mkdir "$1/up" "$1/work" "$1/root"
mount -t overlay overlay -o "lowerdir=/,upperdir=$1/up,workdir=$1/work" "$1/root"
cd "$1/root"
mount -t proc proc proc
mount --rbind /dev dev
mount -t sysfs sysfs sys
mount -t tmpfs tmpfs sys/fs/cgroup
mkdir sys/fs/cgroup/systemd
mount -t cgroup -o none,name=systemd cgroup sys/fs/cgroup/systemd
mount -t tmpfs tmpfs run
mount -t tmpfs tmpfs tmp
printf "$2" > etc/systemd/system/roll-test.target
exec env -i container=roll-test PATH=/usr/sbin:/usr/bin:/sbin:/bin \
    chroot . /lib/systemd/systemd --system --unit=roll-test.target --show-status=0
'''


class BootedTree:
    def __init__(self):
        self.folder = tempfile.mkdtemp(prefix='roll-tree-')
        self.cgroup = f'/sys/fs/cgroup/systemd/roll-test-{os.getpid()}'
        self.parent = self.first = None

    def boot(self):
        """Returns why systemd does not run in a tree here; an empty text if it does."""
        if os.getuid() != 0:
            return 'only root can make the tree'
        if not os.path.isdir('/sys/fs/cgroup/systemd') or not os.path.exists('/lib/systemd/systemd'):
            return 'this machine has no systemd, or no cgroup of its own for it'
        os.mkdir(self.cgroup)

        def enter():
            with open(f'{self.cgroup}/cgroup.procs', 'w', encoding='ascii') as file:
                file.write('0')
        self.parent = subprocess.Popen(['unshare', '-m', '-p', '-f', '-u', '-i', '-C', '--kill-child', 'sh', '-c', BOOT,
                                        'sh', self.folder, TARGET.replace('\n', '\\n')], preexec_fn=enter,
                                       stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline and self.parent.poll() is None:
            with open(f'/proc/{self.parent.pid}/task/{self.parent.pid}/children', encoding='ascii') as file:
                self.first = file.read().strip()
            if self.first and self.run('systemctl is-system-running', check=False).stdout.strip() == 'running':
                return ''
            time.sleep(0.2)
        if self.parent.poll() is None:
            return 'systemd did not start within 60 s'
        return f'cannot boot: {self.parent.communicate()[0]}'

    def run(self, script, check=True):
        """Runs a shell script inside."""
        enter = ['nsenter', '-t', self.first, '-m', '-p', '-u', '-i', '-C', '-r', '-w']
        done = subprocess.run([*enter, 'sh', '-c', script], capture_output=True, text=True, check=False,
                              stdin=subprocess.DEVNULL)
        assert not check or done.returncode == 0, f'{script}: exit {done.returncode}\n{done.stdout}{done.stderr}'
        return done

    def shut(self):
        if self.parent:
            if self.first:
                os.kill(int(self.first), signal.SIGKILL)
            self.parent.communicate()
            for folder, _, _ in os.walk(self.cgroup, topdown=False):
                os.rmdir(folder)
        os.rmdir(self.folder)
