#!/usr/bin/env python3
"""The queue over real sockets and processes, beside what it is measured against, in one run.

    tests/bench/queue.py [--bin build/release/bin] [--before BIN] [--peers DIR] [PART...]

Parts: submit process dispatch drain large guests workers long (all without an argument).
DIR: where `pip install --target DIR
hyperqueue` put HyperQueue; Slurm is the test cluster of tests/e2e (root). Prints; judges nothing.

A drain takes from the first submit until no job is open. Each job has one folder made. ext4 gives no inode out again
for some minutes after it was deleted, and looks past each of them, so that drains one after the other slow each other
down where this project's machine has no journal: `drain` prints how many folders a second the volume makes, and drains
again with the jobs' outputs in memory.
"""
import contextlib
import json
import os
import pathlib
import re
import resource
import select
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.parse

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[0] = str(ROOT / 'tests/e2e')  # replaces this folder, in which queue.py would hide Python's own queue
from bench_parts import processor_s, run_parts  # noqa: E402
import slurm_cluster  # noqa: E402

MANY = 100_000


class Cluster:
    """A rolld in its own folder, with roll-workers when asked for."""

    def __init__(self, programs, client=None):
        self.programs = programs
        self.client = client or programs / 'queue_bench'
        for needed in (self.client, self.client.with_name('first_instruction')):
            if not needed.exists():
                raise SystemExit(f'{needed} is missing; build it: ninja -C build/release {needed.name}')
        self.folder = tempfile.TemporaryDirectory(prefix='roll-queue-')
        self.environment = dict(os.environ, ROLL_DIR=self.folder.name, NO_COLOR='1')
        self.children = []

    def __enter__(self):
        self.start_rolld()
        return self

    def __exit__(self, *_):
        for child in reversed(self.children):
            child.terminate()
        for child in self.children:
            child.wait()
        self.folder.cleanup()

    def spawn(self, *command):
        child = subprocess.Popen(command, env=self.environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                 stderr=subprocess.DEVNULL, cwd=self.folder.name)
        self.children.append(child)
        return child

    def start_rolld(self):
        """Starts rolld. Returns the seconds until it answers."""
        began = time.monotonic()
        self.rolld = self.spawn(self.programs / 'rolld', '--dir', self.folder.name, '--rate-limit', '0')
        while self.bench('ask', 1, 'version', '{}', quiet=True) is None:
            time.sleep(0.01)
        return time.monotonic() - began

    def stop_rolld(self, how):
        how()
        self.rolld.wait()
        self.children.remove(self.rolld)

    def add_workers(self, count, slots):
        for number in range(count):
            self.spawn(self.programs / 'roll-worker', '--dir', self.folder.name, '--node', f'w{number}',
                       '--slots', str(slots))
        time.sleep(2)

    def bench(self, *words, quiet=False):
        """Runs queue_bench. Returns the percentiles that it printed, in milliseconds; None if it failed."""
        done = subprocess.run([self.client, self.folder.name, *map(str, words)], text=True,
                              capture_output=True, check=False)
        if not quiet:
            print('  ' + (done.stdout or done.stderr).strip().replace('\n', '\n  '), flush=True)
        if done.returncode != 0:
            return None
        return {name: float(ms) for name, ms in re.findall(r'(p\d+) ([\d.]+) ms', done.stdout)}

    def text(self, *words):
        """Runs queue_bench. Returns what it printed."""
        command = [self.client, self.folder.name, *map(str, words)]
        return subprocess.run(command, text=True, capture_output=True, check=True).stdout

    def version(self):
        return json.loads(self.text('reply', 1, 'version', '{}'))

    def resident_mb(self):
        with open(f'/proc/{self.rolld.pid}/status', encoding='ascii') as file:
            return int(next(line for line in file if line.startswith('VmRSS')).split()[1]) / 1024


