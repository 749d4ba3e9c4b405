#!/usr/bin/env python3
"""How long a job waits for another start when its worker goes, with real processes at the defaults.

    tests/bench/silence.py [--bin build/release/bin] [--rounds 3] [PART...]

Parts: silent restarted slurm (all without an argument; slurm needs root and Debian's Slurm). Each prints its times
beside what they should be at most; it judges nothing.
"""
import json
import os
import pathlib
import signal
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[0] = str(ROOT / 'tests/e2e')
from harness import wait_until  # noqa: E402
from bench_parts import run_parts  # noqa: E402
import slurm_cluster  # noqa: E402
import tempfile  # noqa: E402

SHOWN_S, AGAIN_S, CERTAIN_S = 15, 40, 5


def beside(what, seconds, goal):
    print(f"  {what}: {', '.join(f'{s:.2f}' for s in seconds)} s, goal {goal} s: "
          f"{'holds' if max(seconds) <= goal else 'MISSED'}", flush=True)


class Site:
    """A rolld and roll-workers in a folder of their own, as `rollctl up` starts them."""

    def __init__(self, programs, environment=None):
        self.programs = programs
        self.folder = tempfile.TemporaryDirectory(prefix='roll-silence-')
        self.environment = {**os.environ, **(environment or {}), 'ROLL_DIR': self.folder.name, 'NO_COLOR': '1'}
        self.children = {}

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for child in self.children.values():
            child.send_signal(signal.SIGCONT)
            child.terminate()
        for child in self.children.values():
            child.wait()
        self.folder.cleanup()

    def spawn(self, name, program, *options):
        self.children[name] = subprocess.Popen(
            [self.programs / program, '--dir', self.folder.name, *options], env=self.environment,
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)

    def start_rolld(self, *options):
        self.spawn('rolld', 'rolld', *options)
        wait_until(lambda: self.ask('version', '{}'), 'rolld')

    def start_worker(self, node):
        self.spawn(node, 'roll-worker', '--node', node, '--slots', '1')

    def ask(self, op, args):
        done = subprocess.run([self.programs / 'queue_bench', self.folder.name, 'reply', '1', op, args], text=True,
                              capture_output=True, check=False)
        return json.loads(done.stdout) if done.returncode == 0 else None

    def ctl(self, *words):
        return subprocess.run([self.programs / 'rollctl', *words], env=self.environment, text=True, check=True,
                              capture_output=True, cwd=self.folder.name).stdout

    def submit(self, *options):
        """A job that writes down when each of its attempts starts; its number."""
        script = 'date +%s%N >>$ROLL_OUTPUT/starts; exec sleep 1000'
        return self.ctl('submit', '--parsable', *options, '--', 'sh', '-c', script).strip()

    def job(self, number):
        return self.ask('show', json.dumps({'id': int(number)}))['job']

    def starts(self, number):
        """When its attempts started, in seconds since the epoch."""
        try:
            text = (pathlib.Path(self.job(number)['output']) / 'starts').read_text(encoding='ascii')
        except OSError:
            return []
        return [int(line) / 1e9 for line in text.split()]

    def running_on(self, number):
        wait_until(lambda: len(self.starts(number)) == 1, 'its first start')
        return self.job(number)['nodes'][0]

    def silence_shown(self):
        """When rolld first said so, in seconds since the epoch."""
        events = self.ask('events', '{"since": 0, "limit": 10000}')['events']
        return any(event['kind'] == 'worker_quiet' and 'silent' in event['text'] for event in events)


def again(site, number, began, patience):
    wait_until(lambda: len(site.starts(number)) == 2, 'its second start', patience)
    return site.starts(number)[1] - began


def silent(options):
    shown, restarted = [], []
    for _ in range(options.rounds):
        with Site(options.bin) as site:
            site.start_rolld()
            for node in ('a', 'b'):
                site.start_worker(node)
            number = site.submit()
            node = site.running_on(number)
            time.sleep(3)
            began = time.time()
            site.children[node].send_signal(signal.SIGSTOP)
            wait_until(site.silence_shown, 'the silence to be shown')
            shown.append(time.time() - began)
            restarted.append(again(site, number, began, 120))
    beside('stopped roll-worker shown as silent after', shown, SHOWN_S)
    beside('its job runs again elsewhere after', restarted, AGAIN_S)


def restarted(options):
    times = []
    for _ in range(options.rounds):
        with Site(options.bin) as site:
            site.start_rolld()
            site.start_worker('a')
            number = site.submit()
            site.running_on(number)
            began = time.time()
            site.children['a'].kill()
            site.children['a'].wait()
            site.start_worker('a')
            times.append(again(site, number, began, 120))
    beside('killed and restarted roll-worker, its job runs again after', times, CERTAIN_S)


def kill_node(cluster, node):
    """All that Slurm started there at once, as when a node loses its power: nobody says good-bye."""
    marks = {f'SLURMD_NODENAME={node}'.encode(), f'SLURM_CONF={cluster.conf}'.encode()}
    cluster.kill(f'slurmd-{node}')
    for entry in os.listdir('/proc'):
        try:
            if entry.isdigit() and marks <= set(pathlib.Path('/proc', entry, 'environ').read_bytes().split(b'\0')):
                parent = int(pathlib.Path('/proc', entry, 'stat').read_text(encoding='ascii').rsplit(')')[1].split()[1])
                if pathlib.Path('/proc', str(parent), 'comm').read_text(encoding='ascii').startswith('slurmstepd'):
                    os.kill(parent, signal.SIGKILL)
                os.kill(int(entry), signal.SIGKILL)
        except (OSError, IndexError):
            continue


def slurm(options):
    if slurm_cluster.why_not():
        return print(f'  no Slurm: {slurm_cluster.why_not()}')
    times = []
    for _ in range(options.rounds):
        cluster = slurm_cluster.Cluster().start()
        try:
            with Site(options.bin, cluster.env) as site:
                site.start_rolld('--endpoint', 'tcp://127.0.0.1:*')
                site.ctl('alloc', 'add', 'q', '--gpus', '8', '--time', '1h', '--setup', 'export ROLL_CPU_BINDING=none')
                number = site.submit('--gpus', '8')
                node = site.running_on(number).split('.')[0]
                time.sleep(3)
                site.ctl('submit', '--wait', '--gpus', '8', '--', 'true')  # leaves a second pilot that is idle
                kill_node(cluster, node)
                time.sleep(1)
                cluster.run('scontrol', 'update', f'nodename={node}', 'state=down', 'reason=bench')
                times.append(again(site, number, time.time(), 180))
        finally:
            cluster.stop()
    beside('dead node that Slurm has set down, its job runs again after', times, CERTAIN_S)


PARTS = {part.__name__: part for part in (silent, restarted, slurm)}


def main():
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # cleans up on its way out
    run_parts(PARTS, __doc__, lambda parser: parser.add_argument('--rounds', type=int, default=3))


if __name__ == '__main__':
    main()
