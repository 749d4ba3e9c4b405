#!/usr/bin/env python3
"""Kills roll-workers and guards of jobs that remove every mark, and measures how soon each job runs again, never
twice.

    tests/e2e/killed_agents.py [--kills 6] [--wall cgroup|namespace] [--within SECONDS]

Each kill goes to a roll-worker, to its guards, or to all of them at once as `pkill -9 roll-worker` does; a killed
roll-worker never comes back. Its job runs without environment, in a session of its own.
"""
import argparse
import os
import signal
import subprocess
import sys
import time
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from harness import BIN, RollTest, wait_until  # noqa: E402

# Only one copy at a time holds the lock, for as long as it runs.
PROGRAM = '''exec 9>>"$1/lock-$2"
flock -n 9 || echo "double $2" >>"$1/history"
echo "begin $2 $$" >>"$1/history"
exec sleep 1000
'''


def children_of(pid, name):
    found = []
    for entry in os.listdir('/proc'):
        try:
            with open(f'/proc/{entry}/stat', encoding='ascii', errors='replace') as file:
                head, tail = file.read().rsplit(')', 1)
        except (OSError, ValueError):
            continue
        if entry.isdigit() and tail.split()[1] == str(pid) and head.split('(', 1)[1] == name:
            found.append(int(entry))
    return found


class KilledAgents(RollTest):
    kills, within_s, wall = 6, 20, None

    def setUp(self):
        super().setUp()
        self.workers, self.count = {}, 0
        self.program = self.write('program', PROGRAM)
        self.history = self.write('history', '')
        self.rolld = self.start('rolld', '--dir', self.state)
        wait_until(lambda: os.path.exists(os.path.join(self.state, 'endpoint')), 'rolld')

    def tearDown(self):
        for child in [*self.workers.values(), self.rolld]:
            child.send_signal(signal.SIGTERM)
        for child in [*self.workers.values(), self.rolld]:
            child.wait(30)
        self.end_strays()
        super().tearDown()

    def end_strays(self):
        """Kills copies that should not exist. They have no mark by which the harness would find them."""
        with open(self.history, encoding='ascii') as file:
            pids = [line.split()[2] for line in file if line.startswith('begin')]
        for pid in pids:
            try:
                with open(f'/proc/{pid}/cmdline', 'rb') as file:
                    if file.read() == b'sleep\x001000\0':
                        os.kill(int(pid), signal.SIGKILL)
            except OSError:
                pass

    def start(self, program, *words):
        with open(os.path.join(self.top, 'out.log'), 'ab') as log:
            return subprocess.Popen([os.path.join(BIN, program), *words], env=self.env, stdout=log, stderr=log,
                                    stdin=subprocess.DEVNULL, cwd=self.top)

    def add_worker(self):
        self.count += 1
        words = ['--wall', self.wall] if self.wall else []
        name = f'n{self.count}'
        self.workers[name] = self.start('roll-worker', '--dir', self.state, '--node', name, '--slots', '1', *words)

    def begins(self, job):
        with open(self.history, encoding='ascii') as file:
            return [line for line in file if line.startswith(f'begin {job} ')]

    def kill(self, job, whom):
        node, = self.show(job)['nodes']
        worker = self.workers[node]
        worker.send_signal(signal.SIGSTOP)
        victims = children_of(worker.pid, 'roll-worker') if whom != 'worker' else []
        for pid in victims:
            os.kill(pid, signal.SIGKILL)
        worker.send_signal(signal.SIGCONT if whom == 'guards' else signal.SIGKILL)
        if whom != 'guards':
            worker.wait()
            del self.workers[node]

    def test_jobs_of_killed_agents_run_again_soon_and_never_twice(self):
        times = []
        for number in range(self.kills):
            while len(self.workers) < 2:
                self.add_worker()
            job = self.submit('--', 'sh', '-c', f'env -i setsid sh {self.program} {self.work} $ROLL_JOB & wait')
            wait_until(lambda: self.begins(job), f'job {job} to run')
            whom = ('both', 'worker', 'guards')[number % 3]
            begun = time.monotonic()
            self.kill(job, whom)
            wait_until(lambda: len(self.begins(job)) == 2, f'job {job} to run again after its {whom} died')
            times.append(time.monotonic() - begun)
            self.ctl('cancel', job)
            self.wait(job)
        print(f'killed_agents: {self.kills} kills, runs again after {min(times):.1f} to {max(times):.1f} s, '
              f'median {sorted(times)[len(times) // 2]:.1f} s', flush=True)
        with open(self.history, encoding='ascii') as file:
            self.assertEqual([line for line in file if line.startswith('double')], [])
        self.assertLess(max(times), self.within_s, 'the silence of 35 beats was waited for')


if __name__ == '__main__':
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--kills', type=int, default=6)
    parser.add_argument('--within', type=float, default=20)
    parser.add_argument('--wall', choices=('cgroup', 'namespace'))
    options = parser.parse_args()
    KilledAgents.kills, KilledAgents.within_s, KilledAgents.wall = options.kills, options.within, options.wall
    unittest.main(argv=sys.argv[:1])
