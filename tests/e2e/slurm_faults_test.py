#!/usr/bin/env python3
"""Pilots on a real Slurm with faults: allocations taken away, slurmctld killed, its state lost."""
import os
import signal
import unittest

from harness import text_of, wait_until
from slurm_test import SlurmTest


class Orders(SlurmTest):

    def test_a_killed_rolld_orders_nothing_twice(self):
        self.queue('--gpus', '1')
        jobs = [self.submit('--gpus', '1', '--', 'sleep', '1')]
        self.kill_rolld()
        jobs.append(None)
        self.ctl('up', '--endpoint', 'tcp://127.0.0.1:*', '--slurm-poll', '1', '--no-worker')
        jobs[1] = self.submit('--gpus', '1', '--', 'sleep', '1')
        for job in jobs:
            self.wait_done(job)
        seen = self.slurm_jobs(('PENDING', 'RUNNING', 'COMPLETED', 'CANCELLED', 'FAILED'))
        ours = [c for _, c in seen.values() if c.startswith('roll:alloc=' + self.cluster_name())]
        self.assertEqual(len(ours), len(set(ours)))

    def cluster_name(self):
        return text_of(self.state, 'cluster')

    def test_refusals_back_off_and_are_told(self):
        self.queue('--gpus', '1', '--partition', 'nosuch')
        job = self.submit('--gpus', '1', '--', 'true')
        wait_until(lambda: self.alloc()['queues'][0]['failures'] == 1, 'the refusal')
        self.assertIn('nosuch', self.alloc()['slurm_trouble'])
        self.assertIn('nosuch', self.alloc()['queues'][0]['reason'])
        self.assertRegex(self.show(job)['waiting'], 'waits until .*; its last request failed: sbatch: .*nosuch')
        self.ctl('alloc', 'pause', 'q')
        self.assertEqual(self.alloc()['queues'][0]['state'], 'paused')
        self.ctl('alloc', 'remove', 'q')
        wait_until(lambda: not self.alloc()['queues'], 'the queue to go')
        self.assertEqual(self.ctl('alloc', 'resume', 'q', check=False).returncode, 3)
        self.queue('--gpus', '1', '--sbatch-arg=--mem=lots', name='r')  # sbatch itself refuses that order
        wait_until(lambda: self.alloc()['queues'][0]['failures'] == 1, 'the refusal')
        self.assertIn('Invalid --mem', self.alloc()['queues'][0]['reason'])

    def test_an_unneeded_order_is_cancelled_and_dry_run_and_doctor_tell(self):
        self.queue('--nodes', '2', '--gpus', '8', '--sbatch-arg=--begin=now+1hour')
        job = self.submit('--gpus', '8', '--nodes', '2', '--', 'true')
        wait_until(lambda: self.slurm_jobs(('PENDING',)), 'the order')
        self.ctl('cancel', job)
        wait_until(lambda: not self.slurm_jobs(), 'the order to be cancelled')
        wait_until(lambda: not self.alloc()['allocations'], 'rolld to note that')
        dry = self.json('alloc', 'dry-run', 'q')
        self.assertIn('--gres=gpu:8', dry['command'])
        self.assertIn('srun --export=ALL', dry['script'])
        checks = {c['check']: c['good'] for c in self.json('doctor', '--slurm', check=False)['checks']}
        self.assertTrue(checks['slurmctld'] and checks['partitions'] and checks['queue q'], checks)
        self.assertFalse(checks['endpoint'], 'loopback is no endpoint for other nodes')


