"""Gangs of programs on two workers of one host: torchrun, and ranks that Roll starts itself."""
import os
import shutil
import signal
import socket
import unittest

from harness import TwoWorkers, wait_until

EXAMPLES = os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..', 'examples')
SHOW = ('echo $RANK/$WORLD_SIZE $LOCAL_RANK/$LOCAL_WORLD_SIZE $MASTER_ADDR $MASTER_PORT $ROLL_NODELIST; '
        'cat $ROLL_HOSTFILE')


class Gang(TwoWorkers):
    def logs(self, job):
        return sorted(self.ctl('logs', job, '--rank', 'all').stdout.splitlines())

    def run_example(self, name):
        shutil.copytree(EXAMPLES, os.path.join(self.work, 'examples'), dirs_exist_ok=True)
        job = self.submit(os.path.join('examples', name))
        self.wait_done(job)
        return [line.split('] ')[-1] for line in self.logs(job) if 'sum of the ranks' in line]

    def test_torchrun_and_ranks_of_roll_reduce_over_two_nodes(self):
        expected = [f'rank {rank} of 4, local rank {rank % 2}, node {rank // 2}: sum of the ranks is 6'
                    for rank in range(4)]
        self.assertEqual(self.run_example('torchrun.yaml'), expected)
        self.assertEqual(self.run_example('gang.yaml'), expected)

    def test_mpirun_starts_its_daemon_on_the_other_node_through_roll(self):
        shutil.copytree(EXAMPLES, os.path.join(self.work, 'examples'), dirs_exist_ok=True)
        allow = {'OMPI_ALLOW_RUN_AS_ROOT': '1', 'OMPI_ALLOW_RUN_AS_ROOT_CONFIRM': '1'}
        words = [word for name, value in allow.items() for word in ('--env', f'{name}={value}')]
        job = self.submit(os.path.join('examples', 'mpi.yaml'), *words)
        self.wait_done(job)
        lines = self.ctl('logs', job, '--rank', '0').stdout.splitlines()
        self.assertEqual(sorted(line for line in lines if line.startswith('rank ')),
                         [f'rank {rank} of 4 on node {rank // 2}' for rank in range(4)], lines)

    def test_a_program_of_the_trainer_continues_on_two_nodes_after_a_kill(self):
        shutil.copytree(EXAMPLES, os.path.join(self.work, 'examples'), dirs_exist_ok=True)
        os.makedirs(os.path.join(self.work, 'examples', 'data'), exist_ok=True)
        shutil.copy(self.corpus(), os.path.join(self.work, 'examples', 'data', 'kjv.txt'))
        job = self.submit(os.path.join('examples', 'trainer.yaml'))
        model = os.path.join(self.output(job), 'model')
        wait_until(lambda: os.path.exists(os.path.join(model, 'checkpoint-20', 'trainer_state.json')), 'a checkpoint')
        for pid in self.processes():
            with open(f'/proc/{pid}/cmdline', 'rb') as file:
                if b'train.py' in file.read():
                    os.kill(pid, signal.SIGKILL)
                    break
        ended = self.wait_done(job)
        self.assertEqual([attempt['outcome'] for attempt in ended['attempts']], ['app', 'done'])
        log = self.ctl('logs', job, '--rank', 'all').stdout
        self.assertRegex(log, r'starting from \S+/model/checkpoint-[24]0 on 2 processes')
        self.assertIn('trained 60 steps', log)

    def test_each_process_of_a_gang_knows_its_rank_and_one_meeting_point(self):
        job = self.submit('--nodes', 2, '--tasks-per-node', 2, '--', 'sh', '-c', SHOW)
        self.wait_done(job)
        ranks = [self.ctl('logs', job, '--rank', rank).stdout.splitlines() for rank in range(4)]
        host = socket.gethostname()
        nodes = ranks[0][0].split()[4]
        self.assertEqual(set(nodes.split(',')), {host, 'other'})
        for rank, lines in enumerate(ranks):
            self.assertEqual(lines[0].split()[:2], [f'{rank}/4', f'{rank % 2}/2'])
            self.assertEqual(lines[0].split()[2:], ranks[0][0].split()[2:])
            self.assertEqual(lines[1:], [f'{name} slots=2' for name in nodes.split(',')])
        address, port = ranks[0][0].split()[2:4]
        self.assertEqual(address, '127.0.0.1')
        self.assertGreater(int(port), 1024)

    def test_the_processes_of_a_gang_get_slurms_names_if_the_site_wants_them(self):
        show = ('sh', '-c', 'echo $SLURM_PROCID/$SLURM_NTASKS $SLURM_LOCALID $SLURM_NODEID/$SLURM_NNODES $SLURM_JOB_ID')
        job = self.submit('--nodes', 2, '--tasks-per-node', 2, '--', *show)
        self.wait_done(job)
        self.assertEqual(self.ctl('logs', job, '--rank', 3).stdout.strip(), '/ /')
        self.write(os.path.join(self.state, 'rolld.yaml'), 'gang: {slurm_variables: true}\n')
        os.kill(self.pid_file('rolld'), signal.SIGHUP)
        wait_until(lambda: 'was read again' in self.ctl('events').stdout, 'rolld to read the setting')
        job = self.submit('--nodes', 2, '--tasks-per-node', 2, '--', *show)
        self.wait_done(job)
        self.assertEqual([self.ctl('logs', job, '--rank', rank).stdout.strip() for rank in range(4)],
                         [f'{rank}/4 {rank % 2} {rank // 2}/2 {job}' for rank in range(4)])

    def test_two_gangs_at_once_have_two_ports_and_a_taken_port_is_not_given(self):
        show = 'echo $MASTER_PORT; sleep 1'
        jobs = [self.submit('--tasks-per-node', 1, '--', 'sh', '-c', show) for _ in range(4)]
        for job in jobs:
            self.wait_done(job)
        ports = [self.ctl('logs', job).stdout.strip() for job in jobs]
        self.assertEqual(len(set(ports)), 4, ports)

    def test_a_failed_rank_ends_the_gang_with_its_code_and_its_number(self):
        job = self.submit('--nodes', 2, '--tasks-per-node', 2, '--', 'sh', '-c',
                          '[ $RANK = 3 ] && exit 7; exec sleep 1000')
        ended = self.wait(job)
        self.assertEqual((ended['state'], ended['exit_code']), ('failed', 7))
        self.assertIn('rank 3 ended with exit status 7', ended['reason'])

    def test_a_plain_command_gets_no_variables_of_a_gang(self):
        job = self.submit('--', 'sh', '-c', 'echo "[$RANK$WORLD_SIZE$MASTER_PORT]"')
        self.wait_done(job)
        self.assertEqual(self.ctl('logs', job).stdout, '[]\n')


if __name__ == '__main__':
    unittest.main(verbosity=2)
