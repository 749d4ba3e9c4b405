#!/usr/bin/env python3
"""Each honoured option of sbatch, submitted to a real Slurm and to Roll in pilots: jobs see the same."""
import os
import re
import socket
import subprocess
import unittest

import slurm_cluster
from harness import json_of, text_of, wait_until
from slurm_test import SlurmTest

TABLE = os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..', 'schemas', 'foreign', 'sbatch.json')
# Variables whose values depend on the cluster or on the order in which jobs started
OTHER = {'SLURMD_NODENAME', 'SLURM_CLUSTER_NAME', 'SLURM_CONF', 'SLURM_JOB_PARTITION',
         'SLURM_MEM_PER_CPU', 'SLURM_NODE_ALIASES',
         'SLURM_PRIO_PROCESS', 'SLURM_TASK_PID', 'SLURM_TOPOLOGY_ADDR', 'SLURM_TOPOLOGY_ADDR_PATTERN',
         'SLURM_WORKING_CLUSTER', 'SLURM_GET_USER_ENV', 'SLURM_JOB_GPUS', 'SLURM_JOB_NODELIST', 'SLURM_NODELIST',
         'SLURM_JOB_USER', 'SLURM_GTIDS', 'SLURM_JOB_QOS', 'SLURM_GPUS', 'SLURM_GPUS_PER_NODE',
         'SLURM_GPUS_PER_TASK', 'SLURM_NTASKS_PER_GPU', 'SLURM_OVERCOMMIT', 'SLURM_EXPORT_ENV', 'SLURM_CPUS_PER_GPU',
         'SLURM_JOB_CPUS_PER_NODE', 'SLURM_CPUS_ON_NODE', 'SLURM_TASKS_PER_NODE', 'SLURM_GPUS_ON_NODE'}
SHOW = '''#!/bin/bash
env | grep '^SLURM' | sort
echo "words [$*] directory ${PWD##*/} input [$(cat)]"
echo "colour [$COLOUR] extra [$EXTRA] path [${PATH:+set}]"
echo "gpus $(echo $CUDA_VISIBLE_DEVICES | tr , ' ' | wc -w)"
echo "nodes $(scontrol show hostnames "$SLURM_JOB_NODELIST" | wc -l)"
echo "to stderr" >&2
'''
# Options, and the environment of sbatch. {id} in an option is the number of the first job.
CASES = {
    'array': ['--array=3-7:2%2'],
    'chdir': ['--chdir=sub'],
    'comment': ['--comment=a b'],
    'cpus-per-gpu': ['--gpus=2', '--cpus-per-gpu=2'],
    'cpus-per-task': ['-c3'],
    'error': ['--error=err-%x-%5j.txt'],
    'export': ['--export=EXTRA=1,COLOUR'],
    'export all': ['--export=ALL,EXTRA=a b'],
    'export none': ['--export=NONE'],
    'export nil': ['--export=NIL'],
    'export-file': ['--export-file=variables'],
    'gpus': ['--gpus=4'],  # on several nodes, Slurm may give them different numbers of GPUs
    'gpus-per-node': ['-N2', '--gpus-per-node=h200:3'],
    'gpus-per-task': ['-n2', '--gpus-per-task=1'],
    'gres': ['--gres=gpu:2'],
    'input': ['--input=text'],
    'deadline': ['--deadline=now+1hour', '--time=5'],
    'mem': ['--mem=200M'],
    'mem-per-cpu': ['-c2', '--mem-per-cpu=120M'],
    'mem-per-gpu': ['--gpus=2', '--mem-per-gpu=130M'],
    'priority': ['--priority=1000'],
    'switches': ['-N2', '--switches=1'],
    'job-name': ['-J', 'a b/c'],
    'mincpus': ['--mincpus=2'],
    'nice': ['--nice=5'],
    'nodes': ['-N2-3', '--use-min-nodes'],
    'ntasks': ['-n3', '-N2'],
    'ntasks-per-gpu': ['--gpus=2', '--ntasks-per-gpu=2'],
    'ntasks-per-node': ['-N2', '--ntasks-per-node=2'],
    'open-mode': ['--open-mode=append', '--output=kept'],
    'output': ['--output=%x.%u.%j.%N.out', '-J', 'named'],
    'overcommit': ['-n4', '-O'],
    'time': ['--time=0-0:5'],
    'no-requeue': ['--no-requeue'],
    'requeue': ['--requeue'],
    'signal': ['--signal=B:USR1@60', '--time=5'],
    'wait-all-nodes': ['-N2', '--wait-all-nodes=1'],
    'wrap': ['--wrap=env | grep ^SLURM; echo wrapped'],
    'variables': [],
}
# What squeue prints about the job of a case, the same in Slurm and in Roll
QUEUE = {'comment': '%k', 'nodes': '%D', 'ntasks': '%D', 'time': '%l', 'variables': '%l', 'wait-all-nodes': '%D'}
# What Roll's job file has, for options that decide when and where a job runs, and not what it sees
KEYS = {'deadline': lambda job: job['deadline'], 'mincpus': lambda job: job['resources']['slots_per_node'] == 2,
        'nice': lambda job: job['priority'] == -5, 'no-requeue': lambda job: job['retry']['infra'] == 0,
        'overcommit': lambda job: job['resources']['slots_per_node'] == 1,
        'priority': lambda job: job['priority'] == 1000, 'requeue': lambda job: job['retry']['infra'] > 0,
        'signal': lambda job: job['sbatch']['signal'] == {'number': 10, 'before': 60, 'script': True},
        'switches': lambda job: job['resources']['segment'] == 2}
