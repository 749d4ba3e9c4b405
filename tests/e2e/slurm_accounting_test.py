#!/usr/bin/env python3
"""Pilots on a real Slurm with accounting: what a QOS delays or refuses, and a slurmdbd that is down."""
import unittest

import slurm_cluster
from harness import wait_until
from slurm_test import SlurmTest

ACCOUNTS = (('add', 'account', 'lab', 'Description=lab', 'Organization=lab'),
            ('add', 'qos', 'one', 'MaxJobsPerUser=1'),
            ('add', 'qos', 'small', 'MaxTRESPerJob=cpu=2', 'Flags=DenyOnLimit'),
            ('add', 'user', 'root', 'Account=lab', 'QOS=normal,one,small'))


class Accounting(SlurmTest):

    @classmethod
    def setUpClass(cls):
        cls.cluster = slurm_cluster.Cluster(accounting=ACCOUNTS)
        cls.addClassCleanup(cls.cluster.stop)
        cls.cluster.start()

    def refused(self, *options):
        """Returns what rollctl shows for a queue whose order Slurm refuses."""
        self.queue('--gpus', '1', *options)
        job = self.submit('--gpus', '1', '--', 'true')
        wait_until(lambda: self.alloc()['queues'][0]['failures'] == 1, 'the refusal')
        return self.show(job)['waiting']

    def test_an_order_that_a_qos_holds_back_waits_with_slurms_reason(self):
        self.queue('--gpus', '1', '--slots', '1', '--qos', 'one', '--account', 'lab', '--max-jobs', '2')
        let_go = f'until [ -e {self.work}/go ]; do sleep 0.1; done'
        jobs = [self.submit('--gpus', '1', '--', 'sh', '-c', let_go) for _ in range(2)]
        wait_until(lambda: 'QOSMaxJobsPerUserLimit' in self.ctl('alloc', 'list').stdout, "Slurm's reason")
        self.assertEqual(sorted(state for state, _ in self.slurm_jobs().values()), ['PENDING', 'RUNNING'])
        open(f'{self.work}/go', 'wb').close()
        for job in jobs:
            self.wait_done(job)
        self.assertEqual(self.alloc()['queues'][0]['failures'], 0)

    def test_an_order_that_a_qos_refuses_backs_off_and_explain_says_why(self):
        self.assertRegex(self.refused('--slots', '4', '--qos', 'small', '--account', 'lab'),
                         'waits until .*QOSMaxCpuPerJobLimit')

    def test_a_qos_that_is_not_there_or_not_ours_is_named(self):
        self.assertRegex(self.refused('--qos', 'gold'), 'waits until .*Invalid qos')

    def test_pilots_and_orders_go_on_without_slurmdbd(self):
        self.queue('--gpus', '1', '--qos', 'normal', '--account', 'lab')
        self.wait_done(self.submit('--gpus', '1', '--', 'true'))
        self.cluster.kill('slurmdbd')
        self.cluster.kill('mariadbd')
        self.wait_done(self.submit('--gpus', '1', '--', 'true'))
        self.ctl('alloc', 'remove', 'q')
        wait_until(lambda: not self.alloc()['queues'], 'the queue to go')
        self.queue('--gpus', '2', '--qos', 'normal', '--account', 'lab', name='r')
        self.wait_done(self.submit('--gpus', '2', '--', 'true'))


if __name__ == '__main__':
    unittest.main()
