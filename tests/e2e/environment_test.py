"""The environment, the scripts around a command, and the names of its logs."""
import json
import os
import pathlib
import unittest

from harness import RollTest, text_of, wait_until


class Environment(RollTest):
    def log(self, job):
        return self.ctl('logs', job).stdout

    def run_job(self, *words, env=None):
        done = self.ctl('submit', '--parsable', *words, env=env)
        self.said = done.stderr
        job = int(done.stdout.split()[0])
        self.wait(job)
        return job

    def test_the_submitters_environment_is_copied_by_rule(self):
        self.up()
        caller = dict(self.env, PATH='/opt/mine:' + self.env['PATH'], VIRTUAL_ENV='/venv', CONDA_PREFIX='/conda',
                      COLOUR='red', HF_TOKEN='hf_1', SLURM_JOB_ID='9', RANK='3')
        show = 'echo $PATH $VIRTUAL_ENV $CONDA_PREFIX [$COLOUR] [$HF_TOKEN] [$SLURM_JOB_ID] [$RANK] [$EXTRA]'
        usual = self.run_job('--', 'sh', '-c', show, env=caller)
        self.assertEqual(self.log(usual), f'{caller["PATH"]} /venv /conda [] [] [] [] []\n')
        everything = self.run_job('--export', 'all', '--env', 'EXTRA=a b', '--', 'sh', '-c', show, env=caller)
        self.assertEqual(self.log(everything), f'{caller["PATH"]} /venv /conda [red] [] [] [] [a b]\n')
        self.assertIn('not exported, because the names look like secrets: HF_TOKEN; store a secret with '
                      '`rollctl secret set NAME` and add --secret NAME', self.said)
        nothing = self.run_job('--export', 'none', '--env', 'COLOUR', '--', 'sh', '-c', show, env=caller)
        self.assertEqual(self.log(nothing), f'{self.env["PATH"]} [red] [] [] [] []\n')
        self.ctl('resubmit', usual)  # from another environment
        self.wait('last')
        self.assertEqual(self.log('last'), f'{caller["PATH"]} /venv /conda [] [] [] [] []\n')

    def test_secrets_of_the_workers_environment_reach_no_job(self):
        worker = dict(self.env, HF_TOKEN='hf_1', wandb_api_key='k', SITE='lab', TOKENIZERS_PARALLELISM='false')
        self.ctl('up', '--slots', 2, env=worker)
        job = self.run_job('--export', 'none', '--', 'sh', '-c', 'env; tr "\\0" "\\n" < /proc/$PPID/environ')
        self.assertIn('SITE=lab\n', self.log(job))
        self.assertIn('TOKENIZERS_PARALLELISM=false\n', self.log(job))
        self.assertNotRegex(self.log(job), 'HF_TOKEN|wandb_api_key')
        logs = [file.read_text() for file in pathlib.Path(self.state).rglob('*.log') if 'worker' in file.name]
        self.assertIn("jobs do not get HF_TOKEN, wandb_api_key from this worker's environment", ''.join(logs))

    def test_the_values_are_shown_to_the_owner_alone(self):
        self.ctl('up', '--slots', 2, '--endpoint', 'tcp://127.0.0.1:*')
        mine = self.submit('--', 'true')
        self.wait(mine)
        bundle = os.path.join(self.top, 'bob')
        self.ctl('keys', 'add', 'bob', '--out', bundle)
        as_bob = {**self.env, 'ROLL_DIR': bundle}
        his = self.ctl('submit', '--parsable', '--hold', '--', 'true', env=as_bob).stdout.strip()
        for job, env, value in ((mine, self.env, self.env['PATH']), (mine, as_bob, None),
                                (his, as_bob, self.env['PATH']), (his, self.env, None)):
            self.assertEqual(self.json('show', job, env=env)['job']['spec']['env']['PATH'], value)
        self.ctl('cancel', his)
        for job, env in ((mine, as_bob), (his, self.env)):
            denied = self.ctl('resubmit', job, env=env, check=False)
            self.assertEqual(denied.returncode, 4)
            self.assertIn('only this user may read the values of its environment', denied.stderr)
        self.kill_rolld()
        self.up()
        self.assertIsNone(self.show(his)['spec']['env']['PATH'], 'also after a start of rolld')
        self.assertNotIn(self.env['PATH'], self.ctl('events', his, '--json').stdout)

    def test_a_resumed_chain_keeps_the_environment_of_its_first_submission(self):
        self.ctl('up', '--slots', 2, '--endpoint', 'tcp://127.0.0.1:*')
        bundle = os.path.join(self.top, 'bob')
        self.ctl('keys', 'add', 'bob', '--out', bundle)
        as_bob = {**self.env, 'ROLL_DIR': bundle}
        self.corpus()
        job = self.train_job(then=[{'name': 'score', 'kind': 'command', 'command': ['true'], 'env': {'CODE': '7'}}])
        first = int(self.ctl('submit', '--parsable', '--hold', job, env=as_bob).stdout.split()[0])
        denied = self.ctl('resume', first, check=False)
        self.assertEqual(denied.returncode, 4)
        self.assertIn('belongs to bob, and only this user may read the values', denied.stderr)
        again = self.json('resume', first, '--after', f'any:{first}', '--dry-run',
                          env={**as_bob, 'PATH': '/other:/usr/bin:/bin'})
        self.assertEqual(again['jobs'][0]['document']['then'][0]['env'], {'CODE': '7', 'PATH': self.env['PATH']})

    def test_bad_options_are_refused_with_what_is_allowed(self):
        for words, says in (
                (['--env', 'NOT_SET'], '--env is NOT_SET; allowed: NAME=VALUE, or the NAME of a variable that is set'),
                (['--env', '=x'], '--env is "=x"; allowed: NAME=VALUE'),
                (['--container', ''], '--container is empty; give a value, or leave the option out'),
                (['--key', ''], '--key is empty'),
                (['--export', 'some'], 'export_env is "some"; allowed: default, all or none'),
                (['--workdir', 'nowhere'], f'workdir is {self.work}/nowhere, which does not exist'),
                (['--output', 'a-%z'], 'stdout is "a-%z", which has the unknown specifier %z; allowed: %% %A %a'),
                (['--error', '5%'], 'stderr is "5%", which has the unknown specifier %;'),
                (['--array', '0-3', '--output', '%x.log'],
                 'stdout is "%x.log", the same file for all jobs of the array; add %a or %j')):
            done = self.ctl('submit', *words, '--', 'true', check=False)
            self.assertEqual(done.returncode, 2, done.stdout)
            self.assertIn(says, done.stderr)

    def test_the_output_goes_to_the_named_files(self):
        self.up(slots=4)
        os.makedirs(os.path.join(self.work, 'w'))
        job = self.run_job('--workdir', 'w', '--output', '%x-%4j-%r-%u-%%.out', '--error', 'err/%r', '--name', 'a',
                           '--tasks-per-node', 2, '--', 'sh', '-c', 'echo out $RANK $PWD; echo err $RANK >&2')
        user = self.show(job)['user']
        for rank in (0, 1):
            self.assertEqual(text_of(self.work, 'w', f'a-{job:04}-{rank}-{user}-%.out'), f'out {rank} {self.work}/w\n')
            self.assertEqual(text_of(self.work, 'w', 'err', str(rank)), f'err {rank}\n')
            self.assertEqual(self.ctl('logs', job, '--rank', rank).stdout, f'out {rank} {self.work}/w\n')
        array = int(self.ctl('submit', '--parsable', '--array', '3,5', '--output', 'all-%A-%a', '--', 'sh', '-c',
                             'echo $ROLL_ARRAY_INDEX').stdout.split()[0])
        for index in (0, 1):
            self.wait_done(array + index)
            self.assertEqual(text_of(self.work, f'all-{array}-{3 + 2 * index}'), f'{3 + 2 * index}\n')

    def submit_file(self, **keys):
        self.write('job.json', json.dumps({'name': 'scripts', 'kind': 'command', **keys}))
        return self.run_job('job.json')

    def test_setup_and_cleanup_run_around_the_command(self):
        self.up()
        script = {'setup': 'export A=1\ncd /tmp', 'cleanup': 'echo clean $?'}
        job = self.submit_file(command=['sh', '-c', 'echo $A $PWD "$0"; exit 5', 'two words'], **script)
        self.assertEqual(self.log(job), '1 /tmp two words\nclean 5\n')
        self.assertEqual(self.show(job)['exit_code'], 5)
        job = self.submit_file(command=['echo', 'never'], setup='false\necho on', cleanup='echo clean')
        said = 'roll: setup ended with exit status 1, so the command did not start\n'
        self.assertEqual((self.log(job), self.show(job)['exit_code']), (said + 'clean\n', 1))
        job = self.submit_file(command=['echo', 'never'], setup='exit 7')
        self.assertEqual((self.log(job), self.show(job)['exit_code']), (said.replace('1', '7'), 7))
        self.assertEqual(self.show(job)['reason'], 'setup ended with exit status 7')
        for code in (0, 4):
            job = self.submit_file(command=['sh', '-c', f'exit {code}'], cleanup='echo clean $?\nfalse\nexit 3')
            self.assertEqual((self.log(job), self.show(job)['exit_code']), (f'clean {code}\n', code))
        job = self.submit_file(command=['sh', '-c', 'kill -9 $$'], cleanup='echo clean')
        self.assertEqual((self.log(job), self.show(job)['exit_code']), ('Killed\nclean\n', 137))
        for name in ('compiler', 'site'):
            os.makedirs(os.path.join(self.work, 'modulefiles', name))
        self.write('modulefiles/compiler/9.1', '#%Module\nsetenv CC_HOME "/opt/a b"\nprepend-path PATH /opt/cc/bin\n')
        modules = {'env': {'MODULEPATH': os.path.join(self.work, 'modulefiles'), 'PATH': '/mine:/usr/bin:/bin'},
                   'setup': 'echo $LOADEDMODULES'}
        job = self.submit_file(command=['sh', '-c', 'echo "$CC_HOME $PATH $0"', 'a b'], modules=['compiler/9.1'],
                               **modules)
        self.assertEqual(self.log(job), 'compiler/9.1\n/opt/a b /opt/cc/bin:/mine:/usr/bin:/bin a b\n')
        # A module that the user's start files load keeps its directories.
        self.write('modulefiles/site/1', '#%Module\nprepend-path PATH /opt/site/bin\n')
        self.write('.bash_profile', 'PATH=/usr/bin:/bin\nmodule load site/1\n')
        at_home = {**modules, 'env': {**modules['env'], 'HOME': self.work}}
        job = self.submit_file(command=['sh', '-c', 'echo "$PATH"'], modules=['compiler/9.1'], **at_home)
        self.assertEqual(self.log(job), 'site/1:compiler/9.1\n/opt/cc/bin:/opt/site/bin:/mine:/usr/bin:/bin\n')
        job = self.submit_file(command=['echo', 'never'], modules=['compiler/9.1', 'compiler/10'], **modules)
        self.assertEqual((self.show(job)['state'], self.show(job)['exit_code']), ('failed', 1))
        self.assertEqual(self.show(job)['reason'], 'modules or setup ended with exit status 1')
        self.assertIn('roll: modules or setup ended with exit status 1, so the command did not', self.log(job))
        self.assertRegex(self.log(job), r"^ERROR: Unable to locate a modulefile for 'compiler/10'\n")

    def test_a_cancelled_job_is_cleaned_up(self):
        self.up()
        job = self.submit(self.write('job.json', json.dumps({
            'name': 'c', 'kind': 'command', 'cleanup': 'echo clean',
            'command': ['sh', '-c', 'echo up; exec sleep 1000']})))
        wait_until(lambda: 'up' in self.ctl('logs', job, check=False).stdout, 'the command to run')
        self.ctl('cancel', job)
        self.assertEqual(self.wait(job)['state'], 'cancelled')
        self.assertEqual(self.log(job).splitlines()[-1], 'clean')


if __name__ == '__main__':
    unittest.main(verbosity=2)
