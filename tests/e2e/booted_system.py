"""A copy of this machine with systemd as process 1, in namespaces and cgroups of its own.

Its root is an overlay of this machine's root, and all changes are in memory, so a test can install packages and start
units. It has no network but its own loopback, and units that would touch the machine's devices or settings are masked.
"""
import contextlib
import functools
import os
import signal
import subprocess
import uuid

from harness import PATIENCE_S, required, text_of, wait_until

SYSTEMD = '/lib/systemd/systemd'
PATH = '/usr/sbin:/usr/bin:/sbin:/bin'
CGROUPS = '/sys/fs/cgroup'
CONTROLLERS = ('cpu', 'cpuacct', 'cpuset', 'memory', 'devices', 'freezer', 'blkio', 'pids')
# Units that would touch the machine's devices or settings, or wait for what this root does not have.
MASKED = ('systemd-udevd.service', 'systemd-udev-trigger.service', 'systemd-remount-fs.service', 'dev-hugepages.mount',
          'dev-mqueue.mount', 'sys-kernel-debug.mount', 'sys-kernel-tracing.mount', 'sys-fs-fuse-connections.mount',
          'proc-sys-fs-binfmt_misc.automount', 'systemd-binfmt.service', 'systemd-modules-load.service',
          'systemd-sysctl.service', 'systemd-random-seed.service', 'systemd-tmpfiles-setup-dev.service',
          'networking.service')
# The kernel ends the system if the test ends.
ENTER = r'''
set -e
for folder in $FOLDERS; do
    mkdir "$folder"
    echo 0 >"$folder/cgroup.procs"
done
exec setpriv --pdeathsig KILL \
    unshare --pid --mount --uts --ipc --net --cgroup --fork --kill-child bash -c "$BOOT"
'''
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
rm -rf etc/systemd/system/*.wants var/lib/roll etc/roll
printf '[Unit]\nRequires=basic.target\nAfter=basic.target\n' >etc/systemd/system/test.target
for unit in $MASKED; do ln -sf /dev/null "etc/systemd/system/$unit"; done
echo >etc/fstab
mkdir -p old
pivot_root . old
umount -l old
exec env -i container=test PATH=/usr/bin:/bin $VARIABLES /lib/systemd/systemd --unit=test.target
'''


def cgroup_folders(name):
    """Returns the folder of a cgroup `name` below this process's cgroup, for each hierarchy that systemd may use."""
    folders = []
    lines = text_of('/proc/self/cgroup').splitlines()
    for line in lines:
        _, controllers, path = line.split(':', 2)
        hierarchy = os.path.join(CGROUPS, controllers.removeprefix('name='))
        if not controllers and not os.path.exists(f'{CGROUPS}/cgroup.controllers'):
            hierarchy = os.path.join(CGROUPS, 'unified')
        # A new cgroup of cpuset has no processors, and systemd does not use this hierarchy.
        if 'cpuset' in controllers.split(',') or not os.path.exists(f'{hierarchy}/cgroup.procs'):
            continue
        here = hierarchy.rstrip('/') + path  # does not exist if the mount shows only a part of the hierarchy
        folders.append(os.path.join(here if os.path.isdir(here) else hierarchy, name))
    return folders


def is_removed(folder):
    try:
        os.rmdir(folder)
    except FileNotFoundError:
        return True
    except OSError:  # its last process is still ending
        return False
    return True


class BootedSystem:
    """`variables` are in the environment of each of its commands and of process 1, but not of its services."""

    def __init__(self, folder, variables):
        self.folder, self.variables = str(folder), variables
        self.cgroups = cgroup_folders(f'roll-test-{uuid.uuid4().hex[:12]}')
        self.parent = self.first = None

    def boot(self):
        """Fails with a sentence if this machine cannot boot it. Call shut() in both cases."""
        if os.geteuid() != 0:
            raise AssertionError('only root can boot a system in namespaces: run this test as root')
        for program in (SYSTEMD, 'systemctl', 'ip', 'setpriv', 'unshare', 'nsenter'):
            required(program)
        variables = {'TOP': self.folder, 'BOOT': BOOT, 'MASKED': ' '.join(MASKED), 'PATH': PATH,
                     'CONTROLLERS': ' '.join(CONTROLLERS), 'FOLDERS': ' '.join(self.cgroups),
                     'VARIABLES': ' '.join(f'{name}={value}' for name, value in self.variables.items())}
        with open(os.path.join(self.folder, 'boot.log'), 'w', encoding='utf-8') as log:
            self.parent = subprocess.Popen(['sh', '-c', ENTER], env={**variables, **self.variables},
                                           stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        wait_until(self._has_systemd, 'systemd to run as process 1')
        wait_until(lambda: self.run('systemctl is-active test.target', check=False).stdout == 'active\n', 'the boot')
        self.run('ip link set lo up')

    def _has_systemd(self):
        if self.parent.poll() is not None:
            raise AssertionError(f'systemd did not start: {text_of(self.folder, "boot.log")}')
        try:
            children = text_of(f'/proc/{self.parent.pid}/task/{self.parent.pid}/children').split()
            if children and os.path.basename(os.readlink(f'/proc/{children[0]}/exe')) == 'systemd':
                self.first = int(children[0])
        except OSError:  # the child has just ended
            return False
        return self.first is not None

    def path(self, name):
        """Returns the path on this machine of an absolute path of the system."""
        return f'/proc/{self.first}/root{name}'

    def run(self, script, check=True):
        """Runs a shell script of root."""
        done = subprocess.run(
            ['nsenter', '-t', str(self.first), '-p', '-m', '-u', '-i', '-n', '-C', '-r', '-w', 'env', '-i',
             f'PATH={PATH}', 'HOME=/root', 'LC_ALL=C.UTF-8', *(f'{name}={value}' for name, value
                                                               in self.variables.items()), 'sh', '-c', script],
            stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
        if check and done.returncode != 0:
            journal = self.run('journalctl --no-pager --lines 25 -o cat', check=False).stdout
            raise AssertionError(f'{script}: exit {done.returncode}\n{done.stdout}{done.stderr}\n{journal}')
        return done

    def shut(self):
        """Ends all processes of the system and removes its cgroups."""
        if self.parent:
            # unshare ends after process 1, and process 1 after all others.
            if self.first and self.parent.poll() is None:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(self.first, signal.SIGKILL)
            else:
                self.parent.kill()
            self.parent.wait()
        for folder in self.cgroups:
            for path, _, _ in os.walk(folder, topdown=False):
                wait_until(functools.partial(is_removed, path), f'the end of the cgroup {path}')
