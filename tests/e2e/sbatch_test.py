#!/usr/bin/env python3
"""Batch scripts of Slurm on two workers of one host, srun in them, and Slurm's commands of `rollctl compat`."""
import json
import os
import pwd
import re
import shutil
import socket
import subprocess
import time
import unittest

from harness import ORACLE, RollTest, TwoWorkers, text_of, wait_until

TOP = os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..')


class Sbatch(TwoWorkers):
    SLOTS = 4

    def script(self, text, name='job.sh'):
        return self.write(name, text)

    def read(self, name):
        return text_of(self.work, name)

    def run_script(self, text, *words):
        """Runs a batch script to its end. Returns its output."""
        self.script(text)
        job = self.submit('job.sh', *words)
        self.ended = self.wait(job)
        return self.read(f'slurm-{job}.out')

    def test_the_script_of_the_submission_runs_once_in_its_directory(self):
        self.script('#!/bin/bash\n#SBATCH -N2 --hold -J "a b" -e err-%j --comment=hi\necho $0 "$@" $PWD\n'
                    'echo $SLURM_JOB_NAME $SLURM_SUBMIT_DIR $SLURM_NNODES; cat; echo e >&2\n')
        done = self.ctl('submit', '--parsable', 'job.sh', 'x', 'y z')
        job = int(done.stdout)
        self.assertIn('  --nodes=2: resources.nodes 2', done.stderr)
        self.script('#!/bin/sh\necho changed\n')
        self.ctl('release', job)
        self.wait_done(job)
        lines = self.read(f'slurm-{job}.out').splitlines()
        self.assertRegex(lines[0], rf'/script-0 x y z {re.escape(self.work)}$')
        self.assertEqual(lines[1:], [f'a b {self.work} 2'])
        self.assertEqual(self.read(f'err-{job}'), 'e\n')
        self.assertEqual(self.ctl('logs', job).stdout.splitlines()[1:], lines[1:])

    def test_an_array_shares_a_script_with_index_as_a_variable_of_the_shell(self):
        self.script('#!/bin/bash\n#SBATCH --array=3,5%1\nindex=v\n'
                    'echo ${index} $SLURM_ARRAY_TASK_ID $SLURM_ARRAY_JOB_ID $SLURM_ARRAY_TASK_COUNT\n')
        first = int(self.ctl('submit', '--parsable', 'job.sh').stdout.split()[0])
        for job, index in ((first, 3), (first + 1, 5)):
            self.wait_done(job)
            self.assertEqual(self.read(f'slurm-{first}_{index}.out'), f'v {index} {first} 2\n')

    def test_srun_starts_tasks_on_both_nodes(self):
        said = self.run_script(
            '#!/bin/bash\n#SBATCH -N2 --ntasks-per-node=2\n'
            'srun -l sh -c \'echo $SLURM_PROCID $SLURM_LOCALID $SLURM_NODEID $SLURM_NTASKS $A\' | sort\n'
            'scontrol show hostnames\n'
            'srun -N1 -n1 -w other sh -c \'echo on $ROLL_NODE_RANK $SLURMD_NODENAME; exit 3\'; echo $?\n'
            'srun -n1 sh -c \'kill -9 $$\'; echo $?\n'
            'srun -n 3 -o task-%t.txt echo; ls task-*\n'
            'srun --gres=gpu:1 true; echo $?\n'
            'srun -n4 no-such-program; echo $?\n', '--env', 'A=b')
        lines = said.splitlines()
        self.assertEqual(lines[:4], ['0: 0 0 0 4 b', '1: 1 1 0 4 b', '2: 2 0 1 4 b', '3: 3 1 1 4 b'])
        self.assertEqual(set(lines[4:6]), {'other', socket.gethostname()})
        rest = lines[6:]
        self.assertRegex(rest[0], r'^on [01] other$')
        self.assertIn('srun: error: other: task 0: Exited with exit code 3', rest)
        self.assertIn('3', rest)
        self.assertIn('137', rest)
        self.assertEqual([line for line in rest if line.startswith('task-')],
                         ['task-0.txt', 'task-1.txt', 'task-2.txt'])
        self.assertTrue(any(line.startswith('srun: --gres: the tasks of a step see all GPUs') for line in rest))
        self.assertEqual(rest[-1], '127')

    def test_the_signal_before_the_limit_reaches_the_script_or_the_tasks(self):
        text = ('#!/bin/bash\n#SBATCH -N2 --time=1 --signal={}USR1@58\n'
                'trap "echo script; exit 7" USR1\nsrun sh -c \'trap "echo task; exit 0" USR1; '
                'for i in $(seq 300); do sleep 0.1; done\' & wait; wait\n')
        self.script(text.format('B:'), 'b.sh')
        self.script(text.format(''), 't.sh')
        first, second = self.submit('b.sh'), self.submit('t.sh')
        self.assertEqual(self.wait(first)['exit_code'], 7)
        self.wait_done(second)
        self.assertEqual(self.read(f'slurm-{first}.out'), 'script\n')
        # The signal also ends the `sleep` of each task, and the task's shell may report that.
        lines = self.read(f'slurm-{second}.out').splitlines()
        self.assertEqual([line for line in lines if line != 'User defined signal 1'], ['task', 'task'])

    def test_a_cancelled_job_ends_its_tasks_on_both_nodes(self):
        self.script('#!/bin/bash\n#SBATCH -N2\nsrun sleep 1000\n')
        job = self.submit('job.sh')

        def sleeps():
            return [pid for pid in self.processes() if 'sleep 1000' in self.describe(pid)]
        wait_until(lambda: len([p for p in sleeps() if '(sleep' in self.describe(p)]) == 2, 'both tasks')
        self.ctl('cancel', job)
        self.assertEqual(self.wait(job)['state'], 'cancelled')
        wait_until(lambda: not sleeps(), 'the tasks to end')

    def test_the_commands_of_compat_have_slurms_shapes(self):
        tools = os.path.join(self.work, 'slurm')
        self.ctl('compat', tools)
        env = {**self.env, 'PATH': f'{tools}:{self.env["PATH"]}'}

        def run(*words, check=0):
            done = subprocess.run(words, cwd=self.work, env=env, capture_output=True, text=True, timeout=60,
                                  stdin=subprocess.DEVNULL)
            self.assertEqual(done.returncode, check, done.stdout + done.stderr)
            return done.stdout, done.stderr
        self.script('#!/bin/sh\n#SBATCH --array=1-2\nsleep 1000\n')
        said, _ = run('sbatch', '-J', 'arr', '--comment=hi', 'job.sh')
        self.assertEqual(said, 'Submitted batch job 1\n')
        self.assertEqual(run('sbatch', '--parsable', '-H', '-t', '5', '--wrap', 'echo a')[0], '3\n')
        self.assertEqual(run('sbatch', '-W', '-Q', '--wrap', 'exit 4', check=4)[0], '')
        wait_until(lambda: run('squeue', '-h', '-t', 'R', '-o', '%i')[0].split() == ['1_1', '1_2'], 'the array')
        shown = run('squeue')[0].splitlines()
        self.assertEqual(shown[0].split(), 'JOBID PARTITION NAME USER ST TIME NODES NODELIST(REASON)'.split())
        self.assertTrue(shown[0].startswith('             JOBID PARTITION     NAME     USER ST       TIME  NODES'))
        user = pwd.getpwuid(os.getuid()).pw_name[:8]
        self.assertEqual(shown[1].split(), ['3', 'roll', 'wrap', user, 'PD', '0:00', '1', '(JobHeldUser)'])
        self.assertEqual(shown[2].split()[:3], ['1_1', 'roll', 'arr'])
        self.assertEqual(run('squeue', '-h', '-j', '3', '-o', '%.5i|%T|%l|%r|%C|%8j|')[0],
                         '    3|PENDING|5:00|JobHeldUser|1|wrap    |\n')
        self.assertEqual(run('squeue', '-hj', '1_2', '-o', '%k %F %K')[0], 'hi 1 2\n')
        self.assertEqual(run('squeue', '--start')[0].splitlines()[1].split(),
                         ['3', 'roll', 'wrap', user, 'PD', 'N/A', '1', '(null)', '(JobHeldUser)'])
        self.assertIn('squeue: the field %z has no meaning in Roll', run('squeue', '-o', '%z', check=2)[1])
        self.assertIn("squeue: Roll's squeue has no option --iterate", run('squeue', '--iterate=1', check=2)[1])
        self.assertEqual(run('squeue', '-h', '-S', 'P,-i', '-o', '%i')[0].split(), ['3', '1_2', '1_1'])
        self.assertEqual(run('squeue', '-S', 'i', '-O', 'JobArrayID:.6 ,state:4|,NumNodes:1')[0].splitlines(), [
            ' JOBID STAT|N', '   1_1 RUNN|1', '   1_2 RUNN|1', '     3 PEND|1'])
        for words in (('-S', 'z'), ('-O', 'nosuch')):
            self.assertIn(f'squeue: the field {words[1]} has no meaning in Roll', run('squeue', *words, check=2)[1])
        shown = json.loads(run('squeue', '--json', '-S', 'i')[0])
        self.assertEqual(shown['errors'], [])
        keys = ('job_id', 'array_job_id', 'array_task_id', 'job_state', 'time_limit')
        self.assertEqual([tuple(job[key] for key in keys) for job in shown['jobs']],
                         [(1, 1, 1, 'RUNNING', None), (2, 1, 2, 'RUNNING', None), (3, 0, None, 'PENDING', 5)])
        self.assertAlmostEqual(shown['jobs'][0]['start_time'], time.time(), delta=120)
        self.assertEqual(run('squeue', '-h', '-t', 'SO,REQUEUE_HOLD')[0], '', 'states of Slurm that no job of Roll has')
        self.assertEqual(run('scancel', '1_[2-5]')[0], '')
        self.assertEqual(self.ctl('show', '1_2', '--parsable').stdout, '2\n')
        self.assertEqual(run('scancel', '99', check=1)[1], 'scancel: error: there is no job 99\n')
        run('scancel', '-n', 'arr')
        run('scancel', '-t', 'PENDING')
        wait_until(lambda: run('squeue', '-h')[0] == '', 'the queue to be empty')
        usage = run('sacct', '-n', '-P', '-j', '1_[1,9]', '-o', 'jobid,MaxRSS,TotalCPU,ReqMem,CPUTimeRAW')[0]
        self.assertRegex(usage, r'^1_1\|[1-9]\d+K\|00:0\d\.\d{3}\|0M\|\d+\n$')
        self.assertIn('scancel: PENDNG is not a state; allowed: all, PENDING', run(
            'scancel', '-t', 'PENDNG', check=2)[1])
        rows = run('sacct', '-n', '-P', '-o', 'JobID,JobName,State,ExitCode')[0].splitlines()
        self.assertEqual(rows[2:], ['3|wrap|CANCELLED|0:0', '4|wrap|FAILED|4:0'])
        self.assertEqual(run('sacct', '-j', '4')[0].splitlines(), [
            'JobID           JobName  Partition    Account  AllocCPUS      State ExitCode ',
            '------------ ---------- ---------- ---------- ---------- ---------- -------- ',
            '4                  wrap       roll                     1     FAILED      4:0 '])
        shown = run('sinfo')[0].splitlines()
        self.assertEqual(shown[0], 'PARTITION AVAIL  TIMELIMIT  NODES  STATE NODELIST')
        self.assertEqual(shown[1].split()[:5], ['roll*', 'up', 'infinite', '2', 'idle'])
        self.assertEqual(run('sinfo', '-h', '-n', 'other', '-o', '%n %c %t')[0], 'other 4 idle\n')
        self.assertIn('srun: tasks start only in a batch script', run('srun', 'true', check=1)[1])

    def test_the_examples_run(self):
        self.assertTrue(os.path.exists(ORACLE), f'missing: {ORACLE}')  # its torch runs the examples
        shutil.copytree(os.path.join(TOP, 'examples'), os.path.join(self.work, 'examples'))
        train = self.submit('--gpus', 0, 'examples/sbatch/train.sh')
        torchrun = self.submit('--gpus', 0, '--slots', 2, 'examples/sbatch/torchrun.sh')
        files = [self.write(f'{n}.txt', 'word ' * n) for n in (1, 2, 3, 4, 5)]
        array = int(self.ctl('submit', '--parsable', 'examples/sbatch/array.sh', *files).stdout.split()[0])
        for index in range(4):
            self.wait_done(array + index)
        self.assertEqual(self.read(f'count-{array}_1.out'), f'{files[0]} 1\n{files[4]} 5\n')
        self.wait_done(train)
        self.assertRegex(self.read(f'train-{train}.out'), r'job \d+ on \S+ with 2 CPUs\nstep 300: loss 0\.0\d+, saved')
        self.wait_done(torchrun)
        said = sorted(line for line in self.read(f'slurm-{torchrun}.out').splitlines() if 'sum of' in line)
        self.assertEqual(said, [f'rank {rank} of 4, local rank {rank % 2}, node {rank // 2}: sum of the ranks is 6'
                                for rank in range(4)])


