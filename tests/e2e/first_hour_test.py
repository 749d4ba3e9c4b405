#!/usr/bin/env python3
"""A new user's first hour: keys for others, doctor, a second rolld. Needs no trainer."""
import os
import pwd
import subprocess
import time
import unittest

from harness import RollTest, BIN, text_of

PROGRAMS = ('rolld', 'roll-worker', 'roll-rank', 'roll-convert', 'rollctl', 'roll-web', 'roll-notify')


class FirstHour(RollTest):

    def test_each_program_prints_its_name_and_version(self):
        programs = [name for name in sorted(os.listdir(BIN)) if name in PROGRAMS]
        self.assertIn('rollctl', programs)
        for name in programs:
            done = subprocess.run([os.path.join(BIN, name), '--version'], capture_output=True, text=True, check=True)
            self.assertRegex(done.stdout, rf'^{name} \d+\.\d+\.\d+$')

    def test_a_key_that_nobody_could_use_is_refused(self):
        self.up()
        bundle = os.path.join(self.top, 'bob')
        for role in ((), ('--worker',)):
            refused = self.ctl('keys', 'add', 'bob', *role, '--out', bundle, check=False)
            self.assertEqual(refused.returncode, 4)
            self.assertIn('other users need TCP', refused.stderr)
            self.assertIn('rollctl up --endpoint tcp://', refused.stderr)
            self.assertFalse(os.path.exists(bundle))

    def test_the_holder_of_a_key_keeps_it_whatever_is_typed(self):
        self.ctl('up', '--endpoint', 'tcp://127.0.0.1:*')
        bundle = os.path.join(self.top, 'bob')
        me = pwd.getpwuid(os.getuid()).pw_name
        added = self.ctl('keys', 'add', 'bob', '--out', bundle)
        self.assertIn(f'jobs of bob run as user {me}', added.stderr)
        self.assertIn('can read the operator\'s key', self.ctl('doctor', check=False).stdout)
        before = text_of(bundle, 'keys', 'server.pub')
        as_bob = {**self.env, 'ROLL_DIR': bundle}

        def remedies():
            done = self.json('doctor', env=as_bob, check=False)
            checks = {one['check']: one for one in done['checks']}
            self.assertTrue(checks['keys']['good'], checks['keys'])
            self.assertIn('one Unix user', checks['users']['detail'])
            return checks['rolld']
        self.assertTrue(remedies()['good'])
        os.remove(os.path.join(bundle, 'endpoint'))  # like a directory in which rolld has never run
        self.assertNotIn('rollctl up', remedies()['remedy'])
        for words in (('jobs',), ('submit', '--', 'true')):
            refused = self.ctl(*words, env=as_bob, check=False)
            self.assertEqual(refused.returncode, 5)
            self.assertNotIn('rollctl up', refused.stderr)
        for program in (('rollctl', 'up'), ('rolld',)):
            refused = subprocess.run([os.path.join(BIN, program[0]), *program[1:]], env=as_bob, timeout=60,
                                     capture_output=True, text=True, check=False)
            self.assertEqual(refused.returncode, 4, refused.stderr)
            self.assertIn('would overwrite that key', refused.stderr)
        self.assertEqual(text_of(bundle, 'keys', 'server.pub'), before)
        self.assertEqual(sorted(os.listdir(os.path.join(bundle, 'keys'))),
                         ['authorized', 'client.key', 'client.pub', 'server.pub'])

    def test_a_killed_rolld_is_named_at_once_and_listens_again_where_it_did(self):
        self.ctl('up', '--slots', 1, '--endpoint', 'tcp://127.0.0.1:*')
        bundle = os.path.join(self.top, 'bob')
        self.ctl('keys', 'add', 'bob', '--out', bundle)
        as_bob = {**self.env, 'ROLL_DIR': bundle}
        stopped = self.ctl('down', env=as_bob, check=False)
        self.assertEqual(stopped.returncode, 4)
        self.assertIn('only the operator of that rolld can stop it', stopped.stderr)
        listed = self.ctl('keys', 'list', env=as_bob, check=False)
        self.assertEqual((listed.returncode, listed.stdout), (4, ''))
        self.assertIn('only the operator of that rolld can list and change its keys', listed.stderr)
        endpoint = text_of(self.state, 'endpoint')
        self.kill_rolld()
        for env in (self.env, as_bob):
            begun = time.monotonic()
            gone = self.ctl('jobs', env=env, check=False)
            self.assertEqual(gone.returncode, 5)
            self.assertIn('no rolld listens on tcp://127.0.0.1:', gone.stderr)
            self.assertLess(time.monotonic() - begun, 8, 'ten seconds are the patience for a busy rolld')
        waits = subprocess.Popen([os.path.join(BIN, 'rollctl'), 'submit', '--hold', '--', 'true'], env=as_bob,
                                 cwd=self.work, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        time.sleep(3)  # a restart may take longer than the second that a client waits for a connection
        self.ctl('up', '--slots', 1)
        said, told = waits.communicate(timeout=60)
        self.assertEqual((waits.returncode, said), (0, 'job 1 true is queued\n'), told)
        self.assertIn('rolld does not answer; waiting up to 20 s for it to restart', told)
        self.assertEqual(text_of(self.state, 'endpoint'), endpoint)
        self.ctl('jobs', env=as_bob)
        self.ctl('down')
        told = self.ctl('up', '--slots', 1).stderr
        self.assertIn(f'the previous rolld listened on {endpoint.strip()} for other users', told)
        self.assertIn('rollctl up --endpoint', told)

    def test_several_jobs_are_cancelled_with_one_printable_reason(self):
        self.up(slots=1)
        jobs = [self.submit('--hold', '--', 'true') for _ in range(3)]
        refused = self.ctl('cancel', jobs[0], '--reason', '\x1b[2J', check=False)
        self.assertEqual(refused.returncode, 2)
        self.assertIn('reason has line breaks or other control characters', refused.stderr)
        self.assertIn(f'jobs {jobs[0]}-{jobs[1]} held', self.ctl('hold', jobs[0], jobs[1]).stdout)
        self.ctl('cancel', jobs[0], f'{jobs[1]},{jobs[2]}', '--reason', 'enough')
        self.assertEqual([self.wait(job)['reason'] for job in jobs], ['enough'] * 3)
        nothing = self.ctl('cancel', 'all')
        self.assertEqual((nothing.stdout, nothing.stderr), ('', 'none of the selected jobs is queued or running\n'))
        evil = self.submit('--', 'no\x1b[2J\nprogram')
        self.ctl('wait', evil, check=False)
        for words in (('jobs', '-a'), ('show', evil), ('events', evil)):
            self.assertNotIn('\x1b', self.ctl(*words).stdout)

    def test_one_command_that_is_followed_prints_its_output(self):
        self.up()
        program = ('--', 'sh', '-c', 'echo one; echo two >&2; printf three; exit 3')
        done = self.ctl('submit', '--follow', *program, check=False)
        self.assertEqual((done.stdout, done.returncode), ('one\ntwo\nthree', 3), done.stderr)
        self.assertRegex(done.stderr, r'job 1 sh is queued\n(job 1 sh  .*\n)*job 1 sh  failed  .*exit status 3\n$')
        script = self.write('batch.sh', '#!/bin/sh\n#SBATCH --job-name=four\necho $SLURM_JOB_NAME $1\n')
        self.assertEqual(self.ctl('submit', '--follow', script, 'five').stdout, 'four five\n')
        never = self.ctl('submit', '--follow', '--after', 'failed:2', '--', 'true', check=False)
        self.assertEqual((never.stdout, never.returncode), ('', 125), never.stderr)
        parsable = self.ctl('submit', '--follow', '--parsable', *program, check=False)
        self.assertRegex(parsable.stdout, r'^\d+\n')
        self.assertNotIn('two', parsable.stdout)
        ranks = self.ctl('submit', '--follow', '--slots', 2, '--tasks-per-node', 2, '--', 'sh', '-c',
                         'echo rank $RANK')
        self.assertEqual(sorted(ranks.stdout.splitlines()), ['[0] rank 0', '[1] rank 1'])
        several = self.ctl('submit', '--follow', '--array', '1-2', *program, check=False).stdout
        self.assertRegex(several, r'^jobs \d+-\d+ sh are queued\n')
        self.assertNotIn('two', several)

    def test_a_second_rolld_leaves_the_log_of_the_first_alone(self):
        self.up()
        second = subprocess.run([os.path.join(BIN, 'rolld'), '--dir', self.state], env=self.env, timeout=60,
                                capture_output=True, text=True, check=False)
        self.assertEqual(second.returncode, 4, second.stderr)
        self.assertIn('another rolld serves', second.stderr)
        self.assertNotIn('critical', text_of(self.state, 'rolld.log'))
        self.assertEqual(self.ctl('jobs').returncode, 0)


if __name__ == '__main__':
    unittest.main()
