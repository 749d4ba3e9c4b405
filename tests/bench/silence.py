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
    """A rolld and roll-workers in their own folder, started as `rollctl up` does."""

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
        """Submits a job that records when each of its attempts starts. Returns its number."""
        script = 'date +%s%N >>$ROLL_OUTPUT/starts; exec sleep 1000'
        return self.ctl('submit', '--parsable', *options, '--', 'sh', '-c', script).strip()

    def job(self, number):
        return self.ask('show', json.dumps({'id': int(number)}))['job']

    def starts(self, number):
        """Returns when the job's attempts started, in seconds since the epoch."""
        try:
            text = (pathlib.Path(self.job(number)['output']) / 'starts').read_text(encoding='ascii')
        except OSError:
            return []
        return [int(line) / 1e9 for line in text.split()]

    def running_on(self, number):
        wait_until(lambda: len(self.starts(number)) == 1, 'its first start')
        return self.job(number)['nodes'][0]

    def silence_shown(self):
        """Returns when rolld first reported the silence, in seconds since the epoch."""
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


def train_file(site):
    """Returns a job file that trains on two slots until the job is ended."""
    folder = pathlib.Path(site.folder.name)
    (folder / 'text.txt').write_text('the cat sat on the mat and ' * 4000, encoding='ascii')
    (folder / 'train.yaml').write_text(json.dumps({
        'name': 't', 'kind': 'train', 'resources': {'nodes': 1, 'slots_per_node': 2}, 'parallel': {'dp': 2},
        'model': {'family': 'llama', 'hidden_size': 32, 'intermediate_size': 64, 'num_hidden_layers': 2,
                  'num_attention_heads': 2, 'num_key_value_heads': 2, 'vocab_size': 256, 'max_position_embeddings': 64},
        'tokenizer': 'bytes', 'data': {'train': ['text.txt']}, 'objective': 'pretrain', 'export': 'none',
        'train': {'seq_length': 32, 'global_batch_size': 8, 'micro_batch_size': 2, 'steps': 1000000, 'seed': 1,
                  'precision': 'fp32', 'optimizer': {'lr': 3e-3}},
        'checkpoint': {'every': 1000}}), encoding='ascii')
    return folder / 'train.yaml'


def running(site, number, attempt):
    job = site.job(number)
    return job['attempt'] == attempt and job['state'] == 'running' and job.get('progress')


def slurm(options):
    if os.geteuid() != 0:
        return print(f'  no Slurm: {slurm_cluster.ONLY_ROOT}')
    trained, others = [], []
    for _ in range(options.rounds):
        cluster = slurm_cluster.Cluster().start()
        try:
            with Site(options.bin, cluster.env) as site:
                site.start_rolld('--endpoint', 'tcp://127.0.0.1:*')
                site.ctl('alloc', 'add', 'q', '--slots', '3', '--gpus', '8', '--time', '1h',
                         '--setup', 'export ROLL_CPU_BINDING=none')
                number = site.ctl('submit', '--parsable', str(train_file(site))).strip()
                wait_until(lambda: running(site, number, 1), 'its first steps')
                other = site.submit('--slots', '1')
                node = site.running_on(other).split('.')[0]
                site.ctl('submit', '--wait', '--slots', '3', '--', 'true')  # leaves a second pilot idle
                cluster.kill_node(node)
                time.sleep(4)
                began = time.time()
                cluster.set_down(node)
                wait_until(lambda: running(site, number, 2), 'steps of its second attempt', 60)
                trained.append(time.time() - began)
                others.append(again(site, other, began, 180))
        finally:
            cluster.stop()
    beside('dead node that Slurm has set down: its training takes steps again after', trained, CERTAIN_S)
    beside('the same of a command, which waits for its lease', others, AGAIN_S)


PARTS = {part.__name__: part for part in (silent, restarted, slurm)}


def main():
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # exit normally, so that everything is cleaned up
    run_parts(PARTS, __doc__, lambda parser: parser.add_argument('--rounds', type=int, default=3))


if __name__ == '__main__':
    main()
