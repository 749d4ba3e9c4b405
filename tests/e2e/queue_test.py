#!/usr/bin/env python3
"""The queue with commands as jobs: durable submits, keys, cancel, exit codes. Needs no trainer."""
import json
import os
import signal
import subprocess
import time
import unittest

from harness import RollTest, BIN, is_alive, text_of, wait_until


class Queue(RollTest):

    def command(self, *argv, options=()):
        return self.submit(*options, '--', *argv)

    def test_commands_run_and_their_exit_code_is_the_jobs(self):
        self.up()
        good = self.command('sh', '-c', 'echo hello from $ROLL_JOB')
        bad = self.ctl('submit', '--wait', '--', 'sh', '-c', 'exit 7', check=False)
        self.wait_done(good)
        self.assertIn(f'hello from {good}', self.ctl('logs', good).stdout)
        self.assertEqual(bad.returncode, 7, bad.stderr)
        self.assertEqual(self.ctl('logs', 2).stdout, '', 'what said nothing has no log')
        self.assertEqual(self.json('logs', 2)['lines'], [])
        self.assertEqual(self.ctl('wait', good).returncode, 0)

    def test_a_script_is_queued_as_it_is_now_with_its_directives(self):
        self.up()
        path = self.write('say.sh', '#!/bin/sh\n#ROLL --name said --hold\necho "got $1"\nexit 5\n')
        job = self.submit(path, '--', 'a word')
        self.write('say.sh', '#!/bin/sh\nexit 0\n')
        self.ctl('release', job)
        self.assertEqual(self.ctl('wait', job, check=False).returncode, 5)
        self.assertIn('got a word', self.ctl('logs', job).stdout)
        self.assertEqual(self.json('show', job)['job']['name'], 'said')

    def test_another_user_gets_a_key_and_loses_it(self):
        self.ctl('up', '--slots', 2, '--endpoint', 'tcp://127.0.0.1:*')
        mine = self.submit('--hold', '--', 'true')
        bundle = os.path.join(self.top, 'bob')
        self.ctl('keys', 'add', 'bob', '--out', bundle)
        as_bob = {**self.env, 'ROLL_DIR': bundle}
        his = self.ctl('submit', '--parsable', '--hold', '--', 'true', env=as_bob).stdout.strip()
        self.assertEqual(self.json('show', his)['job']['user'], 'bob')
        refused = self.ctl('cancel', mine, env=as_bob, check=False)
        self.assertEqual(refused.returncode, 4, refused.stderr)
        self.assertEqual(self.ctl('jobs', '@me', '--parsable', env=as_bob).stdout.split(), [his])
        self.assertIn('0 running and 1 queued job of bob', self.ctl('usage', env=as_bob).stdout)
        self.assertEqual(self.ctl('cancel', 'all', env=as_bob).stdout, f'job {his} cancelled\n')
        self.assertIn(f'already finished: {his}', self.ctl('update', his, 'priority=3', env=as_bob).stderr)
        self.assertEqual(self.ctl('update', f'{mine}-{his}', 'priority=3').stderr, '')  # of a range, only open jobs
        as_bob['ROLL_DIR'] = newer = bundle + '2'
        self.assertIn('the earlier key of client-bob is revoked', self.ctl('keys', 'add', 'bob', '--out', newer).stderr)
        self.assertEqual(self.ctl('jobs', env=as_bob).returncode, 0)
        self.ctl('keys', 'revoke', 'client-bob')
        self.assertEqual(self.ctl('jobs', env=as_bob, check=False).returncode, 5)

    def test_a_backup_taken_while_jobs_run_comes_back(self):
        self.up()
        first = self.submit('--hold', '--', 'true')
        copy = os.path.join(self.top, 'copy')
        self.rolld('--backup', copy)
        served = self.rolld('--check', check=False)
        self.assertEqual((served.returncode, served.stdout), (4, ''), 'standard output is data')
        self.assertEqual(served.stderr.count('another rolld serves'), 1, served.stderr)
        second = self.submit('--hold', '--', 'true')
        self.ctl('down')
        self.rolld('--restore', copy)
        self.rolld('--check')
        self.up()
        self.assertEqual([job['id'] for job in self.json('jobs')['jobs']], [first])
        self.assertNotEqual(self.ctl('show', second, check=False).returncode, 0)
        self.assertEqual(self.submit('--hold', '--', 'true'), second + 1, 'its directory is its own')

    def rolld(self, *args, check=True):
        return subprocess.run([os.path.join(BIN, 'rolld'), '--dir', self.state, *args], check=check,
                              env=self.env, capture_output=True, text=True)

    def test_two_jobs_share_a_gpu_at_the_same_time(self):
        self.ctl('up', '--slots', 2, '--gpus', 1)
        out = self.write('out', '')
        met = (f'touch {self.work}/$ROLL_ARRAY_INDEX; '
               f'until test -e {self.work}/$((1 - ROLL_ARRAY_INDEX)); do sleep 0.05; done')
        ids = self.ctl('submit', '--parsable', '--array', '0-1', '--gpus', '0.5', '--', 'sh', '-c',
                       f'{met}; echo $CUDA_VISIBLE_DEVICES $ROLL_GPU_FRACTION >> {out}').stdout.split()
        for job in ids:
            self.wait_done(int(job))
        self.assertEqual(text_of(out), '0 0.50\n' * 2)
        self.assertEqual(self.show(int(ids[0]))['resources']['gpus_per_node'], 0.5)

    def test_a_machine_whose_own_check_fails_is_left_out(self):
        self.up()
        ours = self.pid_file('worker')
        log = open(os.path.join(self.top, 'bad.log'), 'wb')
        bad = subprocess.Popen([os.path.join(BIN, 'roll-worker'), '--dir', self.state, '--node', 'bad',
                                '--slots', '4', '--check', 'false'], env=self.env, stdout=log, stderr=log)
        self.addCleanup(lambda: (bad.kill(), bad.wait(), log.close()))  # for a failure before the end of the test
        wait_until(lambda: any(node['node'] == 'bad' for node in self.json('nodes')['nodes']), 'the worker')
        job = self.submit('--slots', '4', '--', 'true')
        wait_until(lambda: self.show(job)['attempts'] and self.show(job)['state'] == 'queued', 'its first attempt')
        self.assertEqual(self.show(job)['attempts'][0]['exit_code'], 78)
        def no_room():
            return [hold for hold in self.json('explain', job)['holds'] if hold['rule'] == 'room']
        hold = wait_until(no_room, 'its back-off to end')[0]
        self.assertEqual(hold['remedy'], 'rollctl undrain bad')
        self.assertIn('its check failed', [one['why'] for one in hold['nodes'] if one['node'] == 'bad'][0])
        self.ctl('cancel', job)
        bad.terminate()
        bad.wait()
        self.assertEqual(self.pid_file('worker'), ours, '`rollctl down` ends the first one')

    def test_an_array_runs_with_its_limit_and_its_failed_tasks_are_queued_again(self):
        self.up()
        out = self.write('out', '')
        ids = self.ctl('submit', '--parsable', '--array', '0-3%2', '--set', 'retry.app=0', '--',
                       'sh', '-c', f'echo $ROLL_ARRAY_INDEX >> {out}; test $ROLL_ARRAY_INDEX != 2'
                       ).stdout.split()
        self.assertEqual(len(ids), 4)
        states = [self.wait(int(job))['state'] for job in ids]
        self.assertEqual(states, ['done', 'done', 'failed', 'done'])
        self.assertEqual(sorted(text_of(out).split()), ['0', '1', '2', '3'])
        again = self.ctl('resubmit', '--failed', 'all', '--parsable').stdout.split()
        self.assertEqual(len(again), 1)
        self.assertEqual(self.wait(int(again[0]))['state'], 'failed')
        self.assertEqual(text_of(out).split().count('2'), 2)

    def test_rolld_yaml_holds_and_a_sighup_reads_it_again(self):
        os.makedirs(self.state, mode=0o700)
        config = os.path.join(self.state, 'rolld.yaml')

        def limit(jobs):
            self.write(config, f'users: {{"*": {{jobs: {jobs}}}}}\n')
        limit(1)
        self.up()
        self.submit('--hold', '--', 'true')
        refused = self.ctl('submit', '--hold', '--', 'true', check=False)
        self.assertEqual(refused.returncode, 4, refused.stderr)
        self.assertIn('users.*.jobs', refused.stderr)
        limit(2)
        pid = int(text_of(self.state, 'rolld.pid'))
        os.kill(pid, signal.SIGHUP)
        wait_until(lambda: self.ctl('submit', '--hold', '--', 'true', check=False).returncode == 0,
                   'the new limit to hold')
        self.assertEqual(self.ctl('submit', '--hold', '--', 'true', check=False).returncode, 4)

    def test_jobs_come_from_stdin_a_line_each_and_a_directory_is_refused(self):
        self.up()
        lines = ''.join(f'{{"name": "n{n}", "kind": "command", "command": ["true"]}}\n'
                        for n in range(3))
        done = subprocess.run([os.path.join(BIN, 'rollctl'), 'submit', '--parsable', '-'],
                              input=lines, env=self.env, cwd=self.work, capture_output=True,
                              text=True, check=True)
        self.assertEqual(len(done.stdout.split()), 3)
        refused = self.ctl('submit', self.work, check=False)
        self.assertEqual(refused.returncode, 2)
        self.assertIn('is a directory', refused.stderr)

    def test_many_files_keep_their_order_and_a_refused_one_stops_no_other(self):
        self.up()
        files = [self.write(f'{n}.yaml', json.dumps({
            'name': f'file-{n}', 'kind': 'command', 'command': ['true'], 'hold': True,
            **({'account': 'nobodys'} if n == 70 else {})})) for n in range(150)]
        done = self.ctl('submit', '--parsable', *files, check=False)
        self.assertEqual(done.returncode, 3, done.stderr)
        self.assertIn('there is no account nobodys', done.stderr)
        numbers = [int(line) for line in done.stdout.split()]
        self.assertEqual(numbers, sorted(numbers))
        names = {job['id']: job['name'] for job in self.json('jobs')['jobs']}
        self.assertEqual([names[number] for number in numbers], [f'file-{n}' for n in range(150) if n != 70])

    def refused_among(self, *options):
        """Submits three files with --json, of which the second names no account. Returns the value and exit code."""
        files = [self.write(f'{n}.yaml', json.dumps({
            'name': f'file-{n}', 'kind': 'command', 'command': ['sh', '-c', f'exit {n}'], 'retry': {'app': 0},
            **({'account': 'nobodys'} if n == 1 else {})})) for n in range(3)]
        done = self.ctl('submit', '--json', *options, *files, check=False)
        return done, [json.loads(line) for line in done.stdout.splitlines()] if '--follow' in options else [
            json.loads(done.stdout)]

    def test_what_is_queued_is_told_beside_what_is_refused(self):
        self.up()
        done, (value,) = self.refused_among()
        self.assertEqual(done.returncode, 3)
        self.assertEqual(value['error']['code'], 'not_found')
        self.assertEqual([one['name'] for one in value['submitted']], ['file-0', 'file-2'])
        self.assertEqual(value['schema'], 'roll.submits/1')
        done, (value,) = self.refused_among('--wait')
        self.assertEqual(done.returncode, 125, 'not the 2 of the last one')
        self.assertEqual([one['exit_code'] for one in value['jobs']], [0, 2], 'those are waited for')
        self.assertEqual(len(value['submitted']), 2)
        done, lines = self.refused_among('--follow')
        self.assertEqual(done.returncode, 125)
        self.assertEqual(lines[-1]['error']['code'], 'not_found')
        self.assertEqual(len(lines[-1]['submitted']), 2)
        job = lines[-1]['submitted'][0]['id']
        alone = self.ctl('submit', '--wait', '--after', 'ok:99999', '--', 'true', check=False)
        self.assertEqual((alone.returncode, alone.stdout), (125, ''), alone.stderr)
        self.assertEqual(self.ctl('resubmit', job, '--set', 'output=again', '--wait').returncode, 0)
        self.assertTrue(os.path.isdir(os.path.join(self.work, 'again')), 'relative to the working directory')
        self.assertEqual(self.ctl('resume', job, '--follow', check=False).returncode, 125, 'no train job')

    def test_a_wait_that_follows_shows_progress_and_ends_as_the_job(self):
        self.up()
        gate = os.path.join(self.work, 'gate')
        job = self.command('sh', '-c', f'until test -e {gate}; do sleep 0.05; done; exit 9')
        wait_until(lambda: self.show(job)['state'] == 'running', 'the job to run')
        def follow():
            process = subprocess.Popen([os.path.join(BIN, 'rollctl'), 'wait', '--follow', str(job)], cwd=self.work,
                                       env=self.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            self.assertIn('running', process.stdout.readline())
            return process
        left = follow()
        left.send_signal(signal.SIGINT)
        _, err = left.communicate(timeout=60)
        self.assertEqual(left.returncode, -signal.SIGINT)
        self.assertIn(f'job {job} continues; only this command ends\n  next: rollctl logs -f {job}, rollctl wait '
                      f'{job}, or rollctl cancel {job}\n', err)
        late = follow()
        open(gate, 'w', encoding='ascii').close()
        out, err = late.communicate(timeout=60)
        self.assertEqual(late.returncode, 9, err)
        self.assertRegex(out, rf'failed .*\n +logs +rollctl logs {job}\n$')

    def test_each_line_of_a_stream_says_what_it_is(self):
        self.up()
        followed = self.ctl('submit', '--json', '--follow', '--', 'sh', '-c',
                            'echo word; echo \'{"step": 1, "loss": 2.5}\' >$ROLL_OUTPUT/metrics.jsonl')
        job = json.loads(followed.stdout.splitlines()[-1])['id']
        golden = {
            'job_line': ({'id', 'name', 'state', 'reason', 'exit_code'}, followed.stdout),
            'event_line': ({'seq', 'at', 'kind', 'job', 'text', 'data'},
                           self.ctl('events', job, '-f', '--json').stdout),
            'log_line': ({'file', 'line'}, self.ctl('logs', job, '-f', '--json').stdout),
            'metrics_line': ({'step', 'loss'}, self.ctl('metrics', job, '-f', '--json').stdout)}
        for name, (keys, text) in golden.items():
            lines = [json.loads(line) for line in text.splitlines()]
            self.assertTrue(lines, name)
            for line in lines:
                self.assertEqual(line['schema'], f'roll.{name}/1')
                self.assertLessEqual(keys, set(line), name)
            if name != 'job_line':
                self.assertEqual(keys | {'schema'}, set(lines[-1]), name)

    def test_all_events_come_a_line_each(self):
        self.up()
        files = [self.write(f'{n}.yaml', '{name: x, kind: command, command: ["true"], hold: true}')
                 for n in range(1, 601)]
        self.ctl('submit', *files)
        self.ctl('cancel', 'all')  # gives more events than a page
        lines = [json.loads(line) for line in self.ctl('events', '--jsonl').stdout.splitlines()]
        for line in lines:
            self.assertEqual(line.pop('schema'), 'roll.event_line/1')
        self.assertGreater(len(lines), 1200)
        self.assertEqual(lines, self.events()[:len(lines)])
        self.assertEqual(len(self.ctl('events', 600, '--jsonl').stdout.splitlines()), len(self.events(600)))

    def test_what_was_drained_starts_nothing_and_says_why_after_a_restart_too(self):
        self.up()
        self.ctl('drain', '--all', '-m', 'power off at 18:00')
        self.kill_rolld()
        self.up()
        job = self.command('true')
        self.assertEqual(self.show(job)['waiting'], 'no job is started: power off at 18:00')
        self.assertEqual(self.json('nodes')['stopped'], 'power off at 18:00')
        for wrong in (('drain',), ('drain', 'n1', '--all'), ('drain', 'n1', '-m', 'x')):
            self.assertEqual(self.ctl(*wrong, check=False).returncode, 2, wrong)
        self.ctl('undrain', '--all')
        self.wait_done(job)

    def test_a_cancelled_job_is_gone_with_what_it_started(self):
        self.up()
        job = self.command('sh', '-c', 'setsid sleep 600 & sleep 600')
        wait_until(lambda: len(self.pids_of('sleep')) == 2, 'both sleeps to run')
        self.ctl('cancel', job)
        self.assertEqual(self.wait(job)['state'], 'cancelled')
        wait_until(lambda: not self.pids_of('sleep'), 'the cancelled job\'s processes to be gone')

    def test_a_command_goes_on_while_rolld_is_dead_and_is_adopted(self):
        self.up()
        gate = os.path.join(self.work, 'gate')
        job = self.command('sh', '-c', f'while [ ! -e {gate} ]; do sleep 0.1; done; echo through')
        wait_until(lambda: self.show(job)['state'] == 'running', 'the job to run')
        shells = lambda: set(self.pids_of('sh') + self.pids_of('dash'))
        pids = wait_until(shells, 'its shell')
        time.sleep(0.5)
        pids &= shells()  # without the shell's children that have not yet become a sleep
        self.assertTrue(pids)
        self.kill_rolld()
        self.up()
        wait_until(lambda: self.show(job)['state'] == 'running', 'the job to be adopted')
        self.assertTrue(all(is_alive(pid) for pid in pids))
        open(gate, 'w', encoding='ascii').close()
        self.assertEqual(self.wait_done(job)['attempt'], 1)

    def test_an_open_job_takes_jobs_until_it_is_closed_and_ends_with_the_last(self):
        self.up()
        group = self.ctl('open', 'sweep', '--parsable').stdout.strip()
        into = ('submit', '--into', group, '--parsable', '--')
        after = self.command('true', options=('--after', f'ok:{group}'))
        self.wait_done(int(self.ctl(*into, 'true').stdout))
        self.kill_rolld()
        self.up()
        second = int(self.ctl(*into, 'true').stdout)
        self.assertEqual(self.show(group)['kind'], 'open')
        self.assertEqual(self.show(second)['into'], int(group))
        self.assertIn('rollctl close', self.ctl('explain', group).stdout)
        self.assertEqual(self.show(self.submit('--into', 'last', '--', 'true'))['into'], int(group))
        self.ctl('close', group)
        late = self.ctl(*into, 'true', check=False)
        self.assertEqual((late.returncode, late.stdout), (4, ''))
        self.assertIn('is closed', late.stderr)
        self.ctl('wait', group, str(after))

    @unittest.skipUnless(os.geteuid() == 0, 'mounting a small disk needs root')
    def test_a_full_ledger_volume_refuses_submits_and_spares_running_jobs(self):
        os.makedirs(self.state, mode=0o700)
        done = subprocess.run(['mount', '-t', 'tmpfs', '-o', 'size=4m,mode=700', 'tmpfs',
                               self.state], capture_output=True, text=True)
        if done.returncode != 0:
            self.skipTest('this machine lets nobody mount a tmpfs: ' + done.stderr.strip())
        self.addCleanup(subprocess.run, ['umount', '--lazy', self.state])
        self.up()
        gate, filler = os.path.join(self.work, 'gate'), os.path.join(self.state, 'filler')
        job = self.command('sh', '-c', f'while [ ! -e {gate} ]; do sleep 0.1; done')
        wait_until(lambda: self.show(job)['state'] == 'running', 'the job to run')
        with open(filler, 'wb', buffering=0) as file:
            try:
                while True:
                    file.write(b'\0' * 4096)
            except OSError:
                pass

        def refused():
            answer = self.ctl('submit', '--', 'true', check=False)
            return answer if answer.returncode == 4 else None
        answer = wait_until(refused, 'a submit to be refused for the full disk')
        self.assertRegex(answer.stderr, r'(?i)(full|no space)')
        self.assertEqual(self.show(job)['state'], 'running')
        os.unlink(filler)
        later = wait_until(
            lambda: self.ctl('submit', '--parsable', '--', 'true', check=False).stdout,
            'submits to be taken again once there is space')
        open(gate, 'w', encoding='ascii').close()
        self.wait_done(job)
        self.wait_done(int(later))


if __name__ == '__main__':
    assert os.path.exists(os.path.join(BIN, 'rollctl')), f'no programs in {BIN}'
    unittest.main()
