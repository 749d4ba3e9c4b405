#!/usr/bin/env python3
"""`rollctl shell`: programs and terminals inside running jobs, and what is left when one side is killed."""
import os
import signal
import subprocess
import termios
import time
import unittest

from harness import RollTest, BIN, is_alive, wait_until
from terminal import Terminal

MARK = 'sleep 4242'
PROMPT = ['--env', 'PS1=% ', '--env', 'SHELL=/bin/sh']


class Shell(RollTest):

    def running(self, *args):
        job = self.submit(*args)
        wait_until(lambda: (self.show(job)['attempts'] or [{}])[-1].get('state') == 'running', f'job {job} to run')
        return job

    def marked(self):
        """Returns the pids of this test's processes that run MARK."""
        return [pid for pid in self.processes() if self.describe(pid).endswith(f'({MARK})')]

    def test_a_command_runs_in_the_job_and_its_streams_and_status_come_back(self):
        self.up()
        job = self.running('--env', 'FRUIT=plum', '--env', 'PATH', '--workdir', '/usr', '--', 'sleep', '600')
        done = self.ctl('shell', job, '--', 'sh', '-c', 'echo $FRUIT $ROLL_JOB $PWD; echo bad >&2; exit 7', check=False)
        self.assertEqual((done.stdout, done.stderr, done.returncode), (f'plum {job} /usr\n', 'bad\n', 7))
        self.assertEqual(self.ctl('shell', job, text_in='hostname; tty || exit 4', check=False).returncode, 4)
        killed = self.ctl('shell', job, '--', 'sh', '-c', 'kill -9 $$', check=False)
        self.assertEqual(killed.returncode, 137)
        # All bytes, much more than the windows of both directions, unchanged and with back-pressure.
        data = bytes(range(256)) * 4096
        copied = subprocess.run([os.path.join(BIN, 'rollctl'), 'shell', str(job), '--', 'cat'], env=self.env,
                                input=data, capture_output=True, timeout=60, check=False)
        self.assertEqual(copied.returncode, 0, copied.stderr)
        self.assertTrue(copied.stdout == data, f'{len(copied.stdout)} of {len(data)} bytes')
        for args, text in ((['--rank', 1, job], 'rank is 1; job 1 has the ranks 0 to 0'),
                           (['--node', 'moon', job], 'node is moon; job 1 runs on '),
                           ([job, '--', '/no/such'], 'cannot run /no/such: No such file or directory'),
                           ([99], 'there is no job 99')):
            refused = self.ctl('shell', *args, check=False)
            self.assertEqual(refused.returncode, 125)
            self.assertIn(text, refused.stderr)
        self.ctl('cancel', job)
        self.wait(job)
        self.assertIn('does not run now', self.ctl('shell', job, check=False).stderr)

    def test_a_terminal_follows_its_size_and_ends_with_its_job(self):
        self.up()
        job = self.running(*PROMPT, '--', 'sleep', '600')
        shell = Terminal(self, ['shell', job])
        shell.wait_for('% ')
        shell.type('stty size; tty\r')
        shell.wait_for(r'24 80\r\n/dev/')
        shell.resize(132, 40)
        wait_until(lambda: (shell.type('stty size\r'), time.sleep(0.2), '40 132' in shell.read())[2], 'the new size')
        shell.type(MARK + '\r')
        wait_until(self.marked, 'the program in the terminal')
        shell.type('\x03')
        wait_until(lambda: not self.marked(), 'the end of the program after Ctrl-C')
        shell.type('exit 3\r')
        self.assertEqual(shell.status(), 3)
        self.assertEqual(termios.tcgetattr(shell.its), shell.before, 'the terminal is as before')
        leaving = Terminal(self, ['shell', job])
        leaving.wait_for('% ')
        leaving.type(f'trap "" HUP; {MARK}\r')
        wait_until(self.marked, 'the program in the terminal')
        leaving.type('\r~.')
        self.assertEqual(leaving.status(), 129)
        wait_until(lambda: not self.marked(), 'the end of a program that ignores SIGHUP')
        last = Terminal(self, ['shell', job])
        last.wait_for('% ')
        self.ctl('cancel', job)
        self.assertEqual(last.status(), 125)
        self.assertIn("the job's attempt has ended", last.seen)

    def test_an_interactive_job_ends_with_its_terminal_and_has_its_status(self):
        self.up()
        shell = Terminal(self, ['shell', *PROMPT, '--slots', 2, '--name', 'desk'])
        shell.wait_for('% ')
        job = self.json('jobs')['jobs'][0]['id']
        self.assertEqual(self.show(job)['resources']['slots_per_node'], 2)
        shell.type('exit 5\r')
        self.assertEqual(shell.status(), 5)
        ended = self.wait(job)
        self.assertEqual((ended['state'], ended['exit_code']), ('failed', 5))
        self.assertEqual(self.ctl('shell', '--slots', 1, '--', 'echo', 'hi').stdout, 'hi\n')
        wait_until(lambda: not self.json('jobs')['jobs'], 'the second job to end')
        self.assertEqual(self.json('jobs', '-a')['jobs'][-1]['state'], 'done')

    def test_a_shell_whose_job_is_cancelled_before_its_programs_start_says_so(self):
        self.up()
        for options, state in ((('--hold',), 'queued'), (('--set', 'check={"command": ["sleep", "600"]}'), 'running')):
            shell = Terminal(self, ['shell', *options])
            shell.wait_for(r'job \d+ is queued')
            job = wait_until(lambda: self.json('jobs', '--state', state)['jobs'], f'a {state} job')[0]['id']
            self.ctl('cancel', job, '--reason', 'not today')
            self.assertEqual(shell.status(), 125)
            self.assertRegex(shell.seen, rf'is queued\r\n(job {job} waits: .*\r\n)*rollctl: job {job} was cancelled: '
                             r'.*not today.*\r\n  next: rollctl show \d+\r\n$')
            self.assertEqual(termios.tcgetattr(shell.its), shell.before, 'the terminal is as before')

    def test_nothing_is_left_when_the_client_the_worker_or_rolld_is_killed(self):
        self.up()
        job = self.running('--', 'sleep', '600')
        clients = [Terminal(self, ['shell', *args, '--', *MARK.split()]) for args in ([job], [job], ['--slots', 1])]
        wait_until(lambda: len(self.marked()) == 3, 'the programs')
        alone = self.json('jobs')['jobs'][-1]['id']
        clients[0].process.kill()
        clients[2].process.kill()
        self.kill_rolld()
        self.assertEqual(clients[1].status(), 125)
        self.assertRegex(clients[1].seen, 'no rolld listens|closed the connection')
        self.assertEqual(len(clients[1].seen.strip().splitlines()), 2, 'a sentence and a hint')
        wait_until(lambda: not self.marked(), 'the end of the programs without a client or without rolld', 60)
        self.up()
        wait_until(lambda: self.ctl('shell', job, '--', 'true', check=False).returncode == 0, 'the job again')
        self.assertEqual(self.wait(alone)['state'], 'failed', 'an interactive job ends with its terminal')
        of_worker = Terminal(self, ['shell', job, '--', *MARK.split()])
        wait_until(self.marked, 'the program')
        self.kill_worker()
        wait_until(lambda: not self.marked(), 'the end of the program with its worker')
        self.assertEqual(of_worker.status(), 125)
        self.assertIn("the job's attempt has ended", of_worker.seen)


if __name__ == '__main__':
    unittest.main()
