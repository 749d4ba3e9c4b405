#!/usr/bin/env python3
"""The limits of a user's requests. A request works, or submit refuses it with one sentence that has the value and the
limit."""
import json
import os
import socket
import subprocess
import time
import unittest

from harness import BIN, RollTest, wait_until


class Limits(RollTest):

    def refused(self, pattern, *args, **options):
        done = self.ctl('submit', *args, check=False, **options)
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertRegex(done.stderr, pattern)
        self.assertLess(len(done.stderr), 2000)
        return done

    def test_start_orders_of_a_turn_reach_their_worker_whatever_their_size(self):
        self.up(slots=16)
        script = self.write('big.sh', '#!/bin/sh\n#' + 'x' * 1_300_000 + '\nexit 0\n')
        jobs = self.ctl('submit', '--parsable', '--array', '0-15', script).stdout.split()
        for job in jobs:
            self.wait_done(job, patience_s=60)
        self.wait_done(self.submit('--', 'true'))

    def test_options_that_cannot_be_met_are_refused(self):
        self.up()
        self.refused('--gpus is nan; allowed', '--gpus', 'nan', '--', 'true')
        self.refused('array is "0-20000"; allowed: at most 10000 indices', '--array', '0-20000', '--', 'true')
        self.refused('--key has 120000 bytes; allowed: at most 240', '--key', 'k' * 120_000, '--', 'true')
        hour, two = (time.strftime('%Y-%m-%dT%H:%M:%SZ', time.gmtime(time.time() + 3600 * hours)) for hours in (1, 2))
        early = 'cannot end before its deadline .*Z: it starts at .*Z or later'
        self.refused(early + '\n', '--deadline', '2020-01-01', '--', 'true')
        self.refused(early + ', and its time limit is 7200 s', '--deadline', hour, '--time', '2h', '--array', '0-1',
                     '--', 'true')
        self.refused(early, '--deadline', two, '--time', '1h 30m', '--begin', hour, '--', 'true')
        self.assertEqual(self.json('jobs', '-a')['jobs'], [])

    def test_a_long_value_is_not_echoed_whole(self):
        self.up()
        done = self.ctl('show', '9' * 90_000, check=False)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn('(90000 bytes)', done.stderr)
        self.assertLess(len(done.stderr), 500)

    def test_a_deleted_working_directory_is_named(self):
        self.up()
        gone = os.path.join(self.top, 'gone')
        os.mkdir(gone)
        done = subprocess.run(['sh', '-c', 'cd "$0" && rmdir "$0" && exec rollctl submit -- true', gone], check=False,
                              env=self.env, capture_output=True, text=True)
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn('the working directory cannot be read: No such file or directory', done.stderr)

    def test_a_job_waits_for_one_that_is_selected(self):
        self.up()
        array = self.submit('--hold', '--name', 'parts', '--array', '1-3', '--', 'true')
        after = self.submit('--name', 'sum', '--after', 'ok:last', '--', 'true')
        named = self.submit('--after', 'any:sum', '--', 'true')
        self.assertEqual([self.show(job)['after'] for job in (after, named)], [[f'ok:{array}'], [f'any:{after}']])
        for words, status, says in ((('--after', 'ok:nobody'), 3, 'no job is named nobody'),
                                    (('--after', 'ok:parts'), 2, 'parts matches 3 jobs'),
                                    (('--after', 'done:last'), 2, 'allowed: ok:ID'),
                                    (('--into', 'last'), 2, f'job {named} is not a job group and does not belong')):
            refused = self.ctl('submit', *words, '--', 'true', check=False)
            self.assertEqual((refused.returncode, refused.stdout), (status, ''))
            self.assertIn(says, refused.stderr)

    def test_output_to_a_full_device_is_an_error(self):
        self.up()
        for words in (['submit', '--parsable', '--hold', '--', 'true'], ['jobs'], ['version'], ['--help']):
            with open('/dev/full', 'w', encoding='ascii') as full:
                done = subprocess.run([os.path.join(BIN, 'rollctl'), *words], env=self.env, stdout=full, text=True,
                                      stderr=subprocess.PIPE, check=False)
            self.assertEqual(done.returncode, 1, words)
            self.assertIn('cannot write to standard output', done.stderr)

    def test_a_closed_stream_is_not_taken_for_another_file(self):
        self.up()
        self.ctl('submit', '--hold', '--', 'true')
        for words, closed, status, says in (('rollctl jobs', '>&-', 1, 'cannot write to standard output: Bad file'),
                                            ('rollctl families', '>&-', 1, 'cannot write to standard output: Bad file'),
                                            ('rollctl families', '>/dev/full', 1, 'cannot write to standard output'),
                                            ('rollctl submit --hold -- true', '2>&-', 0, ''),
                                            ('rollctl show 9', '<&- >&- 2>&-', 3, '')):
            done = subprocess.run(['sh', '-c', f'{BIN}/{words} {closed}'], env=self.env, text=True, timeout=60,
                                  capture_output=True, check=False)
            self.assertEqual(done.returncode, status, (words, closed, done.stderr))
            self.assertIn(says, done.stderr)
        self.assertEqual(len(json.loads(self.ctl('jobs', '--json').stdout)['jobs']), 2)

    def test_a_state_directory_that_cannot_be_entered_is_not_one_without_rolld(self):
        self.up()
        plain = ['setpriv', '--bounding-set=-all'] if os.geteuid() == 0 else []  # root without its special rights
        os.chmod(self.state, 0)
        try:
            done = subprocess.run([*plain, os.path.join(BIN, 'rollctl'), 'down'], env=self.env, text=True,
                                  capture_output=True, timeout=60, check=False)
        finally:
            os.chmod(self.state, 0o700)
        self.assertEqual((done.returncode, done.stdout), (4, ''))
        self.assertIn('belongs to another user; only that user can stop its rolld', done.stderr)

    def test_a_change_rides_out_a_restart_of_rolld_here_and_on_another_machine(self):
        with socket.create_server(('127.0.0.1', 0)) as free:
            up = ('up', '--slots', 2, '--endpoint', f'tcp://127.0.0.1:{free.getsockname()[1]}')
        self.ctl(*up)
        bundle = os.path.join(self.top, 'bob')
        self.ctl('keys', 'add', 'bob', '--out', bundle)
        changes = []
        for env in (self.env, {**self.env, 'ROLL_DIR': bundle}):
            job = self.ctl('submit', '--parsable', '--hold', '--', 'true', env=env).stdout.strip()
            changes.append((env, job))
        self.kill_rolld()
        waiting = [subprocess.Popen([os.path.join(BIN, 'rollctl'), 'cancel', job], env=env, text=True,
                                    stdout=subprocess.PIPE, stderr=subprocess.PIPE) for env, job in changes]
        told = [change.stderr.readline() for change in waiting]
        self.ctl(*up)
        for change, waits, (_, job) in zip(waiting, told, changes):
            with change:
                _, rest = change.communicate()
            self.assertIn('waiting up to 20 s', waits)
            self.assertEqual(change.returncode, 0, waits + rest)
            self.assertEqual(self.show(job)['state'], 'cancelled')

    def test_the_jobs_of_many_pages_are_one_value(self):
        self.up()
        self.ctl('submit', '--parsable', '--array', '0-4199', '--hold', '--', 'true')
        whole = self.ctl('jobs', '--json').stdout
        reply = json.loads(whole)
        self.assertEqual([job['id'] for job in reply['jobs']], list(range(1, 4201)))
        self.assertEqual((reply['schema'], reply['queued'], reply['running']), ('roll.jobs/1', 4200, 0))
        self.assertEqual(whole, json.dumps(reply, indent=2, sort_keys=True, ensure_ascii=False) + '\n')
        self.assertEqual(len(self.ctl('jobs', '-r').stdout.splitlines()), 4201)
        self.assertIn('1[0-4199]', self.ctl('jobs').stdout.splitlines()[1])
        self.assertIn('4200', self.ctl('cancel', 'all').stdout)
        self.assertEqual(self.json('jobs')['jobs'], [])

    def test_the_first_rows_of_a_long_list_do_not_wait_for_the_others(self):
        self.up()
        self.ctl('submit', '--parsable', '--array', '0-2099', '--hold', '--', 'true')
        self.ctl('submit', '--name', 'n' * 60, '--hold', '--', 'true')
        lines = self.ctl('jobs', '-r').stdout.splitlines()
        self.assertEqual(len(lines), 2102)
        self.assertLess(lines[0].index('KIND'), 40)  # the last name is no part of the first page's table
        self.assertGreater(lines[-1].index('command'), 60)

    def test_the_logs_of_many_jobs_are_printed_and_followed(self):
        self.up()
        self.ctl('submit', '--array', '1-2', '--', 'sh', '-c',
                 'echo "2026-11-22T08:00:0${ROLL_ARRAY_INDEX}Z begins"; sleep 1; seq -f "line %g" 3')
        self.ctl('submit', '--hold', '--', 'true')
        lines = self.ctl('logs', '1-2', '-f', '--grep', 'begins|3').stdout.splitlines()
        self.assertEqual(sorted(lines), ['[1] 2026-11-22T08:00:01Z begins', '[1] line 3',
                                         '[2] 2026-11-22T08:00:02Z begins', '[2] line 3'])
        done = self.ctl('logs', '1-3', '--tail', '1')
        self.assertEqual(done.stdout, '[1] line 3\n[2] line 3\n')
        self.assertIn('no log for 1 of the 3 jobs', done.stderr)
        self.assertEqual(self.ctl('logs', '1', '--since', '2026-11-22T08:00:02Z').stdout, '')
        self.assertEqual(self.ctl('logs', '1', '--tail', '9', '--since', '2026-11-22').stdout,
                         '2026-11-22T08:00:01Z begins\nline 1\nline 2\nline 3\n')
        logs = self.json('logs', '1-2', '--tail', '1')
        self.assertEqual([(log['job'], log['lines']) for log in logs['logs']],
                         [(1, ['line 3']), (2, ['line 3'])])

    def test_usage_and_report_say_who_holds_and_who_waits(self):
        os.makedirs(self.state, mode=0o700)
        with open(os.path.join(self.state, 'rolld.yaml'), 'w', encoding='ascii') as file:
            file.write('accounts: {lab: {users: []}}\n')
        self.up()
        self.ctl('submit', '--slots', '2', '--time', '10m', '--account', 'lab', '--', 'sleep', '600')
        self.assertEqual(self.ctl('slurm', 'sacct', '-nPo', 'account').stdout, 'lab\n')
        self.ctl('submit', '--slots', '2', '--array', '1-9', '--name', 'waits', '--', 'true')
        wait_until(lambda: self.json('usage')['running'] == 1, 'the first job to run')
        usage = self.json('usage')
        self.assertEqual(usage['schema'], 'roll.usage/1')
        first = usage['waiting'][0]
        self.assertEqual((first['id'], first['position'], first['tasks']), (2, 1, 9))
        self.assertIsNotNone(first['starts_at'])
        self.assertIn('1 running and 9 queued', self.ctl('usage').stdout)
        unknown = self.ctl('usage', '--user', 'nobody-here', check=False)
        self.assertEqual((unknown.returncode, unknown.stdout), (3, ''))
        self.assertIn('there is no user nobody-here: no job and no key belongs to this user', unknown.stderr)
        self.ctl('cancel', '1')
        self.wait(10)
        report = self.json('report', '--since', '1h')
        self.assertEqual((report['schema'], report['total']['jobs']), ('roll.report/1', 10))
        wasted = report['rows'][0]['wasted']
        self.assertGreater(wasted['cancelled']['slot_hours'], 0)
        self.assertEqual(wasted['failed']['slot_hours'], 0)
        self.assertEqual(len(self.ctl('report', '--csv').stdout.splitlines()), 2)
        self.assertRegex(self.ctl('report', '--by', 'user,kind', '--csv').stdout,
                         r'^user,kind,jobs,.*\n[^,]+,command,10,')
        self.assertEqual(self.json('report', '--until', '1h')['rows'], [])
        backwards = self.ctl('report', '--since', '1h', '--until', '2h', check=False)
        self.assertEqual(backwards.returncode, 2)
        self.assertIn('--until 2h is not after --since 1h', backwards.stderr)

    def test_a_running_job_is_queued_again_under_its_number(self):
        self.up(slots=1)
        job = self.submit('--', 'sleep', '60')
        waits = self.submit('--', 'true')
        wait_until(lambda: self.show(job)['state'] == 'running', 'the job to run')
        refused = self.ctl('requeue', waits, check=False)
        self.assertEqual(refused.returncode, 4)
        self.assertIn('none of the selected jobs runs', refused.stderr)
        self.ctl('hold', job)
        self.assertEqual(self.ctl('requeue', f'{job}-{waits}').stdout, f'job {job} queued again\n')
        self.wait_done(waits)
        shown = self.show(job)
        self.assertEqual((shown['state'], shown['attempt']), ('queued', 1))
        self.assertIn('queued again by ', shown['attempts'][0]['reason'])
        self.ctl('release', job)
        wait_until(lambda: self.show(job)['attempt'] == 2 and self.show(job)['state'] == 'running', 'the next attempt')
        self.ctl('cancel', job)
        once = self.submit('--set', 'retry.preempted=0', '--', 'sleep', '60')
        wait_until(lambda: self.show(once)['state'] == 'running', 'the job to run')
        refused = self.ctl('requeue', once, check=False)
        self.assertEqual(refused.returncode, 4)
        self.assertIn(f'job {once} may not be queued again: retry.preempted is 0', refused.stderr)


if __name__ == '__main__':
    unittest.main()
