#!/usr/bin/env python3
"""Files that are sent with a job (`files`), to nodes that do not see them."""
import glob
import hashlib
import os
import subprocess
import time
import unittest

from harness import BIN, TwoWorkers, wait_until

PIECE = 256 << 10


class StagedFiles(TwoWorkers):
    """The other worker sees an empty directory in place of the inputs."""
    SLOTS = 1

    def words_before_other(self):
        self.inputs = os.path.join(self.work, 'inputs')
        os.makedirs(self.inputs)
        space = ['unshare', '--mount', *([] if os.getuid() == 0 else ['--map-root-user'])]
        return [*space, 'sh', '-c', f'mount -t tmpfs none {self.inputs} && exec "$@"', 'sh']

    def pieces(self):
        return sorted(os.path.basename(path) for path in glob.glob(os.path.join(self.state, 'files', '*')))

    def input(self, name, content):
        path = os.path.join(self.inputs, name)
        with open(path, 'wb') as file:
            file.write(content)
        return path

    def restart(self, *options):
        """Starts rolld after it has ended; the workers keep running."""
        with open(os.path.join(self.top, 'rolld.out'), 'ab') as log:
            subprocess.Popen([os.path.join(BIN, 'rolld'), '--dir', self.state, *options], env=self.env, stdout=log,
                             stderr=log, start_new_session=True)
        wait_until(lambda: self.ctl('jobs', check=False).returncode == 0, 'rolld to answer')

    def test_nodes_that_do_not_see_the_files_get_those_of_the_submission(self):
        large = os.urandom(3 * PIECE + 17)
        text = self.input('a.txt', b'first\n')
        tool = self.input('tool', b'#!/bin/sh\necho tool $1\n')
        os.chmod(tool, 0o755)
        self.input('large', large)
        job_file = self.write('gang.yaml', f'''
name: gang
kind: command
command: [sh, '{{files}}/bin/run', there]
workdir: "{{files}}"
output: {self.work}/out-{{id}}
files: [inputs/a.txt, "inputs/tool:bin/run", inputs/large]
resources: {{nodes: 2, slots_per_node: 1, tasks_per_node: 1}}
setup: |
  ls {self.inputs} | wc -l
  cat $ROLL_FILES/a.txt
  sha256sum < large
  test -x bin/run && echo changed > a.txt
''')
        job = self.submit('--hold', job_file)
        self.assertEqual(len(self.pieces()), 6)
        os.unlink(tool)
        self.input('a.txt', b'second\n')
        self.kill_rolld()  # while the job waits
        self.restart()
        self.ctl('release', job)
        self.kill_rolld()  # while the workers may be fetching
        self.restart()
        self.wait_done(job)
        logs = [self.ctl('logs', job, '--rank', rank).stdout.splitlines() for rank in range(2)]
        self.assertEqual(sorted(lines[0] for lines in logs), ['0', '2'], 'one node sees the inputs, the other does not')
        for lines in logs:
            self.assertEqual(lines[1:], ['first', hashlib.sha256(large).hexdigest() + '  -', 'tool there'])
        again = int(self.ctl('resubmit', job, '--parsable').stdout.split()[0])
        self.wait_done(again)
        self.assertIn('first', self.ctl('logs', again, '--rank', 1).stdout, 'the files of the first submission')
        other = self.submit('--file', text, '--', 'cat', '{files}/a.txt')
        self.wait_done(other)
        self.assertEqual(self.ctl('logs', other).stdout, 'second\n')
        self.assertEqual(len(self.pieces()), 7, 'each piece once')
        wait_until(lambda: not glob.glob(os.path.join(self.state, 'worker', '*', 'files', '*-*')),
                   "the attempts' directories to be removed")
        self.submit('--hold', '--file', text, '--', 'true')
        self.kill_rolld()
        for piece in self.pieces():  # pieces that no job names are kept for an hour
            os.utime(os.path.join(self.state, 'files', piece), (0, 0))
        time.sleep(1)
        self.restart('--keep-ended', '1s')
        self.assertEqual(self.pieces(), [hashlib.sha256(b'second\n').hexdigest()], 'the piece of the job that waits')

    def test_lost_pieces_fail_the_attempt_with_a_reason(self):
        path = self.input('a.txt', b'text\n')
        job = self.submit('--hold', '--set', 'retry.infra=0', '--file', path, '--', 'true')
        os.unlink(os.path.join(self.state, 'files', self.pieces()[0]))
        self.ctl('release', job)
        ended = self.wait(job)
        self.assertEqual(ended['state'], 'failed')
        self.assertIn("the job's files cannot be fetched: ", ended['reason'])

    def test_bad_input_is_refused_in_one_sentence_and_queues_nothing(self):
        path = self.input('a.txt', b'text\n')
        self.input('large', os.urandom(PIECE) * 65)
        os.mkfifo(os.path.join(self.inputs, 'fifo'))
        train = self.train_job(files=[path])
        self.corpus()
        for words, code, says in (
                (['--file', 'inputs/none', '--', 'true'], 2, 'inputs/none does not exist'),
                (['--file', 'inputs', '--', 'true'], 2, 'inputs is a directory; name each of its files'),
                (['--file', 'inputs/fifo', '--', 'true'], 2, 'inputs/fifo is not a regular file'),
                (['--file', f'{path}:../a', '--', 'true'], 2, 'is ../a; allowed: a relative path without'),
                (['--file', f'{path}:/a', '--', 'true'], 2, 'is /a; allowed: a relative path without'),
                (['--file', f'{path}:', '--', 'true'], 2, 'has 0 bytes; allowed: 1 to 255'),
                (['--file', path, '--file', path, '--', 'true'], 2, 'files[1].name is a.txt, the name of an earlier'),
                (['--file', path, '--file', f'{path}:a.txt/b', '--', 'true'], 2, 'has both a.txt and a.txt/b'),
                (['--file', 'inputs/large', '--', 'true'], 4, 'a total size of 16.3 MiB; rolld accepts at most 16 MiB'),
                (['--workdir', '{files}', '--', 'true'], 2,
                 'workdir is {files}, a directory that only jobs with `files` have'),
                (['--set', 'files=[3]', '--', 'true'], 2, 'files[0] is 3'),
                ([train], 2, 'files')):
            refused = self.ctl('submit', *words, check=False)
            self.assertEqual((refused.returncode, refused.stdout), (code, ''), (words, refused.stderr))
            self.assertIn(says, refused.stderr)
        self.assertEqual((self.json('jobs', '-a')['jobs'], self.pieces()), ([], []))


if __name__ == '__main__':
    unittest.main(verbosity=2)