class Pyxis(RollTest):
    """Options of pyxis, with a program in place of Enroot that notes its words and runs the command on the host."""

    ENROOT = '#!/bin/sh\nprintf "%s\\n" "$@" > "$ROLL_OUTPUT/words"\n' \
             'while [ "$1" = "${1%.sqsh}" ]; do shift; done\nshift\nexec "$@"\n'

    def test_a_script_runs_in_the_container_of_pyxis_options(self):
        stub = os.path.join(self.top, 'stub')
        os.makedirs(stub)
        os.chmod(self.write('../stub/enroot', self.ENROOT), 0o755)
        self.env['PATH'] = f'{stub}:{self.env["PATH"]}'
        self.up()
        self.write('job.sh', '#!/bin/bash\n#SBATCH --container-image=./no.sqsh --container-workdir=/usr -J a\n'
                   '#SBATCH --container-mounts=/data:/mnt:ro,./in:/in --array=4\n'
                   'echo $0 "$@"; echo $PWD $SLURM_JOB_ID $SLURM_ARRAY_TASK_ID $SLURM_JOB_NAME $SLURM_SUBMIT_DIR $A\n')
        done = self.ctl('slurm', 'sbatch', '--parsable', f'--container-image={self.work}/yes.sqsh',
                        '--container-env=A', 'job.sh', 'x', 'y z', env={**self.env, 'A': 'b'})
        job = int(done.stdout)
        self.wait_done(job)
        lines = text_of(self.work, f'slurm-{job}_4.out').splitlines()
        self.assertRegex(lines[0], r'/script-0 x y z$')
        self.assertEqual(lines[1:], [f'/usr {job} 4 a {self.work} b'])
        words = text_of(self.output(job), 'words').splitlines()
        self.assertEqual(words[:2], ['start', '--rw'])
        flags = ':none:x-create=auto,rbind'
        self.assertEqual({word for word in words if word.startswith('--mount=')},
                         {f'--mount=/data:/mnt{flags},ro', f'--mount={self.work}/in:/in{flags}',
                          f'--mount={self.work}:{self.work}{flags}',
                          f'--mount={self.output(job)}:{self.output(job)}{flags}'})
        self.assertTrue({'--env=A', '--env=SLURM_SUBMIT_DIR', '--env=ROLL_JOB'} <= set(words))
        image = words.index(f'{self.work}/yes.sqsh')
        self.assertEqual(words[image + 1:image + 5], ['/bin/sh', '-c', 'cd "$0" && exec "$@"', '/usr'])

    def test_srun_starts_each_task_in_a_container(self):
        stub = os.path.join(self.top, 'stub')
        os.makedirs(stub)
        os.chmod(self.write('../stub/enroot', self.ENROOT), 0o755)
        self.env['PATH'] = f'{stub}:{self.env["PATH"]}'
        self.up(slots=2)
        self.write('job.sh', '#!/bin/bash\n#SBATCH -n 2 --output=out\nexport WORD=said\n'
                   f'srun --container-image={self.work}/a.sqsh --container-workdir=/usr '
                   '--container-mounts=/data:/mnt:ro '
                   "bash -c 'echo $SLURM_PROCID $PWD $WORD; exit $((SLURM_PROCID * 5))'\necho $?\n")
        job = self.submit('job.sh')
        self.wait_done(job)
        with open(os.path.join(self.work, 'out'), encoding='utf-8') as file:
            lines = file.read().splitlines()
        self.assertEqual(sorted(line for line in lines if 'srun' not in line), ['0 /usr said', '1 /usr said', '5'])
        with open(os.path.join(self.output(job), 'words'), encoding='utf-8') as file:
            words = file.read().splitlines()
        self.assertTrue({'--env=WORD', '--env=SLURM_PROCID', '--mount=/data:/mnt:none:x-create=auto,rbind,ro'} <=
                        set(words))
        self.assertEqual([word for word in words if word.startswith(('--env=PATH', '--env=HOME'))], [],
                         'these are of the image')


if __name__ == '__main__':
    unittest.main(verbosity=2)
