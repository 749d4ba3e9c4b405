"""A real Slurm cluster of 8 nodes x 8 fake GPUs on this machine, for tests: slurmctld, eight slurmd and its own
munged, on free ports. Requires root."""
import os
import shutil
import signal
import socket
import stat
import subprocess
import tempfile
import time

PROGRAMS = ('slurmctld', 'slurmd', 'munged', 'sbatch', 'squeue', 'scancel', 'sinfo', 'scontrol')
ACCOUNTANTS = ('mariadbd', 'slurmdbd', 'sacctmgr')
NODES, GPUS = 8, 8
CONF = '''
ClusterName=lab
SlurmctldHost=localhost(127.0.0.1)
SlurmctldPort={ports[0]}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={top}/munge.socket
CredType=cred/munge
MpiDefault=none
StateSaveLocation={top}/state
SlurmdSpoolDir={top}/spool/%n
SlurmctldPidFile={top}/slurmctld.pid
SlurmdPidFile={top}/slurmd-%n.pid
SlurmctldLogFile={top}/slurmctld.log
SlurmdLogFile={top}/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType={accounting}
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
SlurmdParameters=config_overrides
GresTypes=gpu
TopologyPlugin={topology}
ReturnToService=2
SlurmdTimeout=30
KillWait=5
MinJobAge=60
MessageTimeout=5
SchedulerParameters=batch_sched_delay=0,sched_min_interval=0,bf_interval=1
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
NodeName=n[1-{nodes}] NodeHostname=localhost NodeAddr=127.0.0.1 Port=[{ports[1]}-{last}] CPUs=16 \
RealMemory=16000 Gres=gpu:h200:{gpus}
PartitionName=gpu Nodes=ALL Default=YES PriorityTier=1 MaxTime=7-0 DefMemPerCPU=100
PartitionName=high Nodes=ALL PriorityTier=10 PreemptMode=OFF MaxTime=7-0 DefMemPerCPU=100
'''

NO_ACCOUNTING = 'accounting_storage/none'
ACCOUNTING = '''accounting_storage/slurmdbd
AccountingStorageHost=localhost
AccountingStoragePort={port}
AccountingStoragePass={top}/munge.socket
AccountingStorageEnforce=associations,limits,qos'''
SLURMDBD_CONF = '''
AuthType=auth/munge
AuthInfo=socket={top}/munge.socket
DbdHost=localhost
DbdPort={port}
SlurmUser=root
StorageType=accounting_storage/mysql
StorageHost=localhost
StorageUser=root
StorageLoc=slurm
PidFile={top}/slurmdbd.pid
'''


PATH = '/usr/sbin:/usr/bin:/sbin:/bin'
ONLY_ROOT = 'slurmd and munged of the test cluster run as root, and this user is not root'


def require_programs(accounting):
    """Fails if a program of the cluster is missing."""
    wanted = PROGRAMS + (ACCOUNTANTS if accounting else ())
    missing = [name for name in wanted if not shutil.which(name, path=PATH)]
    if missing:
        raise FileNotFoundError(f'not installed: {", ".join(missing)}; packaging/setup --tests installs Slurm')


def free_ports(count):
    """Returns the first of `count` free ports in a row, below the range from which the kernel assigns ports.
    Processes that start at the same time have successive ids, and try different ports."""
    for first in range(20000 + os.getpid() * count % 6000, 32000, count):
        sockets = []
        try:
            for port in range(first, first + count):
                sockets.append(socket.socket())
                sockets[-1].bind(('127.0.0.1', port))
            return first
        except OSError:
            continue
        finally:
            for opened in sockets:
                opened.close()
    raise RuntimeError('no free ports for the Slurm test cluster')


def parent_of(pid):
    """Returns the parent of a process; 0 if the process has ended."""
    try:
        with open(f'/proc/{pid}/stat', encoding='ascii', errors='replace') as file:
            return int(file.read().rsplit(')', 1)[1].split()[1])
    except OSError:
        return 0


def name_of(pid):
    try:
        with open(f'/proc/{pid}/comm', encoding='ascii', errors='replace') as file:
            return file.read()
    except OSError:
        return ''


