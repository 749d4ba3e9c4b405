#!/usr/bin/env python3
"""`rollctl top` in a terminal: what it shows, how soon, other sizes, and how it leaves the terminal."""
import fcntl
import os
import pty
import re
import select
import shutil
import struct
import subprocess
import termios
import time
import unittest

from harness import RollTest, BIN, wait_until
from queue_test import ByteProxy

BEHIND_S = 2  # longest time from a job's acknowledgement until its line is shown


class Terminal:
    """A pseudo-terminal that runs rollctl top; `seen` is all its output."""

    def __init__(self, test, columns, rows):
        self.ours, self.its = pty.openpty()
        self.resize(columns, rows)
        self.before = termios.tcgetattr(self.its)
        self.seen = ''
        self.process = subprocess.Popen(
            [os.path.join(BIN, 'rollctl'), 'top'], env=dict(test.env, TERM='xterm'), cwd=test.work,
            stdin=self.its, stdout=self.its, stderr=self.its, start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))
        test.addCleanup(self.close)

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        os.close(self.ours)
        os.close(self.its)

    def resize(self, columns, rows):
        fcntl.ioctl(self.its, termios.TIOCSWINSZ, struct.pack('HHHH', rows, columns, 0, 0))

    def read(self, wait_s=0.05):
        while select.select([self.ours], [], [], wait_s)[0]:
            self.seen += os.read(self.ours, 65536).decode('utf-8', 'replace')
            wait_s = 0
        return self.seen

    def wait_for(self, pattern, what):
        return wait_until(lambda: re.search(pattern, self.read()), f'top to show {what}', 30)

    def press(self, key):
        os.write(self.ours, key.encode())


class Top(RollTest):

    def test_it_shows_what_is_there_and_what_comes_fits_a_new_size_and_leaves_the_terminal(self):
        self.up()
        self.submit('--hold', '--name', 'was-there', '--', 'true')
        top = Terminal(self, 80, 24)
        top.wait_for(r'0 running  1 queued  1 node  slots 0/2 busy', 'its header')
        top.wait_for('was-there', 'a job that is there')
        self.assertNotIn('rollctl release 1', top.read(), 'it is cut at the width')
        behind = []
        for number in range(3):
            self.submit('--hold', '--name', f'came-{number}', '--', 'true')
            asked = time.monotonic()
            top.wait_for(f'came-{number}', 'a job that came')
            behind.append(time.monotonic() - asked)
        self.assertLess(min(behind), BEHIND_S, behind)
        top.seen = ''
        top.resize(160, 40)
        top.wait_for(r'\x1b\[\d+;8[1-9]H1', 'the rest of a line beyond the 80th column')
        top.press('q')
        self.assertEqual(top.process.wait(30), 0)
        self.assertEqual(termios.tcgetattr(top.its), top.before, 'echo and line mode are back')
        self.assertIn('\x1b[?1049l', top.read(), 'the screen of before is back')

    def test_of_a_long_history_the_newest_alone_are_read(self):
        self.up()
        files = [self.write(f'{n}.yaml', '{name: x, kind: command, command: ["true"], hold: true}')
                 for n in range(600)]
        self.ctl('submit', *files)
        self.ctl('cancel', 'all')
        history = len(self.ctl('events', '--json').stdout)
        client = os.path.join(self.top, 'client')
        shutil.copytree(os.path.join(self.state, 'keys'), os.path.join(client, 'keys'))
        with open(os.path.join(self.state, 'endpoint'), encoding='ascii') as file:
            endpoint = file.read().strip()
        with ByteProxy(os.path.join(self.top, 'proxy.sock'), endpoint) as proxy:
            with open(os.path.join(client, 'endpoint'), 'w', encoding='ascii') as file:
                file.write(proxy.endpoint + '\n')
            shown = self.ctl('top', env=dict(self.env, ROLL_DIR=client)).stdout
        self.assertIn('0 running  0 queued', shown)
        self.assertIn('cancelled', shown.splitlines()[-1])
        self.assertGreater(len(proxy.seen), 5000, 'the client went around the proxy')
        self.assertLess(len(proxy.seen), history / 4)


if __name__ == '__main__':
    assert os.path.exists(os.path.join(BIN, 'rollctl')), f'no programs in {BIN}'
    unittest.main()
