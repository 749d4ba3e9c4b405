"""Terminals that run rollctl: a bare pseudo-terminal, and tmux."""
import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import termios

from harness import BIN, required, wait_until


class Terminal:
    """Runs `rollctl WORDS` in a terminal until the test ends. `seen` is the output since the last keys."""

    def __init__(self, test, words, columns=80, rows=24, env=None):
        self.ours, self.its = pty.openpty()
        self.resize(columns, rows)
        self.before = termios.tcgetattr(self.its)
        self.seen = ''
        self.process = subprocess.Popen(
            [os.path.join(BIN, 'rollctl'), *map(str, words)], env={**test.env, 'TERM': 'xterm', **(env or {})},
            cwd=test.work, stdin=self.its, stdout=self.its, stderr=self.its, start_new_session=True,
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

    def wait_for(self, pattern, what=None):
        try:
            return wait_until(lambda: re.search(pattern, self.read()), f'the terminal to show {what or pattern}', 40)
        except AssertionError as error:
            raise AssertionError(f'{error}; it shows {self.seen[-500:]!r}') from None

    def type(self, keys):
        """Types keys, and forgets the output before them."""
        self.read(0)
        self.seen = ''
        os.write(self.ours, keys.encode())

    def status(self):
        """Waits until rollctl ends, and returns its exit status."""
        wait_until(lambda: self.process.poll() is not None or (self.read() and False),
                   f'rollctl to end; it shows {self.seen[-500:]!r}', 60)
        self.read()
        return self.process.returncode


class Tmux:
    """Runs a shell command in tmux, which shows the screen as a user sees it. The session ends with the command."""

    def __init__(self, test, command, columns=80, rows=24):
        self.socket = os.path.join(test.top, 'tmux')
        self.env = {**test.env, 'TERM': 'xterm', 'SHELL': '/bin/sh'}
        self.cwd = test.work
        self.ask('-f', '/dev/null', '-u', 'new-session', '-d', '-x', columns, '-y', rows, command)

    def ask(self, *words):
        return subprocess.run([required('tmux'), '-S', self.socket, *map(str, words)], env=self.env, cwd=self.cwd,
                              check=True,
                              capture_output=True, text=True, timeout=20).stdout

    def resize(self, columns, rows):
        self.ask('resize-window', '-x', columns, '-y', rows)

    def type(self, *keys):
        """Types keys: characters, or names such as Enter and Escape."""
        self.ask('send-keys', *keys)

    def screen(self):
        """Returns the lines of the screen, without spaces at their ends."""
        return self.ask('capture-pane', '-p').split('\n')[:-1]

    def wait_for(self, pattern, what=None):
        """Waits until the screen matches. Returns the match."""
        shown = ''

        def found():
            nonlocal shown
            shown = '\n'.join(self.screen())
            return re.search(pattern, shown, re.MULTILINE)
        try:
            return wait_until(found, f'the terminal to show {what or pattern}', 40)
        except AssertionError as error:
            raise AssertionError(f'{error}; it shows\n{shown}') from None
