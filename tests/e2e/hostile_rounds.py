#!/usr/bin/env python3
"""Runs honest jobs beside hostile ones. All honest jobs must end, and no job may ever have two live copies.

    tests/e2e/hostile_rounds.py [--honest 1000] [--seconds 600]

Beside `--honest` short commands run: a job whose output directory is on a full volume, an array whose
start orders together exceed a message's 16 MiB, and jobs that clear their environment while their
guard is killed. Hostile work is submitted again until `--seconds` have passed.
"""
import argparse
import json
import os
import random
import signal
import subprocess
import sys
import time
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from harness import BIN, OVER, RollTest, wait_until  # noqa: E402

# 11 arguments of 120 kB: execve accepts them, and a worker's 16 slots together have 20 MiB.
LARGE = ['sh', '-c', 'true'] + ['x' * 120_000] * 11
# Only one copy at a time holds the lock. The program runs on without its environment and session.
ESCAPING = '''exec env -i PATH="$PATH" setsid sh -c '
exec 9>>"{work}/lock-$0"
flock -n -E 66 9 || echo "double $0" >>"{work}/history"
sleep 0.6' "$ROLL_JOB" '''


class HostileRounds(RollTest):
    honest, seconds = 1000, 600

    def start(self, program, *args):
        with open(os.path.join(self.top, f'{program}-{len(self.children)}.out.log'), 'ab') as log:
            self.children.append(subprocess.Popen(
                [os.path.join(BIN, program), '--dir', self.state, *args], env=self.env, stdout=log,
                stderr=log, stdin=subprocess.DEVNULL, cwd=self.top))

    def setUp(self):
        super().setUp()
        self.children, self.jobs, self.told = [], [], time.monotonic()
        self.start('rolld')
        wait_until(lambda: self.ctl('nodes', check=False).returncode == 0, 'rolld to answer')
        for name in ('a', 'b'):
            self.start('roll-worker', '--node', name, '--slots', '16')
        self.full = os.path.join(self.work, 'full')
        os.makedirs(self.full)
        subprocess.run(['mount', '-t', 'tmpfs', '-o', 'size=64k', 'roll-test', self.full], check=True)
        self.addCleanup(subprocess.run, ['umount', '-l', self.full], check=False)

    def tearDown(self):
        for child in reversed(self.children):
            child.send_signal(signal.SIGTERM)
            child.wait(60)
        super().tearDown()

    def submit_file(self, name, job):
        path = self.write(f'{name}.yaml', json.dumps(dict({'name': name, 'kind': 'command'}, **job)))
        self.jobs += map(int, self.ctl('submit', '--parsable', path).stdout.split())

    def hostile(self, turn):
        retry = {'infra': 20, 'app': 0, 'backoff': '0s', 'backoff_max': '1s'}
        self.submit_file(f'quota-{turn}', {
            'command': ['sh', '-c', 'head -c 1000000 /dev/zero'], 'output': f'{self.full}/{turn}',
            'retry': retry})
        self.submit_file(f'large-{turn}', {'command': LARGE, 'array': '0-29'})
        self.submit_file(f'escaping-{turn}', {
            'command': ['sh', '-c', ESCAPING.format(work=self.work)], 'array': '0-3', 'retry': retry})

    def kill_a_guard(self):
        """Sends SIGKILL to a random guard."""
        guards = [pid for pid in self.pids_of('roll-worker') if '--guard' in self.describe(pid)]
        if guards:
            os.kill(random.choice(guards), signal.SIGKILL)

    def states(self):
        return {job['id']: job['state'] for job in self.json('jobs', '-a')['jobs']}

    def are_over(self):
        left = [job for job, state in self.states().items() if state not in OVER]
        if time.monotonic() > self.told + 30:
            self.told = time.monotonic()
            for job in left[:3]:
                print(f'{len(left)} jobs are left:', self.ctl('explain', job).stdout, flush=True)
        return not left

    def test_all_of_them_end(self):
        wait_until(lambda: len(self.json('nodes')['nodes']) == 2, 'both workers')
        self.submit_file('honest', {'command': ['true'], 'array': f'0-{self.honest - 1}'})
        honest = list(self.jobs)
        began, turn = time.monotonic(), 0
        while time.monotonic() - began < self.seconds:
            if turn % 10 == 0:
                self.hostile(turn)
            self.kill_a_guard()
            time.sleep(0.5)
            turn += 1
        wait_until(self.are_over, 'every job to end', 300)
        states = self.states()
        lost = [job for job in honest if states[job] != 'done']
        self.assertEqual(lost, [], 'honest jobs that did not end as done')
        history = os.path.join(self.work, 'history')
        self.assertFalse(os.path.exists(history), 'two live copies of a job')
        excluded = [node['node'] for node in self.json('nodes')['nodes'] if node.get('excluded')]
        self.assertEqual(excluded, [], 'nodes excluded by the faults of jobs')
        print(f'hostile_rounds: {turn} guards killed, {len(self.jobs)} jobs, all over', flush=True)


if __name__ == '__main__':
    parser = argparse.ArgumentParser()
    parser.add_argument('--honest', type=int, default=1000)
    parser.add_argument('--seconds', type=float, default=600)
    options = parser.parse_args()
    HostileRounds.honest, HostileRounds.seconds = options.honest, options.seconds
    unittest.main(argv=sys.argv[:1])
