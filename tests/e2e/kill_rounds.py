#!/usr/bin/env python3
"""Kills and stops rolld, workers and ranks at random while jobs run, and then checks the whole history.

    tests/e2e/kill_rounds.py [--rounds 100] [--seed N] [--long-every N]

Each round: a fault (SIGKILL, SIGSTOP for a while, or both) to rolld, a roll-worker or a rank. Checked at the end:
no acknowledged job is lost, never two live copies of one, every output that counts is of an attempt that was
current, attempts follow one another, no process is left. `--long-every` makes every Nth fault of a worker a stop
that outlasts its lease, so that its jobs go elsewhere.
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
from harness import BIN, RollTest, text_of, wait_until  # noqa: E402

WORKERS, OPEN_JOBS = 3, 8
# Only one copy at a time holds the lock, children included. Each run appends a line to the history. If a fault hits
# flock itself, nothing is known of other copies, and the attempt fails.
PROGRAM = '''exec 9>>"{work}/lock-$ROLL_JOB"
flock -n -E 66 9
case $? in 0) ;; 66) echo "double $ROLL_JOB $ROLL_TOKEN" >>"{work}/history" ;; *) exit 9 ;; esac
echo "begin $ROLL_JOB $ROLL_TOKEN" >>"{work}/history"
sleep {seconds} || exit 9
echo "end $ROLL_JOB $ROLL_TOKEN" >>"{work}/history"
'''


class KillRounds(RollTest):
    rounds, seed, long_every = 100, None, 0

    def setUp(self):
        super().setUp()
        seed = self.seed if self.seed is not None else random.randrange(1 << 30)
        print(f'kill_rounds: seed {seed}', flush=True)
        self.random = random.Random(seed)
        self.children, self.submits, self.jobs = {}, {}, {}
        self.count, self.faults = 0, {}

    # --- the programs ---

    def start(self, name):
        command = [os.path.join(BIN, 'rolld'), '--dir', self.state]
        if name != 'rolld':
            command = [os.path.join(BIN, 'roll-worker'), '--dir', self.state, '--node', name, '--slots', '2']
        with open(os.path.join(self.top, f'{name}.out.log'), 'ab') as log:
            self.children[name] = subprocess.Popen(command, env=self.env, stdout=log, stderr=log,
                                                   stdin=subprocess.DEVNULL, cwd=self.top)

    def end(self):
        """Waits for the programs. Returns their exit statuses, workers first."""
        children = [child for _, child in reversed(self.children.items())]
        self.children = {}
        for child in children:
            child.send_signal(signal.SIGCONT)
            child.send_signal(signal.SIGTERM)
        return [child.wait(30) for child in children]

    def tearDown(self):
        self.end()
        super().tearDown()

    def keep_alive(self):
        for name, child in list(self.children.items()):
            if child.poll() is not None:
                self.start(name)

    # --- the jobs ---

    def job_file(self, key):
        job = {'name': key, 'kind': 'command', 'resources': {'slots_per_node': 1},
               'command': ['sh', '-c', PROGRAM.format(work=self.work, seconds=round(self.random.uniform(0, 0.8), 2))],
               'retry': {'infra': 1000, 'app': 1000, 'backoff': '0s', 'backoff_max': '0s'}}
        return self.write(f'{key}.yaml', json.dumps(job))

    def offer(self):
        """Keeps submissions under way until enough jobs are open. Repeats a failed one with its key."""
        for key, (child, path) in list(self.submits.items()):
            if child.poll() is None:
                continue
            out = child.stdout.read()
            child.stdout.close()
            del self.submits[key]
            if child.returncode == 0:
                self.jobs[int(out.split()[0])] = key
            else:
                self.assertEqual(child.returncode, 5, 'a submit fails only where rolld is away')
                self.ask(key, path)
        if len(self.submits) < 4 and self.open_jobs() < OPEN_JOBS:
            self.count += 1
            key = f'job-{self.count}'
            self.ask(key, self.job_file(key))

    def ask(self, key, path):
        child = subprocess.Popen([os.path.join(BIN, 'rollctl'), 'submit', '--parsable', '--key', key, path],
                                 env=self.env, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                                 stdin=subprocess.DEVNULL, cwd=self.work, text=True)
        self.submits[key] = (child, path)

    def open_jobs(self):
        return len(self.jobs) - len({line[1] for line in self.history() if line[0] == 'end'})

    def history(self):
        try:
            return [line.split() for line in text_of(self.work, 'history').splitlines()]
        except FileNotFoundError:
            return []

    # --- the faults ---

    def ranks(self):
        """Returns the processes of jobs, which have ROLL_TOKEN in their environment."""
        found = []
        for pid in self.processes():
            try:
                with open(f'/proc/{pid}/environ', 'rb') as file:
                    if b'\0ROLL_TOKEN=' in file.read():
                        found.append(pid)
            except OSError:
                pass
        return found

    def victim(self):
        kind = self.random.choice(['rolld', 'worker', 'worker', 'rank', 'rank'])
        if kind == 'rank':
            ranks = self.ranks()
            return (kind, self.random.choice(ranks)) if ranks else (None, None)
        name = 'rolld' if kind == 'rolld' else f'n{self.random.randrange(WORKERS)}'
        child = self.children[name]
        return (kind, child.pid) if child.poll() is None else (None, None)

    def fault(self, number):
        kind, pid = self.victim()
        if kind is None:
            return
        what = self.random.choice(['kill', 'stop', 'stop and kill'])
        seconds = self.random.uniform(0, 0.4)
        if kind == 'worker' and self.long_every and number % self.long_every == 0:
            what, seconds = 'long stop', 45
        self.faults[f'{kind} {what}'] = self.faults.get(f'{kind} {what}', 0) + 1
        try:
            if what != 'kill':
                os.kill(pid, signal.SIGSTOP)
                time.sleep(seconds)
            os.kill(pid, signal.SIGKILL if 'kill' in what else signal.SIGCONT)
        except ProcessLookupError:
            pass  # the rank has ended by itself
        if 'kill' in what and kind != 'rank':  # may take a while on a busy machine
            next(child for child in self.children.values() if child.pid == pid).wait(30)

    def round(self, number):
        self.offer()
        time.sleep(self.random.uniform(0, 0.15))
        self.fault(number)
        if self.random.random() < 0.7:
            self.keep_alive()

    # --- the checks ---

    def settle(self):
        def quiet():
            self.keep_alive()
            self.offer_none()
            return not self.submits and self.ctl('jobs', check=False).returncode == 0
        wait_until(quiet, 'every submit to be acknowledged by a rolld that serves')
        wait_until(lambda: not self.json('jobs')['jobs'], 'every job to end', 300)

    def offer_none(self):
        limit, self.open_jobs = self.open_jobs, lambda: OPEN_JOBS
        self.offer()
        self.open_jobs = limit

    def check(self):
        all_jobs = {job['id']: job for job in self.json('jobs', '-a')['jobs']}
        self.assertEqual(set(all_jobs), set(self.jobs), 'jobs that were acknowledged, and no others')
        history = self.history()
        self.assertEqual([line for line in history if line[0] == 'double'], [], 'two live copies')
        ended = {(int(line[1]), line[2]) for line in history if line[0] == 'end'}
        placed = self.check_events()
        attempts = 0
        for number, job in all_jobs.items():
            self.assertEqual(job['state'], 'done', f'job {number}: {job["reason"]}')
            attempts += job['attempt']
            last = placed[number][-1]
            self.assertIn((number, last), ended, 'the attempt that counts wrote its output')
        print(f'{self.rounds} rounds: {len(all_jobs)} jobs, {attempts} attempts, faults: '
              + ', '.join(f'{n} {what}' for what, n in sorted(self.faults.items())), flush=True)

    def check_events(self):
        """Checks the tokens of each job's attempts, oldest first: an attempt is placed only after the previous one
        has ended."""
        current, placed = {}, {}
        for event in self.events():
            job, data = event['job'], event['data']
            if event['kind'] == 'attempt_placed':
                token = data['attempt']['token']
                self.assertNotIn(job, current, 'placed while another attempt was current')
                self.assertNotIn(token, placed.get(job, []), 'a token was given twice')
                current[job] = token
                placed.setdefault(job, []).append(token)
            elif event['kind'] == 'attempt_ended':
                self.assertEqual(current.pop(job), data['attempt']['token'])
            elif event['kind'] == 'attempt_fenced':  # rolld tells a node to kill an attempt that is not current
                self.assertNotEqual(current.get(job), data['attempt']['token'], event)
            elif 'attempt' in data:
                self.assertEqual(current.get(job), data['attempt']['token'], event)
        self.assertEqual(current, {}, 'an attempt has no end')
        return placed

    def test_no_job_is_lost_and_none_runs_twice(self):
        for name in ['rolld'] + [f'n{i}' for i in range(WORKERS)]:
            self.start(name)
            if name == 'rolld':
                wait_until(lambda: os.path.exists(os.path.join(self.state, 'endpoint')), 'rolld to serve')
        began = time.monotonic()
        for number in range(1, self.rounds + 1):
            self.round(number)
        faulty = time.monotonic() - began
        self.settle()
        print(f'{faulty:.0f} s of faults, {time.monotonic() - began - faulty:.0f} s until the last job ended')
        self.check()
        self.assertEqual(self.end(), [0] * (WORKERS + 1), 'all end well when asked to')


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--rounds', type=int, default=100)
    parser.add_argument('--seed', type=int)
    parser.add_argument('--long-every', type=int, default=0)
    options = parser.parse_args()
    KillRounds.rounds, KillRounds.seed, KillRounds.long_every = options.rounds, options.seed, options.long_every
    unittest.main(argv=[sys.argv[0]], verbosity=0)


if __name__ == '__main__':
    main()
