#!/usr/bin/env python3
"""`rollctl top` in a terminal: what it shows and how soon, its keys, and how it leaves the terminal."""
import os
import re
import shutil
import signal
import socket
import termios
import threading
import time
import unittest

from harness import RollTest, BIN, text_of, wait_until
from terminal import Terminal, Tmux

BEHIND_S = 2  # longest time from a job's acknowledgement until its line is shown


class ByteProxy:
    """Forwards bytes between its own Unix socket and an ipc:// endpoint, and records them."""

    def __init__(self, path, endpoint):
        self.endpoint, self.seen = 'ipc://' + path, bytearray()
        self._target = endpoint.removeprefix('ipc://')
        self._server = socket.socket(socket.AF_UNIX)
        self._server.bind(path)
        self._server.listen()

    def __enter__(self):
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_):
        self._server.close()

    def _accept(self):
        while True:
            try:
                near = self._server.accept()[0]
            except OSError:
                return
            far = socket.socket(socket.AF_UNIX)
            far.connect(self._target)
            for pair in ((near, far), (far, near)):
                threading.Thread(target=self._pass_on, args=pair, daemon=True).start()

    def _pass_on(self, source, target):
        try:
            while data := source.recv(65536):
                self.seen += data
                target.sendall(data)
            target.shutdown(socket.SHUT_WR)
        except OSError:
            pass
        source.close()


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
        # tail keeps 200 MiB in memory until its input ends
        job = self.submit('--name', 'trains', '--', 'sh', '-c', f'printf \'{rows}\' '
                          '> $ROLL_OUTPUT/metrics.jsonl; echo the log begins; seq -f "line %g" 99; '
                          '(head -c 200M /dev/zero; exec sleep 600) | tail -c 200M')
        other = self.submit('--name', 'other', '--', 'sleep', '600')
        self.submit('--hold', '--name', 'sweep', '--array', '1-20', '--', 'true')
        top = Tmux(self, 'rollctl top; echo top ended: $?; read typed')
        top.wait_for(r'^ +3\[1-20\] .* 20 waiting', 'one row for the array')
        self.check_widths(top)
        top.type('Enter')
        top.wait_for(r'^memory in MiB during \w+: 20\d(\.\d)? MiB now, 20\d(\.\d)? MiB maximum$', 'the memory')
        self.assertRegex(self.ctl('show', job).stdout, r'\n  memory +20\d(\.\d)? MiB in use\n')
        top.wait_for('^loss: 8.9 at step 1, 5 at step 40 +tokens/s: 1000 at step 1, 1000 at step 40$', 'both curves')
        top.type('G')
        top.wait_for('^ *ATTEMPT', 'the attempts, below the curves')
        top.type('l')
        top.wait_for('^line 99$', 'the end of the log')
        top.type('g')
        top.wait_for('^the log begins$', 'the beginning of the log')
        top.type('Escape')
        top.wait_for('^loss: .* at step', 'the job again')
        top.type('Escape')
        top.wait_for('Enter open', 'the list again')
        self.order_rows(top, 's', 'id', 'trains.*other.*sweep')
        self.order_rows(top, 's', 'name', 'other.*sweep.*trains')
        self.order_rows(top, 'S', 'name, reversed', 'trains.*sweep.*other')
        top.type('Down', 'Down')
        top.wait_for(rf'^> +{other}  other ', 'the selected row')
        top.type('/', 'othe', 'Enter')
        top.wait_for('filter: othe', 'the filter')
        self.assertNotIn('trains', ''.join(top.screen()[2:6]))
        top.type('c')
        top.wait_for(f'^cancel job {other} other\\? y/n$', 'the question')
        top.type('n')
        top.wait_for('not cancelled', 'that nothing was done')
        top.type('c', 'y')
        top.wait_for(f'^job {other} cancelled$', 'the answer of rolld')
        self.assertEqual(self.wait(other)['state'], 'cancelled')
        self.assertEqual(self.show(job)['state'], 'running')
        top.type('2')
        top.wait_for('SLOTS FREE', 'the nodes')
        top.type('?')
        top.wait_for('also list jobs that have ended', 'the help')
        top.type('q', 'q')
        top.wait_for('^top ended: 0$', 'the screen of before')
        top.type('words')
        top.wait_for('^words$', 'the echo of what is typed')
        top.type('Enter')

    def check_widths(self, top):
        """Checks the list of jobs at several widths of the terminal, the widest one last."""
        for columns, shown in ((80, ('STATE',)), (100, ('USER', 'STATE', 'TIME')),
                               (200, ('STATE', 'TIME', 'LOSS', 'TOKENS/S', 'MEMORY', 'NODES'))):
            top.resize(columns, 40)
            wait_until(lambda: len(top.screen()[0]) == columns, f'a first line of {columns} columns')
            head = top.wait_for(f'^ +ID  NAME.*{".*".join((*shown, ""))}INFO$', f'{shown} in {columns} columns')[0]
            lines = top.screen()
            self.assertRegex(lines[0], r'^2 running  \d+ queued  1 node  slots 2/3 busy +[-\d]+ \d\d:\d\d:\d\d$')
            self.assertEqual(len(lines), 40)
            self.assertIn('running', lines[3][head.index('STATE'):].split()[0])

    def order_rows(self, top, key, order, wanted):
        """Types a key that changes the order of the rows, and waits until the rows match the pattern."""
        top.type(key)
        top.wait_for(f'by {order}( |$)', 'the new order')
        wait_until(lambda: re.search(wanted, ' '.join(top.screen()[3:6])), f'rows that match {wanted}')

    def test_a_signal_and_an_ascii_terminal_are_handled(self):
        self.up()
        self.submit('--hold', '--name', 'waits', '--', 'true')
        top = Terminal(self, ['top'], 120, 40, {'LC_ALL': 'C.UTF-8'})
        top.wait_for('waits', 'the list')
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
        endpoint = text_of(self.state, 'endpoint').strip()
        with ByteProxy(os.path.join(self.top, 'proxy.sock'), endpoint) as proxy:
            self.write(os.path.join(client, 'endpoint'), proxy.endpoint + '\n')
            shown = self.ctl('top', env=dict(self.env, ROLL_DIR=client)).stdout
        self.assertIn('0 running  0 queued', shown)
        self.assertIn('cancelled', shown.splitlines()[-1])
        self.assertGreater(len(proxy.seen), 5000, 'the client went around the proxy')
        self.assertLess(len(proxy.seen), history / 4)


if __name__ == '__main__':
    assert os.path.exists(os.path.join(BIN, 'rollctl')), f'no programs in {BIN}'
    unittest.main()
