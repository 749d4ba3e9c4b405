#!/usr/bin/env python3
"""Pilots on a real Slurm that fails: allocations taken away, slurmctld killed, its state lost."""
import os
import unittest

from harness import wait_until
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
        with open(os.path.join(self.state, 'cluster'), encoding='ascii') as file:
            return file.read()

    def test_refusals_back_off_and_are_told(self):
        self.queue('--gpus', '1', '--partition', 'nosuch')
        job = self.submit('--gpus', '1', '--', 'true')
        wait_until(lambda: self.alloc()['queues'][0]['failures'] == 1, 'the refusal')
        self.assertIn('nosuch', self.alloc()['slurm_trouble'])
        self.assertIn('limits or backs off', self.show(job)['waiting'])
        self.ctl('alloc', 'pause', 'q')
        self.assertEqual(self.alloc()['queues'][0]['state'], 'paused')
        self.ctl('alloc', 'remove', 'q')
        wait_until(lambda: not self.alloc()['queues'], 'the queue to go')
        self.assertEqual(self.ctl('alloc', 'resume', 'q', check=False).returncode, 3)

    def test_an_unneeded_order_is_cancelled_and_dry_run_and_doctor_tell(self):
        self.queue('--nodes', '2', '--gpus', '8', '--sbatch-arg=--begin=now+1hour')
        job = self.submit('--gpus', '8', '--nodes', '2', '--', 'true')
        wait_until(lambda: self.slurm_jobs(('PENDING',)), 'the order')
        self.ctl('cancel', job)
        wait_until(lambda: not self.slurm_jobs(), 'the order to be cancelled')
        wait_until(lambda: not self.alloc()['allocations'], 'rolld to note that')
        dry = self.json('alloc', 'dry-run', 'q')
        self.assertIn('--gres=gpu:8', dry['command'])
        self.assertIn('exec srun', dry['script'])
        checks = {c['check']: c['good'] for c in self.json('doctor', '--slurm', check=False)['checks']}
        self.assertTrue(checks['slurmctld'] and checks['partitions'] and checks['queue q'], checks)
        self.assertFalse(checks['endpoint'], 'loopback is no endpoint for other nodes')


if __name__ == '__main__':
    unittest.main()