def at_once(clients, count, command, env):
    """Returns how many programs per second `clients` processes run; each process starts one program after the
    other."""
    devnull = [(os.POSIX_SPAWN_OPEN, number, os.devnull, os.O_RDWR, 0) for number in (0, 1)]
    began = time.monotonic()
    children = []
    for _ in range(clients):
        children.append(os.fork())
        if children[-1] == 0:
            ended = [os.waitpid(os.posix_spawnp(command[0], command, env, file_actions=devnull), 0)[1]
                     for _ in range(count // clients)]
            os._exit(1 if any(ended) else 0)
    if any([os.waitpid(child, 0)[1] for child in children]):
        raise SystemExit(f'{command[0]} failed')
    return count / (time.monotonic() - began)


def submit(options):
    with Cluster(options.bin) as cluster:
        cluster.bench('fsync', 2)
        cluster.bench('submit', 3000, 1)
        cluster.bench('submit', 20000, 16)
        cluster.bench('fill', 20000)


def process(options):
    with Cluster(options.bin) as cluster:
        roll = [str(options.bin / 'rollctl'), 'submit', '--hold', '--', 'true']
        for clients in (1, 8):
            rate = at_once(clients, 800, roll, cluster.environment)
            print(f'  rollctl submit, {clients} at a time: {rate:.0f} a second', flush=True)
    if os.geteuid() != 0:
        return print(f'  no Slurm: {slurm_cluster.ONLY_ROOT}')
    slurm = slurm_cluster.Cluster().start()
    try:
        command = ['sbatch', '-H', '-o', '/dev/null', '--wrap', 'true']
        for clients in (1, 8):
            rate = at_once(clients, 400, command, slurm.env)
            print(f'  sbatch, {clients} at a time: {rate:.0f} a second', flush=True)
    finally:
        slurm.stop()


def hyperqueue(options, workers):
    """Yields a cluster of HyperQueue and its client, or None."""
    if not options.peers:
        return None
    sys.path.insert(0, str(options.peers))
    from hyperqueue.cluster import LocalCluster, WorkerConfig  # pylint: disable=import-outside-toplevel
    cluster = LocalCluster()
    for _ in range(workers):
        cluster.start_worker(WorkerConfig(cores=1))
    return cluster


def hyperqueue_job(words, count=1):
    from hyperqueue import Job  # pylint: disable=import-outside-toplevel
    job = Job()
    for _ in range(count):
        job.program(words, stdout=None, stderr=None)
    return job


def dispatch(options):
    program = options.bin / 'first_instruction'
    with Cluster(options.bin) as cluster:
        cluster.add_workers(1, 2)
        cluster.bench('dispatch', 20, program)
        cluster.bench('dispatch', 500, program)
    peer = hyperqueue(options, 1)
    if not peer:
        return
    with peer, tempfile.TemporaryDirectory() as folder:
        fifo, samples = os.path.join(folder, 'fifo'), []
        os.mkfifo(fifo)
        end = os.open(fifo, os.O_RDWR)
        client = peer.client()
        for _ in range(200):
            job = hyperqueue_job([str(program), fifo])
            client.submit(job)
            acknowledged = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
            samples.append((int.from_bytes(os.read(end, 8), 'little') - acknowledged) / 1e6)
            time.sleep(0.03)
        os.close(end)
    samples.sort()
    print(f'  HyperQueue: p50 {samples[100]:.2f} ms, p99 {samples[197]:.2f} ms', flush=True)


def drain(options, count=5000, workers=8):
    with Cluster(options.bin) as cluster:
        cluster.add_workers(workers, 2)
        cluster.bench('drain', count)
        with tempfile.TemporaryDirectory(prefix='roll-queue-', dir='/dev/shm') as outputs:
            print('  outputs in memory:')
            cluster.bench('drain', count, outputs)
    peer = hyperqueue(options, workers)
    if not peer:
        return
    with peer:
        client = peer.client()
        began = time.monotonic()
        client.wait_for_jobs([client.submit(hyperqueue_job(['/bin/true'], count))])
        print(f'  HyperQueue: {count / (time.monotonic() - began):.0f} jobs a second', flush=True)


def beside(what, value, unit, goal):
    """Prints a figure and the highest value that it should have."""
    verdict = 'holds' if value <= goal else 'MISSED'
    print(f'  {what}: {value:.2f} {unit}, goal {goal:.2f}: {verdict}', flush=True)


def turns(cluster):
    """Prints the longest of rolld's turns since its start and the 99th percentile, with the ledger's writes apart."""
    for what, times in cluster.version().items():
        if what in ('turns', 'commits'):
            print(f"  {times['count']} {what}: p99 {times['p99_ms']:.2f} ms, longest {times['longest_ms']:.2f} ms",
                  flush=True)
    return cluster.version()['turns']


def large(options):
    summary = '{"fields": ["id", "name", "kind", "state", "nodes", "waiting"]}'
    with Cluster(options.bin) as cluster:
        print('empty:')
        cluster.bench('submit', 200, 1)
        empty = cluster.bench('submit', 1000, 1)['p99']
        cluster.bench('fill', 10_000 - 1200)
        print('10,000 queued:')
        cluster.bench('ask', 10, 'jobs', '{}')
        beside('all 10,000 with six fields', cluster.bench('ask', 10, 'jobs', summary)['p50'], 'ms', 60)
        cluster.bench('fill', MANY - 11_000)
        print('100,000 queued:')
        beside('memory', cluster.resident_mb(), 'MB', 250)
        beside('submit, p99', cluster.bench('submit', 1000, 1)['p99'], 'ms', 2 * empty)
        beside('first page of jobs', cluster.bench('ask', 10, 'jobs', '{"limit": 100}')['p50'], 'ms', 100)
        cluster.bench('ask', 100, 'version', '{}')
        cluster.stop_rolld(cluster.rolld.kill)
        beside('killed; accepts again after', cluster.start_rolld(), 's', 2)
        beside('memory', cluster.resident_mb(), 'MB', 250)
        cluster.stop_rolld(cluster.rolld.terminate)
        beside('ended; accepts again after', cluster.start_rolld(), 's', 2)
        print('100,000 queued, two workers that run them, submits and questions beside:')
        cluster.add_workers(2, 2)
        beside('submit, p99', cluster.bench('submit', 1000, 1)['p99'], 'ms', 2 * empty)
        cluster.bench('ask', 100, 'jobs', '{"limit": 100}')
        beside('engine turn, longest', turns(cluster)['longest_ms'], 'ms', 10)
        beside('cancel of 10,000', cluster.bench('ask', 1, 'cancel', '{"selector": "80001-90000"}')['p50'], 'ms', 5000)
        beside('engine turn, longest', turns(cluster)['longest_ms'], 'ms', 10)


def workers(options, count=10_000, seconds=15, beat_ms=5000):
    with Cluster(options.bin) as cluster:
        numbers = [str(number) for number in (count, seconds, beat_ms)]
        many = subprocess.Popen([options.bin / 'many_workers', cluster.folder.name, *numbers])
        while many.poll() is None:
            if cluster.rolld.poll() is not None:  # start it again, because many_workers has killed it
                cluster.children.remove(cluster.rolld)
                cluster.start_rolld()
            time.sleep(0.01)


def long(options):
    """Measures what connected workers cost: as many messages as in an hour with a heartbeat each 5 s."""
    workers(options, count=1000, seconds=144, beat_ms=200)


class Guests:
    """roll-web beside a rolld, with a dashboard open, and /metrics read every 5 s. With `half_open`,
    also with so many clients that began a request and never end it. check() fails if roll-web did not serve."""

    def __init__(self, cluster, half_open):
        self.web = subprocess.Popen([cluster.programs / 'roll-web', '--dir', cluster.folder.name, '--listen',
                                     '127.0.0.1:0'], env=cluster.environment, stdout=subprocess.PIPE,
                                    stderr=subprocess.DEVNULL, text=True)
        cluster.children.append(self.web)
        self.address = ('127.0.0.1', int(self.web.stdout.readline().strip().rstrip('/').rsplit(':', 1)[1]))
        token = pathlib.Path(cluster.folder.name, 'web.token').read_text(encoding='ascii').strip()
        self.headers = f'Host: 127.0.0.1:{self.address[1]}\r\nAuthorization: Bearer {token}\r\n'
        self.began = time.monotonic()
        self.events = self.scrapes = 0
        self.half_open = [self.open_half() for _ in range(half_open)]
        for read in (self.read_stream, self.read_metrics, self.keep_half_open):
            threading.Thread(target=self.until_the_end, args=(read,), daemon=True).start()

    def open_half(self):
        one = socket.create_connection(self.address)
        one.sendall(b'GET / HTTP/1.1\r\nHost:')
        return one

    def request(self, path, more=''):
        connection = socket.create_connection(self.address)
        connection.sendall(f'GET {path} HTTP/1.1\r\n{self.headers}{more}\r\n'.encode())
        return connection

    def until_the_end(self, read):
        with contextlib.suppress(OSError):  # roll-web has ended
            read()

    def read_stream(self):
        fields = 'id,name,kind,user,state,held,reason,waiting,nodes,array,progress'
        watched = urllib.parse.quote(f'jobs?limit=100&fields={fields}&reverse=1&fold=1 totals')
        with self.request(f'/api/v1/stream?watch={watched}') as stream:
            while chunk := stream.recv(1 << 20):
                self.events += chunk.count(b'data:')

    def read_metrics(self):
        while self.web.poll() is None:
            with self.request('/metrics', 'Connection: close\r\n') as metrics:
                text = b''.join(iter(lambda: metrics.recv(1 << 20), b''))
            self.scrapes += b'\nroll_up 1\n' in text
            time.sleep(5)

    def keep_half_open(self):
        """Replaces the connections that roll-web closes, because it gives up on slow clients after 30 s."""
        poll = select.poll()
        for one in self.half_open:
            poll.register(one, select.POLLIN)
        by_number = {one.fileno(): one for one in self.half_open}
        while self.web.poll() is None and by_number:
            for number, _ in poll.poll(1000):
                poll.unregister(number)
                by_number.pop(number).close()
                one = self.open_half()
                by_number[one.fileno()] = one
                poll.register(one, select.POLLIN)
            self.half_open = list(by_number.values())

    def check(self, half_open):
        seconds = time.monotonic() - self.began
        if self.scrapes < seconds / 5 - 2 or self.events < seconds / 4 or len(self.half_open) < half_open:
            raise SystemExit(f'in {seconds:.0f} s, roll-web answered {self.scrapes} reads of /metrics and sent '
                             f'{self.events} events, with {len(self.half_open)} of {half_open} half-open connections: '
                             'the figures would be those of a rolld without guests')


def allow_files(count):
    """Raises this process's limit of open files, which roll-web inherits."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < count:
        raise SystemExit(f'the limit of open files is {hard}; {count} are needed: raise it with '
                         f'`ulimit -Hn {count}` as root')
    resource.setrlimit(resource.RLIMIT_NOFILE, (count, hard))


def dispatch_and_drain(cluster, options, jobs, outputs):
    """Returns the figures of single jobs, one after the other, and of many jobs."""
    times = cluster.text('dispatch', 300, options.bin / 'first_instruction').splitlines()[0]
    figures = {f'dispatch, {name}, ms': float(ms) for name, ms in re.findall(r'(p50|p99) ([\d.]+) ms', times)}
    before = processor_s(cluster.rolld.pid)
    with tempfile.TemporaryDirectory(dir=outputs) as folder:
        figures['drain, jobs a second'] = float(re.search(r'drain: (\d+)', cluster.text('drain', jobs, folder))[1])
    figures["drain, rolld's ms of processor a job"] = 1000 / jobs * (processor_s(cluster.rolld.pid) - before)
    return figures


def many_jobs(cluster):
    """Returns the figures of 100,000 queued jobs."""
    figures = {'100,000 submits, a second': float(re.search(r': (\d+) a second', cluster.text('fill', MANY))[1])}
    times = cluster.text('submit', 500, 1)
    return figures | {f'submit at 100,000, {name}, ms': float(ms)
                      for name, ms in re.findall(r'(p50|p99) ([\d.]+) ms', times)}


def guests(options, rounds=5, jobs=3000):
    """Measures each figure alone, with guests, and with guests and 1,000 half-open connections, in turns. The last
    kind has no 100,000 jobs: half-open connections must not delay dispatch. With --before, the programs of an earlier
    build run alone."""
    kinds = {'alone': None, 'dashboard and metrics': 0, 'and 1,000 half-open': 1000}
    allow_files(4096)
    before = options.before.resolve() if options.before else options.bin
    seen = {}
    with tempfile.TemporaryDirectory(prefix='roll-queue-', dir='/dev/shm') as outputs:
        for turn in range(rounds):
            for kind, half_open in [*kinds.items()][turn % 3:] + [*kinds.items()][:turn % 3]:
                alone = half_open is None
                with Cluster(before if alone else options.bin, options.bin / 'queue_bench') as cluster:
                    beside_it = None if alone else Guests(cluster, half_open)
                    cluster.add_workers(4, 2)
                    figures = dispatch_and_drain(cluster, options, jobs, outputs)
                    if not half_open:
                        figures |= many_jobs(cluster)
                    if beside_it:
                        beside_it.check(half_open)
                for name, value in figures.items():
                    seen.setdefault(name, {}).setdefault(kind, []).append(value)
    for name, by_kind in seen.items():
        alone = statistics.median(by_kind['alone'])
        for kind, values in by_kind.items():
            median = statistics.median(values)
            worse = alone / median if name.endswith('a second') else median / alone
            verdict = '' if kind == 'alone' else ': within 10 %' if worse <= 1.1 else ': MISSED'
            print(f'  {name}: {kind}: {median:.2f} ({min(values):.2f} to {max(values):.2f}), '
                  f'{100 * (median / alone - 1):+.1f} %{verdict}', flush=True)


PARTS = {part.__name__: part for part in (submit, process, dispatch, drain, large, guests, workers, long)}


def main():
    def add_options(parser):
        parser.add_argument('--peers', type=pathlib.Path)
        parser.add_argument('--before', type=pathlib.Path, help='programs of an earlier build, for guests')
    run_parts(PARTS, __doc__, add_options)


if __name__ == '__main__':
    main()