# Variables of OTHER that are compared in one case: without an option, Slurm sets them from its partition's defaults.
KEPT = {'mem-per-cpu': 'SLURM_MEM_PER_CPU'}
# Options that a comparison of what jobs see does not show. They are tested below.
ELSEWHERE = {'begin', 'dependency', 'hold', 'wait', 'parsable', 'quiet', 'test-only', 'help',
             'usage', 'version', 'use-min-nodes'}
# Options of the plugin pyxis, which this Slurm does not have. sbatch_test.py tests them.
PYXIS = {f'container-{name}' for name in ('env', 'image', 'mount-home', 'mounts', 'workdir')}


SIDES = ('slurm', 'roll')
INPUTS = {'show.sh': SHOW, 'text': 'typed', 'kept': 'before\n', 'variables': 'EXTRA=file\0COLOUR=blue\0'}


IDS = ('SLURM_JOB_ID', 'SLURM_JOBID', 'SLURM_ARRAY_JOB_ID')


def compared(text, side, case, numbers):
    """Returns the lines of a job's output without what must differ: its numbers, its folder, and variables of the
    cluster."""
    lines = []
    for line in text.splitlines():
        name, _, value = line.partition('=')
        if name in IDS and value in numbers:
            line = f'{name}=ID'
        if name not in OTHER or name == KEPT.get(case):
            lines.append(line.replace(f'/work/{side}/', '/work/SIDE/'))
    return sorted(lines)


