"""Commands in containers of Podman, with an image that is made here from a root tree, without a registry."""
import ctypes
import json
import os
import re
import shutil
import signal
import subprocess
import unittest

from harness import RollTest, required, text_of, wait_until
from killed_agents import children_of

CLONE_NEWNS = 0x20000
HYBRID = '/sys/fs/cgroup/unified'
APPLETS = ('sh', 'sleep', 'cat', 'id', 'env', 'pwd', 'touch', 'true')


def hide_hybrid_cgroups():
    """crun refuses hosts that have both kinds of cgroups; the processes of this test see only the first kind."""
    libc = ctypes.CDLL(None, use_errno=True)
    if not os.path.isdir(HYBRID):
        return
    for done in (libc.unshare(CLONE_NEWNS), libc.mount(b'none', b'/', None, 0x44000, None),
                 libc.umount2(HYBRID.encode(), 2)):
        if done != 0:
            print(f'cannot hide {HYBRID}: {os.strerror(ctypes.get_errno())}')
            return


class InContainers(RollTest):
    def setUp(self):
        super().setUp()
        storage = os.path.join(self.top, 'storage.conf')
        self.write(storage, f'[storage]\ndriver = "vfs"\ngraphroot = "{self.top}/graph"\nrunroot = "{self.top}/run"\n')
        limits = os.path.join(self.top, 'containers.conf')
        with open(limits, 'w', encoding='ascii') as file:  # root here may not raise its limits
            file.write('[containers]\ndefault_ulimits = ["nofile=1024:1024", "nproc=1024:1024"]\n'
                       f'[engine]\ntmp_dir = "{self.top}/libpod"\n')
        self.env.update(CONTAINERS_STORAGE_CONF=storage, CONTAINERS_CONF=limits)
        tree = os.path.join(self.top, 'tree')
        for directory in ('bin', 'tmp', 'proc', 'dev', 'sys', 'etc'):
            os.makedirs(os.path.join(tree, directory))
        shutil.copy(required('busybox', '/bin'), os.path.join(tree, 'bin'))
        for name in APPLETS:
            os.symlink('busybox', os.path.join(tree, 'bin', name))
        self.write('../tree/etc/image', 'made here\n')
        self.tar = os.path.join(self.top, 'tree.tar')
        subprocess.run(['tar', '-C', tree, '-c', '-f', self.tar, '.'], check=True)
        subprocess.run([required('podman'), 'import', '--change', 'ENV FROM_IMAGE="of the image"', self.tar,
                        'roll-test'], env=self.env, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        done = subprocess.run(['podman', 'run', '--rm', '--cgroups=disabled', '--network=host', 'roll-test', 'true'],
                              env=self.env, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            self.skipTest(f'this host runs no container, with or without Roll: {done.stderr.strip()}')

    def containers(self, **variables):
        listed = subprocess.run(['podman', 'ps', '--all', '--format', 'json'], env={**self.env, **variables},
                                check=True, stdout=subprocess.PIPE).stdout
        return [row['Names'][0] for row in json.loads(listed)]

    def run_in(self, *words, options=()):
        return self.submit('--container', 'roll-test', *options, '--', 'sh', '-c', *words)

    def test_a_gang_runs_in_containers_with_its_variables_files_and_exit_code(self):
        self.up()
        show = ('echo $RANK/$WORLD_SIZE $MASTER_ADDR [$COLOUR] [$VIRTUAL_ENV] $(cat /etc/image) $(id -u) $(pwd); '
                'touch $ROLL_OUTPUT/from-$RANK; echo bad >&2; exit $((RANK * 7))')
        self.env['VIRTUAL_ENV'] = '/venv'
        job = self.run_in(show, options=['--tasks-per-node', 2, '--env', 'COLOUR=a b'])
        ended = self.wait(job)
        self.assertEqual((ended['state'], ended['exit_code']), ('failed', 7), ended)
        for rank in range(2):
            self.assertEqual(self.ctl('logs', job, '--rank', rank).stdout.splitlines(),
                             [f'{rank}/2 127.0.0.1 [a b] [] made here {os.getuid()} {self.work}', 'bad'])
            self.assertTrue(os.path.exists(os.path.join(self.output(job), f'from-{rank}')))
        self.assertEqual(self.containers(), [])

    def test_binds_and_setup_and_a_script_work_and_a_read_only_bind_is_read_only(self):
        self.up()
        inputs = os.path.join(self.top, 'inputs')
        os.makedirs(inputs)
        self.write('../inputs/a.txt', 'an input\n')
        self.write('sent.sh', 'echo sent with $ROLL_JOB\n')
        self.write('sent.txt', 'a small file\n')
        self.write('job.yaml', f'''kind: command
name: binds
command: [s]
script: "#!/bin/sh\\ncat /data/a.txt; pwd; echo $FROM; touch /data/b 2>/dev/null || echo read-only\\n\
sh $ROLL_FILES/sent.sh; cat $ROLL_FILES/b/c.txt\\n"
files: [sent.sh, "sent.txt:b/c.txt"]
setup: export FROM=setup
container: {{image: roll-test, runtime: podman, binds: ["{inputs}:/data:ro"], workdir: /tmp}}
''')
        job = self.submit('job.yaml')
        self.wait_done(job)
        self.assertEqual(self.ctl('logs', job).stdout, f'an input\n/tmp\nsetup\nread-only\nsent with {job}\n'
                         'a small file\n')

    def test_srun_starts_tasks_in_containers_and_none_is_left_after_a_cancel(self):
        self.up()
        self.write('job.sh', '#!/bin/sh\n#SBATCH -n 2 --output=out\n'
                   "srun --container-image=./roll-test -l sh -c 'cat /etc/image; pwd' 2>&1 || true\n"
                   "srun --container-image=localhost#roll-test -l sh -c 'cat /etc/image; pwd; echo $SLURM_PROCID'\n"
                   "srun --container-image=localhost#roll-test sleep 600\n")
        job = self.submit('job.sh')
        out = os.path.join(self.work, 'out')

        def lines_of_two_steps():
            if not os.path.exists(out):
                return []
            with open(out, encoding='utf-8') as file:
                return file.read().splitlines()
        # The step before also has two containers, so wait for its last lines, too.
        wait_until(lambda: {'0: 0', '1: 1'} <= set(lines_of_two_steps()) and len(self.containers()) == 2,
                   'the containers of the last step')
        lines = lines_of_two_steps()
        self.assertEqual([line for line in lines if line.startswith('0: ')],
                         ['0: made here', f'0: {self.work}', '0: 0'])
        self.assertEqual([line for line in lines if line.startswith('1: ')],
                         ['1: made here', f'1: {self.work}', '1: 1'])
        self.assertIn('cannot run the container', lines[0])
        self.ctl('cancel', job)
        self.assertEqual(self.wait(job)['state'], 'cancelled')
        self.assertEqual(self.containers(), [])

    def start_where_only_the_script_finds_podman(self, *options):
        """Starts a roll-worker without Podman, and a script that finds Podman and runs a container of its images."""
        bare = os.path.join(self.top, 'bare')
        os.makedirs(bare)
        for name in ('sh', 'xargs', 'sort', 'env', 'sleep'):
            os.symlink(f'/usr/bin/{name}', os.path.join(bare, name))
        path = self.env['PATH']
        self.env['PATH'] = path.replace('/usr/bin:/bin', bare)
        self.up()
        self.env['PATH'] = path
        own = self.write('own.conf', f'[storage]\ndriver = "vfs"\ngraphroot = "{self.top}/own graph\'s"\n'
                                     f'runroot = "{self.top}/own-run"\n')
        self.write('job.sh', f'#!/bin/sh\n#SBATCH -n 1\nexport CONTAINERS_STORAGE_CONF={own} PATH=$PATH:/usr/bin:/bin\n'
                   f'podman import {self.tar} roll-test\n'
                   'srun --container-image=localhost#roll-test sleep 600\n')
        job = self.submit(*options, 'job.sh')
        wait_until(lambda: len(self.containers(CONTAINERS_STORAGE_CONF=own)) == 1, 'the container')
        return job, own

    def test_later_steps_use_a_named_container_again(self):
        self.up()
        self.write('job.sh', '#!/bin/sh\n#SBATCH -n 2\n'
                   'srun --container-name=a true\n'
                   'srun -n 1 --container-name=a --container-image=localhost#roll-test '
                   'sh -c "echo kept >/etc/kept; echo \\$FROM_IMAGE"\n'
                   'FROM_SCRIPT=5 srun --container-name=a sh -c "cat /etc/image /etc/kept; echo \\$FROM_SCRIPT"\n'
                   'srun -n 1 --container-image=localhost#roll-test sh -c "cat /etc/kept"\n')
        job = self.submit('job.sh')
        self.assertEqual(self.wait(job)['state'], 'failed', 'the last step has a container of its own')
        log = self.ctl('logs', job).stdout
        self.assertEqual(log.count('also give --container-image'), 2, log)
        self.assertIn('of the image\n', log)
        self.assertEqual(sorted(re.findall('^(?:made here|kept|5)$', log, re.M)),
                         ['5', '5', 'kept', 'kept', 'made here', 'made here'])
        self.assertEqual(self.containers(), [])

    def test_srun_leaves_no_container_where_only_the_script_finds_podman(self):
        job, own = self.start_where_only_the_script_finds_podman()
        self.ctl('cancel', job)
        self.assertEqual(self.wait(job)['state'], 'cancelled')
        self.assertEqual(self.containers(CONTAINERS_STORAGE_CONF=own), [])

    def test_srun_leaves_no_container_after_the_death_of_the_guard_and_of_the_worker(self):
        job, own = self.start_where_only_the_script_finds_podman('--set', 'retry.infra=0')
        worker = self.pid_file('worker')
        os.kill(worker, signal.SIGSTOP)  # so that roll-worker does not see its guards die
        for guard in children_of(worker, 'roll-worker'):
            os.kill(guard, signal.SIGKILL)
        self.kill(worker)
        self.assertEqual(self.wait(job)['state'], 'failed')
        wait_until(lambda: not self.containers(CONTAINERS_STORAGE_CONF=own), 'the removal of the container')

    def test_no_container_is_left_after_a_cancel_and_a_time_limit(self):
        self.up()
        trap = 'trap "echo got it; exit 0" TERM; echo on; while :; do sleep 0.1; done'
        job = self.run_in(trap)
        wait_until(lambda: 'on' in self.ctl('logs', job, check=False).stdout, 'the container')
        self.assertEqual(len(self.containers()), 1)
        self.assertEqual(self.ctl('shell', job, '--', 'sh', '-c', 'cat /etc/image; echo $ROLL_JOB; pwd').stdout,
                         f'made here\n{job}\n{self.work}\n')
        self.ctl('cancel', job)
        self.assertEqual(self.wait(job)['state'], 'cancelled')
        self.assertRegex(self.ctl('logs', job).stdout, r'^on\ngot it\n(open pidfd: No such process\n)?$')  # of podman
        self.assertEqual(self.containers(), [])
        stubborn = self.run_in('trap "" TERM; while :; do sleep 1; done', options=['--time', '2s'])
        ended = self.wait(stubborn)
        self.assertEqual((ended['state'], 'time limit' in ended['reason']), ('failed', True), ended)
        self.assertEqual(self.containers(), [])

    def test_a_stop_reaches_the_command_beside_a_cleanup(self):
        self.up()
        trap = 'trap "echo got it; exit 3" TERM; echo on; while :; do sleep 0.1; done'
        job = self.run_in(trap, options=['--set', 'cleanup=echo cleaned'])
        wait_until(lambda: 'on' in self.ctl('logs', job, check=False).stdout, 'the container')
        self.ctl('cancel', job)
        self.assertEqual(self.wait(job)['state'], 'cancelled')
        self.assertEqual(self.ctl('logs', job).stdout, 'on\ngot it\ncleaned\n')
        self.assertEqual(self.containers(), [])
        failed = self.wait(self.run_in('exit 5', options=['--set', 'cleanup=echo cleaned']))
        self.assertEqual((failed['state'], failed['exit_code']), ('failed', 5))

    def guard(self):
        """Returns the pid of the guard that runs a container: the parent of podman."""
        def parent():
            for pid in self.pids_of('podman'):
                return int(text_of(f'/proc/{pid}/stat').split()[3])
        return wait_until(parent, 'podman')

    def test_no_container_is_left_after_the_death_of_the_guard_and_of_the_worker(self):
        self.up()
        for kill_worker in (False, True):
            job = self.run_in('echo on; sleep 1000', options=['--set', 'retry.infra=0'])
            wait_until(lambda: 'on' in self.ctl('logs', job, check=False).stdout, 'the container')
            guard = self.guard()
            if kill_worker:
                os.kill(self.pid_file('worker'), signal.SIGKILL)
            self.kill(guard)
            self.assertEqual(self.wait(job)['state'], 'failed')
            wait_until(lambda: not self.containers(), f'the removal of the container; worker killed: {kill_worker}')

    def test_an_image_that_is_missing_and_a_node_without_the_runtime_are_told(self):
        self.up()
        job = self.submit('--container', 'localhost/none', '--', 'true')
        ended = self.wait(job)
        self.assertEqual((ended['state'], ended['exit_code']), ('failed', 125))
        self.assertIn('localhost/none', self.ctl('logs', job).stdout)
        other = self.submit('--container', 'x.sqsh', '--', 'true')
        ended = self.wait(other)
        self.assertEqual(ended['state'], 'failed')
        self.assertIn('cannot run the container x.sqsh: the PATH of roll-worker (in a step of srun, the PATH '
                      'of the script) has no podman, apptainer or enroot that can run this container', ended['reason'])
        os.mkdir(f'{self.work}/a:b')
        for option, says in (('container.runtime=docker', 'podman, apptainer or enroot'),
                             ('container.binds=["a:/b"]', 'absolute paths'),
                             (f'workdir={self.work}/a:b', 'a path without colons'),
                             ('modules=["gcc"]', 'cannot be used with `container`')):
            refused = self.ctl('submit', '--container', 'a', '--set', option, '--', 'true', check=False)
            self.assertNotEqual(refused.returncode, 0)
            self.assertIn(says, refused.stderr)


if __name__ == '__main__':
    hide_hybrid_cgroups()
    unittest.main()
