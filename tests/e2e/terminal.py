"""A pseudo-terminal that runs rollctl."""
import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import termios

from harness import BIN, wait_until


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
