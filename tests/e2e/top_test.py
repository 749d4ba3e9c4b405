#!/usr/bin/env python3
"""`rollctl top` in a terminal: what it shows and how soon, its keys, and how it leaves the terminal."""
import os
import shutil
import signal
import termios
import time
import unittest

from harness import RollTest, BIN, wait_until
from queue_test import ByteProxy
from terminal import Terminal

BEHIND_S = 2  # longest time from a job's acknowledgement until its line is shown


class Top(RollTest):

    def test_it_shows_what_is_there_and_what_comes_fits_a_new_size_and_leaves_the_terminal(self):
        self.up()
        self.submit('--hold', '--name', 'was-there', '--', 'true')
        top = Terminal(self, ['top'])
        top.wait_for(r'0 running  1 queued  1 node  slots 0/2 busy', 'its header')
        top.wait_for('was-there', 'a job that is there')
        self.assertNotIn('r tasks', top.read(), 'the last line is cut at the width')
        behind = []
        for number in range(3):
            self.submit('--hold', '--name', f'came-{number}', '--', 'true')
            asked = time.monotonic()
            top.wait_for(f'came-{number}', 'a job that came')
            behind.append(time.monotonic() - asked)
        self.assertLess(min(behind), BEHIND_S, behind)
        top.seen = ''
        top.resize(160, 40)
        top.wait_for('r tasks', 'the rest of a line beyond the 80th column')
        top.type('q')
        self.assertEqual(top.process.wait(30), 0)
        self.assertEqual(termios.tcgetattr(top.its), top.before, 'echo and line mode are back')
        self.assertIn('\x1b[?1049l', top.read(), 'the screen of before is back')

    def test_keys_open_jobs_follow_logs_filter_and_cancel(self):
        self.up(slots=3)
        rows = ''.join('{"step": %d, "loss": %g, "tokens_per_second": 1000}\\n' % (step, 9 - step / 10)
                       for step in range(1, 41))
        job = self.submit('--name', 'trains', '--', 'sh', '-c', f'printf \'{rows}\' '
                          '> $ROLL_OUTPUT/metrics.jsonl; echo the log begins; seq -f "line %g" 99; exec sleep 600')
        other = self.submit('--name', 'other', '--', 'sleep', '600')
        self.submit('--hold', '--name', 'sweep', '--array', '1-20', '--', 'true')
        top = Terminal(self, ['top'], 120, 40, {'LC_ALL': 'C.UTF-8'})
        top.wait_for(r'3\[1-20\]', 'one row for the array')
        top.wait_for('20 waiting', 'the states of its tasks')
        top.type('\r')
        top.wait_for('loss from step 1 to 40: 8.9 to 5', 'the curve of the whole run')
        top.wait_for('ATTEMPT', 'the attempts')
        top.type('l')
        top.wait_for('line 99', 'the end of the log')
        top.type('g')
        top.wait_for('begins', 'the beginning of the log')
        top.type('\x1b')
        top.wait_for('loss from step', 'the job again')
        top.type('\x1b')
        top.wait_for('Enter open', 'the list again')
        top.type('/othe\r')
        top.wait_for('filter: othe', 'the filter')
        top.type('c')
        top.wait_for(f'cancel job {other} other\\? y/n', 'the question')
        top.type('n')
        top.wait_for('not cancelled', 'that nothing was done')
        top.type('cy')
        top.wait_for(f'job {other} cancelled', 'the answer of rolld')
        self.assertEqual(self.wait(other)['state'], 'cancelled')
        self.assertEqual(self.show(job)['state'], 'running')
        top.type('2')
        top.wait_for('SLOTS FREE', 'the nodes')
        top.type('?')
        top.wait_for('also list jobs that have ended', 'the help')
        os.kill(top.process.pid, signal.SIGTERM)
        self.assertEqual(top.process.wait(30), -signal.SIGTERM)
        self.assertEqual(termios.tcgetattr(top.its), top.before, 'echo and line mode are back')
        self.assertIn('\x1b[?1049l', top.read(), 'the screen of before is back')
        plain = Terminal(self, ['top'], 80, 24, {'LC_ALL': 'C'})
        plain.wait_for('STATE', 'the list')
        plain.type('Q')
        self.assertEqual(plain.process.wait(30), 0)
        self.assertTrue(plain.read().isascii(), 'an ASCII terminal gets ASCII')
        dumb = Terminal(self, ['top'], 80, 24, {'TERM': 'dumb'})
        self.assertEqual(dumb.process.wait(30), 2)
        self.assertEqual(dumb.read().splitlines()[0],
                         'rollctl: the terminal type dumb cannot show a full-screen view')

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