class SbatchTest(SlurmTest):
    @classmethod
    def setUpClass(cls):
        cls.cluster = slurm_cluster.Cluster(switches=True)
        cls.addClassCleanup(cls.cluster.stop)
        cls.cluster.start()

    def setUp(self):
        super().setUp()
        del self.env['SLURM_JOB_ID']
        self.env['COLOUR'] = 'red'
        self.queue('--nodes', '2', '--gpus', '4', '--slots', '8', '--max-jobs', '4', '--memory', '4GiB')
        self.tools = os.path.join(self.top, 'tools')
        self.ctl('compat', self.tools)

    def run_in(self, side, place, program, *words, check=0, **env):
        """Runs a command of Slurm or of Roll's compat in a directory. Returns what it printed."""
        path = os.path.join(self.tools, program) if side == 'roll' else program
        done = subprocess.run([path, *words], cwd=os.path.join(self.work, place), env={**self.env, **env},
                              capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL)
        self.assertEqual(done.returncode, check, f'{side}: {program} {words}: {done.stdout}{done.stderr}')
        return done.stdout.strip()

    def folder(self, side, case):
        place = os.path.join(self.work, side, case)
        os.makedirs(os.path.join(place, 'sub'))
        for name, text in INPUTS.items():
            self.write(os.path.join(place, name), text)
        return place

    def wait_all(self):
        def names(side):
            return [name for name in self.run_in(side, '.', 'squeue', '-h', '-o', '%j').splitlines()
                    if not name.startswith('roll-')]
        wait_until(lambda: not names('roll'), 'the jobs of Roll')
        wait_until(lambda: not names('slurm'), 'the jobs of Slurm')

    def outputs(self, side, case, job):
        """Returns {name: lines} of the files that a case wrote."""
        found = {}
        for where, _, names in os.walk(os.path.join(self.work, side, case)):
            for name in names:
                if '/runs' in where or (name in INPUTS and name != 'kept'):
                    continue
                text = text_of(where, name)
                number = re.search(r'SLURM_JOB_ID=(\d+)', text)
                label = re.sub(rf'(?<!\d)0*{job}(?!\d)', 'ID', name)
                # Slurm's node is the host's name on this cluster of one host, Roll's is that of the worker.
                host = re.escape(socket.gethostname().split('.')[0])
                label = re.sub(rf'(n\d+\.a\d+|{host})(?=\.out)', 'NODE', label)
                numbers = {job, number[1] if number else job}
                found[label] = compared(text, side, case, numbers)
        return found

    def test_jobs_see_the_same(self):
        honoured = {name for name, entry in json_of(TABLE)['options'].items() if 'sets' in entry}
        self.assertGreaterEqual(len(honoured - PYXIS), 40)
        self.assertEqual(honoured - set(CASES) - ELSEWHERE - PYXIS, set(), 'honoured options without a test')
        jobs = {}
        for case, words in CASES.items():
            script = [] if case == 'wrap' else ['show.sh', 'x', 'y z']
            env = {'SBATCH_TIMELIMIT': '7', 'SBATCH_JOB_NAME': 'by variable'} if case == 'variables' else {}
            for side in SIDES:
                self.folder(side, case)
                jobs[side, case] = self.run_in(side, f'{side}/{case}', 'sbatch', *words, '--parsable', *script, **env)
        self.wait_all()
        for case in CASES:
            with self.subTest(case):
                seen = {side: self.outputs(side, case, jobs[side, case]) for side in SIDES}
                self.assertTrue(seen['slurm'])
                if case == 'export-file':  # with this option, Slurm leaves out the job's name
                    for lines in seen['roll'].values():
                        lines[:] = [line for line in lines if not line.startswith('SLURM_JOB_NAME=')]
                self.assertEqual(seen['roll'], seen['slurm'])
                if case in QUEUE:
                    shown = {side: self.run_in(side, side, 'squeue', '-h', '-t', 'all', '-j', jobs[side, case], '-o',
                                               QUEUE[case]) for side in SIDES}
                    self.assertEqual(shown['roll'], shown['slurm'])
                if case in KEYS:
                    self.assertTrue(KEYS[case](self.show(jobs['roll', case])['spec']))

    def test_the_queue_shows_the_same(self):
        """Options that decide when a job runs, and those about the submission."""
        listed = {}
        for side in SIDES:
            self.folder(side, 'queue')

            def run(*words, side=side, **options):
                return self.run_in(side, f'{side}/queue', *words, **options)
            held = run('sbatch', '--parsable', '-H', '--wrap', 'true')
            later = run('sbatch', '--parsable', '--begin=now+1hour', '--wrap', 'true')
            after = run('sbatch', '--parsable', f'--dependency=afterok:{held},afterany:{later}', '-t', '1-2:3',
                        '--wrap', 'true')
            self.assertEqual(run('sbatch', '-Q', '-H', '--wrap', 'true'), '')
            self.assertRegex(run('sbatch', '-H', '--wrap', 'true'), r'^Submitted batch job \d+$')
            for job, reason in ((held, 'JobHeldUser'), (later, 'BeginTime'), (after, 'Dependency')):
                def shown(job=job, run=run):
                    return run('squeue', '-h', '-j', job, '-o', '%T %r %C %D')
                # Slurm finds the reason a moment after the submission.
                wait_until(lambda shown=shown: 'None' not in shown(), f'the reason of job {job}')
                self.assertEqual(shown(), f'PENDING {reason} 1 1', side)
            self.assertEqual(run('squeue', '-h', '-j', after, '-o', '%.12l|%4t|%8j|%M'),
                             '1-02:03:00|PD  |wrap    |0:00')
            listed[side] = run('squeue', '-h', '-j', f'{after},{later},{held}', '-S', '-i', '-O',
                               'Reason:.14,StateCompact:4|,NumNodes:3,NumCPUs:.3,Name')
            run('scancel', held, later, after)
            self.assertEqual(run('squeue', '-h', '-j', held, '-t', 'all', '-o', '%T %t'), 'CANCELLED CA')
            run('sbatch', '--wait', '--wrap', 'exit 5', check=5)
            run('sbatch', '--wait', '-Q', '--wrap', 'true')
            before = run('squeue', '-h', '-t', 'all', '-o', '%i')
            run('sbatch', '--test-only', '--wrap', 'true')
            self.assertEqual(run('squeue', '-h', '-t', 'all', '-o', '%i'), before)
            for option in ('--help', '--usage', '--version'):
                self.assertTrue(run('sbatch', option))
            run('scancel', '-n', 'wrap')

        self.assertEqual(len(listed['slurm'].splitlines()), 3)
        self.assertEqual(listed['roll'], listed['slurm'])
        said = subprocess.run(['squeue', '-t', 'nosuch'], env=self.env, capture_output=True, text=True, timeout=60,
                              check=False).stderr
        states = re.search('Valid job states include: (.*)', said)[1].replace(' ', '')
        self.run_in('roll', 'roll', 'squeue', '-h', '-t', states)

    def test_the_table_has_each_option_of_sbatch(self):
        said = self.run_in('slurm', '.', 'sbatch', '--help')
        known = json_of(TABLE)['options']
        options = re.findall(r'^ +(?:-(\w), ? ?)?--([a-z-]+)', said, re.MULTILINE)
        self.assertGreater(len(options), 80)
        for letter, name in options:
            self.assertIn(name, known)
            self.assertEqual(known[name].get('short', ''), letter, name)

    def test_srun_in_a_script_starts_tasks_in_pilots(self):
        self.folder('roll', 'srun')
        script = ('srun -l sh -c \'echo $SLURM_PROCID $SLURM_NODEID $SLURM_LOCALID $SLURM_NTASKS '
                  '$SLURM_STEP_TASKS_PER_NODE $SLURM_JOB_NUM_NODES\' | sort; srun -n1 -N1 sh -c "exit 3"; echo $?')
        seen = {}
        for side in SIDES:
            os.makedirs(os.path.join(self.work, side), exist_ok=True)
            job = self.run_in(side, side, 'sbatch', '--parsable', '--wait', '-N2', '-n4', '--ntasks-per-node=2',
                              '--output=srun.out', '--wrap', script)
            self.assertTrue(job)
            seen[side] = [line for line in text_of(self.work, side, 'srun.out').splitlines() if 'srun: ' not in line]
        self.assertEqual(seen['roll'], seen['slurm'])
        self.assertEqual(len(seen['roll']), 5)


del SlurmTest  # its tests run in slurm_test.py


if __name__ == '__main__':
    unittest.main(verbosity=2)