class Faults(SlurmTest):
    """A job that faults interrupt or leave alone. It ends when the test lets it."""

    def wait_job(self, *options):
        """Submits a job that writes a line each time it starts and runs until let_go()."""
        script = (f'echo $SLURM_JOB_ID >>{self.work}/starts; '
                  f'until [ -e {self.work}/go ]; do sleep 0.1; done')
        return self.submit(*options, '--', 'sh', '-c', script)

    def starts(self):
        """Returns Slurm's ids of the allocations in which the job started, in that order."""
        try:
            return text_of(f'{self.work}/starts').split()
        except OSError:
            return []

    def wait_starts(self, count):
        wait_until(lambda: len(self.starts()) >= count, f'start {count} of the job')
        self.assertEqual(len(self.starts()), count)

    def let_go(self, job):
        open(f'{self.work}/go', 'wb').close()
        self.wait_done(job)

    def node(self):
        """Returns Slurm's name of the only worker's node."""
        workers = wait_until(lambda: self.json('nodes')['nodes'], 'a worker')
        return workers[-1]['node'].split('.')[0]

    # Slurm delays a requeued job for two minutes. rolld withdraws that order and sends another.
    def test_drained_nodes_and_requeued_pilots(self):
        self.queue('--sbatch-arg=--requeue')
        job = self.wait_job()
        self.wait_starts(1)
        node, first = self.node(), self.starts()[0]
        self.cluster.run('scontrol', 'update', f'NodeName={node}', 'State=DRAIN', 'Reason=test')
        self.assertEqual(self.show(job)['state'], 'running', 'a drained node ends what it runs')
        self.cluster.run('scontrol', 'requeue', first)
        self.wait_starts(2)
        wait_until(lambda: first not in self.slurm_jobs(), 'the requeued pilot to go back')
        self.assertEqual(list(self.slurm_jobs()), self.starts()[1:])
        self.cluster.run('scontrol', 'update', f'NodeName={node}', 'State=RESUME')
        self.let_go(job)

    # The batch script starts the first node's worker, srun starts the other's.
    def test_scancel_lets_both_nodes_of_an_allocation_save(self):
        self.queue('--nodes', '2', '--slots', '1')
        job = self.submit('--nodes', '2', '--', 'sh', '-c',
                          f'cd {self.work}; [ -e saved.$ROLL_NODE_RANK ] && exit; '
                          'trap "sleep 1; touch saved.$ROLL_NODE_RANK; exit 75" TERM; touch up.$ROLL_NODE_RANK; '
                          'while :; do sleep 0.05; done')
        there = lambda what: all(os.path.exists(f'{self.work}/{what}.{node}') for node in (0, 1))  # noqa: E731
        wait_until(lambda: there('up'), 'both nodes to run')
        self.cluster.run('scancel', *self.slurm_jobs())
        self.wait_done(job)
        self.assertTrue(there('saved'))
        self.assertEqual([a['outcome'] for a in self.show(job)['attempts']], ['yielded', 'done'])

    def test_preempted_pilots_come_back_elsewhere(self):
        self.queue('--gpus', '1')
        job = self.wait_job('--gpus', '1')
        self.wait_starts(1)
        self.cluster.run('sbatch', '--partition=high', f'--nodelist={self.node()}', '--gres=gpu:8',
                         '--output=/dev/null', '--wrap=sleep 600')
        self.wait_starts(2)
        self.assertNotEqual(self.starts()[0], self.starts()[1])
        self.let_go(job)
        self.assertEqual(self.alloc()['queues'][0]['failures'], 0)

    def test_slurmctld_that_hangs_holds_nobody_up_and_orders_once(self):
        self.queue()
        self.wait_done(self.submit('--', 'true'))
        daemon = self.cluster.daemons['slurmctld']
        os.kill(daemon.pid, signal.SIGSTOP)
        try:
            self.wait_done(self.submit('--', 'true'))
            held = self.wait_job('--slots', '1')
            more = self.submit('--', 'true')  # this job needs another allocation
            self.wait_starts(1)
        finally:
            os.kill(daemon.pid, signal.SIGCONT)
        self.wait_done(more)
        comments = [comment for _, comment in self.slurm_jobs(('PENDING', 'RUNNING')).values()]
        self.assertEqual(len(comments), len(set(comments)))
        self.let_go(held)

    # Slurm takes a node for dead. Then ids begin anew, slurmd ends the jobs that slurmctld does not know, and a
    # foreign job gets the id of the other pilot. Both jobs wait for their leases.
    def test_dead_nodes_and_a_slurmctld_that_lost_its_state(self):
        self.queue()
        jobs = [self.wait_job()]
        self.wait_starts(1)
        node = self.node()
        jobs.append(self.wait_job())
        self.wait_starts(2)
        first, second = self.starts()
        self.cluster.run('scontrol', 'update', f'NodeName={node}', 'State=DOWN', 'Reason=test')
        wait_until(lambda: first not in self.slurm_jobs(), 'Slurm to end the pilot of that node')
        self.cluster.restart_controller(forget=True)
        self.foreign_up_to(second)
        self.wait_starts(4)
        for job in jobs:
            self.let_go(job)
        self.ctl('alloc', 'remove', 'q')
        wait_until(lambda: not self.alloc()['queues'], 'the queue to go')
        self.assertEqual(self.slurm_jobs()[second], ('PENDING', 'a stranger'))

    def foreign_up_to(self, job):
        """Submits foreign jobs until one of them has this id."""
        for _ in range(100):
            said = self.cluster.run('sbatch', '--parsable', '--comment=a stranger', '--hold',
                                    '--output=/dev/null', '--wrap=true').strip()
            if said == job:
                return said
        raise AssertionError(f'id {job} was not given out again')


if __name__ == '__main__':
    unittest.main()
