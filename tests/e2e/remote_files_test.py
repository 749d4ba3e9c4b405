#!/usr/bin/env python3
"""logs and metrics through rolld, for clients that do not see the volume of the jobs; and what nobody may read so."""
import json
import os
import subprocess
import unittest

from harness import BIN, RollTest, wait_until

LINES = '\n'.join(f'2026-11-27T00:00:{second:02d}Z line {second}' for second in range(60))


class RemoteFiles(RollTest):

    def without_volume(self, *words):
        """Runs rollctl where the directory of the outputs is an empty one."""
        space = ['unshare', '--mount', *([] if os.getuid() == 0 else ['--map-root-user'])]
        hide = f'mount -t tmpfs none {self.work} && exec "$@"'
        return subprocess.run([*space, 'sh', '-c', hide, 'sh', os.path.join(BIN, 'rollctl'), *map(str, words)],
                              env=self.env, cwd=self.top, capture_output=True, text=True, check=False, timeout=60)

    def test_a_client_without_the_volume_sees_the_same(self):
        self.up()
        rows = '\\n'.join(json.dumps({'step': step, 'loss': step / 4}) for step in range(1, 4))
        self.write('lines', LINES + '\n')
        script = (f'cat {self.work}/lines; printf "caf\\303\\251 \\377\\376 bytes\\nno end"; '
                  f"printf '{rows}\\n' > $ROLL_OUTPUT/metrics.jsonl; head -c 300000 /dev/zero | tr '\\0' y >&2")
        job = self.submit('--set', f'output={self.work}/out-{{id}}', '--', 'sh', '-c', script)
        self.wait_done(job)
        for words in ((), ('--tail', 3), ('--grep', 'line 1'), ('--since', '2026-11-27T00:00:50Z'), ('--rank', 'all'),
                      ('-f',), ('--json',)):
            here = subprocess.run([os.path.join(BIN, 'rollctl'), 'logs', str(job), *map(str, words)], env=self.env,
                                  capture_output=True, check=True).stdout
            self.assertGreater(len(here), 0, words)
            there = subprocess.run([os.path.join(BIN, 'rollctl'), 'logs', str(job), '--remote', *map(str, words)],
                                   env=self.env, capture_output=True, check=True).stdout
            self.assertEqual(there, here, words)
        self.assertEqual(self.json('metrics', job, '--remote'), self.json('metrics', job))
        self.assertRegex(self.ctl('metrics', job, '--key', 'loss').stdout, r'^ +step +loss\n(       \d .*\n)+$')
        hidden = self.without_volume('logs', job, '--grep', 'line 7')
        self.assertEqual((hidden.returncode, hidden.stdout), (0, '2026-11-27T00:00:07Z line 7\n'), hidden.stderr)
        hidden = self.without_volume('metrics', job)
        self.assertRegex(hidden.stdout, r'\b3 +0\.75')
        waits = self.submit('--hold', '--', 'true')
        for words, says in ((('logs', waits, '--remote'), 'there is no log in'),
                            (('logs', job, '--remote', '--attempt', 7), 'has no attempt 7; it has had 1 attempt\n'),
                            (('logs', job, '--remote', '--rank', 5), 'there is no log /'),
                            (('metrics', waits, '--remote'), 'has written no metrics'),
                            (('metrics', job, '--key', 'nope'),
                             'the metrics do not contain nope; they contain: loss')):
            refused = self.ctl(*words, check=False)
            self.assertEqual(refused.returncode, 3, refused.stderr)
            self.assertIn(says, refused.stderr)
        self.ctl('cancel', waits)
        self.wait(waits)
        for words, what in ((('logs', waits), 'log'), (('logs', waits, '--remote'), 'log'),
                            (('metrics', waits), 'metrics')):
            refused = self.ctl(*words, check=False)
            self.assertEqual(refused.returncode, 3, refused.stderr)
            self.assertIn(f'job {waits} has no {what}, because it ended without an attempt', refused.stderr)

    def test_a_log_that_grows_is_followed_over_attempts(self):
        self.up()
        for words in (('--remote',), ('--rank', 'all')):
            mark = os.path.join(self.work, 'mark' + words[0])
            job = self.submit('--set', 'retry.app=1', '--', 'sh', '-c',
                              f'echo try; test -e {mark} && exit 0; touch {mark}; sleep 1; exit 3')
            wait_until(lambda job=job: self.show(job)['state'] == 'running', 'the job to run')
            done = self.ctl('logs', job, '-f', *words)
            self.assertEqual(done.stdout, 'try\ntry\n')
            self.assertIn('-- attempt 2; attempt 1 ended app', done.stderr)

    def test_nobody_reads_another_users_files_or_others_than_the_jobs(self):
        self.ctl('up', '--slots', 2, '--endpoint', 'tcp://127.0.0.1:*')
        bundle = os.path.join(self.top, 'bob')
        self.ctl('keys', 'add', 'bob', '--out', bundle)
        as_bob = {**self.env, 'ROLL_DIR': bundle}
        mine = self.submit('--', 'echo', 'PRIVATE')
        self.wait_done(mine)
        refused = self.ctl('logs', mine, '--remote', env=as_bob, check=False)
        self.assertEqual((refused.returncode, refused.stdout), (4, ''))
        self.assertIn(f'job {mine} belongs to ', refused.stderr)
        secret = os.path.join(self.state, 'keys', 'client.key')
        self.assertTrue(os.path.exists(secret))
        link = (f'log=$ROLL_OUTPUT/logs/attempt-1/rank-0.log; echo x; until test -e $log; do sleep 0.05; done; '
                f'ln -sf {secret} $log && ln -s {secret} $ROLL_OUTPUT/metrics.jsonl')
        his = self.ctl('submit', '--parsable', '--', 'sh', '-c', link, env=as_bob).stdout.strip()
        self.wait_done(his)
        for word in ('logs', 'metrics'):
            refused = self.ctl(word, his, '--remote', env=as_bob, check=False)
            self.assertEqual((refused.returncode, refused.stdout), (4, ''), refused.stderr)
            self.assertIn('rolld follows only links to files that the job file names', refused.stderr)
        named = self.ctl('submit', '--parsable', '--workdir', self.work, '--output', '%x-%j.log', '--name', 'n', '--',
                         'echo', 'shown', env=as_bob).stdout.strip()
        self.wait_done(named)
        self.assertEqual(self.ctl('logs', named, '--remote', env=as_bob).stdout, 'shown\n')
        self.assertTrue(os.path.exists(os.path.join(self.work, f'n-{named}.log')))


if __name__ == '__main__':
    unittest.main(verbosity=2)
