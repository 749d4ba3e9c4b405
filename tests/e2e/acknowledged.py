#!/usr/bin/env python3
"""Kills rolld with SIGKILL while submissions stream in, and looks for each that it had acknowledged.

    tests/e2e/acknowledged.py [--trials 20000] [--most 600] [--seed N]

A trial is a submission that was acknowledged before a kill. After each restart every one of them must be there, once,
under the number and name that was told; what was not acknowledged is sent again with its key, and must not double.
"""
import argparse
import itertools
import json
import os
import random
import select
import signal
import socket
import struct
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from harness import BIN, RollTest, text_of, wait_until  # noqa: E402

CONNECTIONS, UNDER_WAY, JOBS_OF_A_LEDGER, PRINTED_EACH = 8, 64, 20_000, 10_000


class Connection:
    """A client of the local socket. A frame is its length, low byte first, and JSON."""

    def __init__(self, path):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            self.socket.connect(path)
        except OSError:
            self.socket.close()
            raise
        self.bytes, self.under_way = b'', 0

    def close(self):
        self.socket.close()

    def fileno(self):
        return self.socket.fileno()

    def send(self, number, op, args):
        self.send_frames([json.dumps({'v': 2, 'id': number, 'op': op, 'args': args}).encode()])

    def send_frames(self, frames):
        try:
            self.socket.sendall(b''.join(struct.pack('<I', len(frame)) + frame for frame in frames))
        except (BrokenPipeError, ConnectionResetError):
            pass  # rolld has ended; replies() reports that
        self.under_way += len(frames)

    def replies(self):
        """Returns the replies that have arrived; None once rolld has ended."""
        try:
            more = self.socket.recv(1 << 20)
        except ConnectionResetError:
            more = b''
        if not more:
            return None
        self.bytes += more
        found, at = [], 0
        while len(self.bytes) >= at + 4:
            end = at + 4 + struct.unpack_from('<I', self.bytes, at)[0]
            if len(self.bytes) < end:
                break
            found.append(json.loads(self.bytes[at + 4:end]))
            at = end
        self.bytes = self.bytes[at:]
        self.under_way -= len(found)
        return found

    def ask(self, op, args):
        self.send(1, op, args)
        while True:
            found = self.replies()
            if found:
                return found[0]['ok']


class Acknowledged(RollTest):
    trials, most, seed = 20_000, 600, None

    def start(self):
        command = [os.path.join(BIN, 'rolld'), '--dir', self.state, '--rate-limit', '0', '--log-level', 'error']
        self.rolld = subprocess.Popen(command, env=self.env, stdin=subprocess.DEVNULL, cwd=self.top)
        local = os.path.join(self.state, 'local')

        def connected():
            try:
                return Connection(text_of(local).strip())
            except (FileNotFoundError, ConnectionRefusedError):
                return None
        return wait_until(connected, 'rolld to serve'), local

    def submit_until_killed(self, local):
        """Sends open submissions and new ones on several connections, until rolld is killed at a random moment."""
        path = text_of(local).strip()
        connections = [Connection(path) for _ in range(CONNECTIONS)]
        kill_after = self.random.randrange(1, self.most)  # number of acknowledged submissions
        again, count = list(self.sent), 0
        while connections:
            for one in connections:
                if one.under_way > UNDER_WAY // 2:
                    continue
                numbers = [again.pop() if again else next(self.numbers) for _ in range(UNDER_WAY - one.under_way)]
                self.sent.update(numbers)
                one.send_frames([self.frame.replace(b'77777', str(number).encode()) for number in numbers])
            for one in select.select(connections, [], [])[0]:
                replies = one.replies()
                if replies is None:
                    connections.remove(one)
                    one.close()
                    continue
                for reply in replies:
                    self.assertIn('ok', reply)
                    self.told[reply['ok']['id']] = reply['ok']['name']
                    self.sent.discard(reply['id'])
                    count += 1
                if count >= kill_after:
                    kill_after = 1 << 60
                    self.rolld.send_signal(signal.SIGKILL)
        self.rolld.wait()
        return count

    def check(self, connection):
        """Checks that every acknowledged job exists, and exists once."""
        found, start = {}, 1
        while start is not None:
            page = connection.ask('jobs', {'all': True, 'from': start, 'limit': 10000, 'fields': ['id', 'name']})
            found.update({job['id']: job['name'] for job in page['jobs']})
            start = page['next']
        lost = {number: name for number, name in self.told.items() if found.get(number) != name}
        self.assertEqual(lost, {}, 'acknowledged and not there')
        self.assertEqual(len(set(found.values())), len(found), 'a key was queued twice')
        connection.close()

    def end_rolld(self):
        self.rolld.send_signal(signal.SIGKILL)
        self.rolld.wait()

    def new_ledger(self):
        self.ledgers += 1
        self.state = os.path.join(self.top, f'state-{self.ledgers}')
        self.env['ROLL_DIR'] = self.state
        self.told, self.sent, self.numbers = {}, set(), itertools.count(1)

    def test_rounds(self):
        seed = self.seed if self.seed is not None else random.randrange(1 << 30)
        print(f'acknowledged: seed {seed}', flush=True)
        self.random = random.Random(seed)
        dry = self.ctl('submit', '--dry-run', '--json', '--name', 'x', '--', 'true').stdout
        spec = json.loads(dry)['jobs'][0]
        spec.update(name='t-77777', document=json.dumps(spec['document']))
        # One frame for all submissions, in which each replaces 77777 by its number.
        self.frame = json.dumps({'v': 2, 'id': 77777, 'op': 'submit',
                                 'args': {'key': 'k-77777', 'user': 'ann', 'spec': spec}}).encode()
        self.ledgers = trials = kills = printed = 0
        self.new_ledger()
        connection, local = self.start()
        connection.close()
        while trials < self.trials:
            trials += self.submit_until_killed(local)
            kills += 1
            connection, local = self.start()
            self.check(connection)
            if trials >= printed + PRINTED_EACH:
                printed = trials
                print(f'{trials} acknowledged, {kills} kills, none lost, none twice', flush=True)
            if len(self.told) < JOBS_OF_A_LEDGER:
                continue
            self.end_rolld()
            self.new_ledger()
            connection, local = self.start()
            connection.close()
        self.end_rolld()
        print(f'{trials} acknowledged, {kills} kills, none lost, none twice', flush=True)


if __name__ == '__main__':
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--trials', type=int, default=20_000)
    parser.add_argument('--most', type=int, default=600, help='acknowledged between two kills')
    parser.add_argument('--seed', type=int, default=None)
    options, rest = parser.parse_known_args()
    Acknowledged.trials, Acknowledged.most, Acknowledged.seed = options.trials, options.most, options.seed
    unittest.main(argv=[sys.argv[0], *rest])