class Cluster:
    """A cluster from start() to stop(). `env` is what Slurm's commands need to find it. `accounting` lists
    arguments of `sacctmgr -i`, for a slurmdbd whose limits Slurm enforces. `switches`: n1 to n4 have a switch,
    and the other nodes have another one."""

    def __init__(self, accounting=(), switches=False):
        require_programs(accounting)
        self.accounting = accounting
        self.switches = switches
        self.top = tempfile.mkdtemp(prefix='roll-slurm-')
        self.conf = f'{self.top}/slurm.conf'
        self.env = {'PATH': PATH, 'SLURM_CONF': self.conf, 'LC_ALL': 'C.UTF-8'}
        self.daemons = {}

    def start(self):
        os.chmod(self.top, 0o755)
        first = free_ports(NODES + 2)
        ports = list(range(first, first + NODES + 1))
        accounts = {'top': self.top, 'port': first + NODES + 1}
        for folder in ('state', 'spool', 'dev', 'munge'):
            os.makedirs(f'{self.top}/{folder}')
        accounting = ACCOUNTING.format(**accounts) if self.accounting else NO_ACCOUNTING
        self._write('slurm.conf', CONF.format(top=self.top, ports=ports, last=ports[-1], nodes=NODES,
                                              gpus=GPUS, accounting=accounting,
                                              topology='topology/tree' if self.switches else 'topology/none'))
        if self.switches:
            self._write('topology.conf', 'SwitchName=s1 Nodes=n[1-4]\nSwitchName=s2 Nodes=n[5-8]\n'
                        'SwitchName=top Switches=s[1-2]\n')
        # 22.05 does not know CgroupPlugin=disabled; later releases need it where there are no cgroups.
        newer = self.version() >= (23, 11)
        self._write('cgroup.conf', 'CgroupPlugin=disabled\n' if newer else 'CgroupAutomount=no\n')
        self._write('gres.conf', f'NodeName=n[1-{NODES}] Name=gpu Type=h200 File={self._devices()}\n')
        self._start_munge()
        if self.accounting:
            self._write('slurmdbd.conf', SLURMDBD_CONF.format(**accounts))
            self._start_accounting()
        self.start_controller()
        for node in range(1, NODES + 1):
            self.start_node(f'n{node}')
        self.wait_idle()
        return self

    def start_node(self, node):
        self.daemon(f'slurmd-{node}', 'slurmd', '-f', self.conf, '-N', node, '-D')

    def kill_node(self, node):
        """Kills all that Slurm started on the node at once, as a power failure does."""
        if f'slurmd-{node}' in self.daemons:
            self.kill(f'slurmd-{node}')
        mine = self._steps(f'SLURMD_NODENAME={node}'.encode())
        parents = [pid for pid in map(parent_of, mine) if name_of(pid).startswith('slurmstepd')]
        for pid in (*parents, *mine):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass

    def set_down(self, node):
        self.run('scontrol', 'update', f'NodeName={node}', 'State=DOWN', 'Reason=test')

    def mend_node(self, node):
        """Brings a node back after kill_node() or set_down()."""
        if f'slurmd-{node}' not in self.daemons:
            self.start_node(node)
        try:
            self.run('scontrol', 'update', f'NodeName={node}', 'State=RESUME')
        except RuntimeError:  # the node has come back by itself meanwhile (ReturnToService)
            if 'State=DOWN' in self.run('scontrol', 'show', 'node', node):
                raise

    def version(self):
        """Returns (22, 5) for "slurm-wlm 22.05.8"."""
        said = self.run('slurmctld', '-V').split()[-1]
        return tuple(int(part) for part in said.split('.')[:2])

    def _write(self, name, text):
        with open(f'{self.top}/{name}', 'w', encoding='ascii') as file:
            file.write(text)

    def _devices(self):
        """Makes character devices that stand for GPUs. If that fails, uses terminals."""
        try:
            for gpu in range(GPUS):
                os.mknod(f'{self.top}/dev/nvidia{gpu}', stat.S_IFCHR | 0o666, os.makedev(1, 3))
            return f'{self.top}/dev/nvidia[0-{GPUS - 1}]'
        except PermissionError:
            return f'/dev/tty[0-{GPUS - 1}]'

    def _start_munge(self):
        key = f'{self.top}/munge/key'
        with open(key, 'wb') as file:
            file.write(os.urandom(128))
        os.chmod(key, 0o600)
        self.daemon('munged', 'munged', '--foreground', '--force', f'--key-file={key}',
                    f'--socket={self.top}/munge.socket', f'--pid-file={self.top}/munge/pid',
                    f'--log-file={self.top}/munge/log', f'--seed-file={self.top}/munge/seed')
        self._wait_file('munge.socket', 'munged')

    def _wait_file(self, file, daemon):
        deadline = time.monotonic() + 20
        while not os.path.exists(f'{self.top}/{file}'):
            if time.monotonic() > deadline:
                raise RuntimeError(f'{daemon} does not start: ' + self.tail(f'{daemon}.out'))
            time.sleep(0.02)

    def _start_accounting(self):
        """Starts a database without users and network, for slurmdbd alone. Of its system tables it has only the one
        of procedures, because making all takes longer than the tests."""
        os.chmod(f'{self.top}/slurmdbd.conf', 0o600)
        os.makedirs(f'{self.top}/db')
        with open('/usr/share/mysql/mysql_system_tables.sql', encoding='utf-8') as file:
            procedures = next(line for line in file if line.startswith('CREATE TABLE IF NOT EXISTS proc '))
        self._write('db.sql', f'create database mysql;\nuse mysql;\n{procedures}create database slurm;\n')
        self.env['MYSQL_UNIX_PORT'] = f'{self.top}/db.socket'
        self.daemon('mariadbd', 'mariadbd', '--no-defaults', f'--datadir={self.top}/db',
                    f'--socket={self.top}/db.socket', f'--init-file={self.top}/db.sql', '--user=root',
                    '--skip-networking', '--skip-grant-tables', '--innodb-flush-log-at-trx-commit=0')
        self._wait_file('db.socket', 'mariadbd')
        self.daemon('slurmdbd', 'slurmdbd', '-D')
        deadline = time.monotonic() + 60
        while 'cluster' not in self.run('sacctmgr', '-i', 'add', 'cluster', 'lab', check=False).lower():
            if time.monotonic() > deadline:
                raise RuntimeError('slurmdbd does not answer: ' + self.tail('slurmdbd.out'))
            time.sleep(0.1)
        for arguments in self.accounting:
            said = self.run('sacctmgr', '-i', *arguments)
            if 'rror' in said:
                raise RuntimeError(f'sacctmgr {" ".join(arguments)}: {said}')

    def start_controller(self, *options):
        self.daemon('slurmctld', 'slurmctld', '-f', self.conf, '-D', *options)

    def daemon(self, name, program, *arguments):
        with open(f'{self.top}/{name}.out', 'ab') as out:
            self.daemons[name] = subprocess.Popen(
                [shutil.which(program, path=PATH), *arguments], env=self.env, stdout=out, stderr=out,
                stdin=subprocess.DEVNULL, start_new_session=True)

    def restart_controller(self, forget=False):
        """Kills slurmctld and starts it again. If `forget`, removes its saved state first."""
        self.kill('slurmctld')
        if forget:
            shutil.rmtree(f'{self.top}/state')
            os.makedirs(f'{self.top}/state')
        self.start_controller()
        self.wait_answer()

    def wait_saved(self, patience_s=60):
        """Waits until slurmctld has saved all jobs, because after a kill it forgets jobs that are not saved."""
        began = time.time()
        self.run('sbatch', '--hold', '--output=/dev/null', '--wrap=true')  # a job, so that there is something to save
        deadline = time.monotonic() + patience_s
        while not os.path.exists(f'{self.top}/state/job_state') or \
                os.path.getmtime(f'{self.top}/state/job_state') <= began:
            if time.monotonic() > deadline:
                raise RuntimeError('slurmctld does not save its state')
            time.sleep(0.05)

    def wait_answer(self, patience_s=60):
        deadline = time.monotonic() + patience_s
        while 'is UP' not in self.run('scontrol', 'ping', check=False):
            if time.monotonic() > deadline:
                raise RuntimeError('slurmctld does not answer: ' + self.tail('slurmctld.log'))
            time.sleep(0.05)

    def kill(self, name):
        daemon = self.daemons.pop(name)
        daemon.kill()
        daemon.wait()

    def run(self, *command, check=True, timeout=60):
        done = subprocess.run(command, env=self.env, capture_output=True, text=True, timeout=timeout,
                              cwd=self.top, stdin=subprocess.DEVNULL)
        if check and done.returncode != 0:
            raise RuntimeError(f'{" ".join(command)}: exit {done.returncode}: {done.stderr}')
        return done.stdout

    def wait_idle(self, patience_s=60):
        deadline = time.monotonic() + patience_s
        while True:
            said = self.run('sinfo', '-h', '-p', 'gpu', '-o', '%T', check=False).split()
            if set(said) == {'idle'}:
                return
            if time.monotonic() > deadline:
                raise RuntimeError(f'the Slurm test cluster is {said}: ' + self.tail('slurmctld.log'))
            time.sleep(0.05)

    def tail(self, name):
        try:
            with open(f'{self.top}/{name}', encoding='utf-8', errors='replace') as file:
                return '\n'.join(file.read().splitlines()[-20:])
        except OSError:
            return ''

    def _steps(self, *marks):
        """Returns the pids of slurmstepd and batch scripts. They outlive a slurmd, and have this cluster's conf in
        their environment."""
        marks, found = {f'SLURM_CONF={self.conf}'.encode(), *marks}, []
        for name in os.listdir('/proc'):
            if name.isdigit() and int(name) != os.getpid():
                try:
                    with open(f'/proc/{name}/environ', 'rb') as file:
                        if marks <= set(file.read().split(b'\0')):
                            found.append(int(name))
                except OSError:
                    pass
        return found

    def stop(self):
        for name in list(self.daemons):
            self.kill(name)
        for pid in self._steps():
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        shutil.rmtree(self.top, ignore_errors=True)
