#!/usr/bin/env python3
"""Jobs that train on several nodes in pilots. When Slurm takes nodes away, no step before the last boundary is lost
and no bit changes."""
import os
import re
import signal
import unittest

from harness import wait_until
from slurm_test import SlurmTest


class Training(SlurmTest):
    def train(self, name, **changes):
        self.corpus()
        return self.submit(self.train_job(name, steps=300, export='none', **changes))

    def freeze(self):
        """Stops a rank, so that the job stays at a step as long as the test likes."""
        rank = wait_until(lambda: self.pids_of('roll-rank'), 'a rank')[0]
        os.kill(rank, signal.SIGSTOP)
        return rank

    def slurm_id(self):
        """Returns Slurm's number of the newest allocation that rolld holds."""
        return max(self.alloc()['allocations'], key=lambda a: a['id'])['slurm_job']

    def assert_goes_on_where_it_stopped(self, job):
        """Checks that the second attempt resumes at the very step at which the first stopped."""
        self.assertEqual(self.show(job)['attempt'], 2)
        stopped = re.search(r'stopped at step (\d+)', self.log_of(job, 0, 1))
        resumed = re.search(r'resumed at step (\d+)', self.log_of(job, 0, 2))
        self.assertTrue(stopped and resumed, self.log_of(job, 0, 1)[-300:])
        self.assertEqual(stopped.group(1), resumed.group(1))

    def test_a_gang_over_two_pilots_loses_one_and_ends_the_same(self):
        self.queue('--max-jobs', '4')
        job = self.train('gang', resources={'nodes': 2, 'slots_per_node': 1})
        self.wait_checkpoint(job)
        rank = self.freeze()
        self.assertEqual(len(self.slurm_jobs()), 2)
        self.cluster.wait_saved()
        self.cluster.kill('slurmctld')
        step = self.metrics(job)[-1]['step']
        os.kill(rank, signal.SIGCONT)
        self.wait_step(job, step + 10)  # training does not need slurmctld
        os.kill(rank, signal.SIGSTOP)
        self.cluster.start_controller()
        self.cluster.wait_answer()
        lost = self.slurm_id()
        os.kill(rank, signal.SIGCONT)
        self.cluster.run('scancel', lost)
        self.wait_done(job)
        self.assert_goes_on_where_it_stopped(job)
        calm = self.train('calm', resources={'nodes': 2, 'slots_per_node': 1})
        self.wait_done(calm)
        self.assertEqual(self.show(calm)['attempt'], 1)
        self.assert_same(job, calm)

    # Slurm's shortest limit is a minute. Jobs leave a quarter of it before the end.
    def test_a_pilot_at_its_time_limit_hands_its_job_over(self):
        self.queue('--slots', '2', '--time', '1m')
        job = self.train('limited')
        self.wait_checkpoint(job)
        self.freeze()
        first = self.slurm_id()
        self.wait_done(job)
        self.assert_goes_on_where_it_stopped(job)
        ended = self.cluster.run('scontrol', 'show', 'job', first)
        self.assertNotIn('JobState=TIMEOUT', ended, 'it has left before Slurm ended it')

    # Slurm moves the end; the handover comes 50 s before it. Until then the job stands still.
    def test_an_allocation_cut_short_hands_its_job_over(self):
        self.queue('--slots', '2', '--time', '4m', '--handover', '50s')
        job = self.train('moved')
        self.wait_checkpoint(job)
        self.freeze()
        first = self.slurm_id()
        self.cluster.run('scontrol', 'update', f'JobId={first}', 'TimeLimit=1')
        self.wait_done(job)
        self.assert_goes_on_where_it_stopped(job)
        self.assertNotIn(first, self.slurm_jobs(('RUNNING',)))


if __name__ == '__main__':
    unittest.main()
