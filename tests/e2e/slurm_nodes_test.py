#!/usr/bin/env python3
"""Nodes of pilots that a real Slurm reports as down, rightly or wrongly."""
import os
import signal
import time
import unittest

from harness import is_alive, wait_until
from slurm_test import SlurmTest

SAYS_SO = 'Slurm says that node {} is down, and its worker is silent'


class Nodes(SlurmTest):
    def setUp(self):
        super().setUp()
        self.ctl('down', '--now')
        # Polls squeue each 20 s, as at a site.
        self.ctl('up', '--endpoint', 'tcp://127.0.0.1:*', '--no-worker')
        self.queue('--slots', '3', '--gpus', '8')  # makes a pilot take a whole node

    def train(self, steps):
        """Starts a job that trains on its own pilot, while another pilot is idle. Returns the job and its node."""
        self.corpus()
        job = self.submit(self.train_job('t', steps=steps, export='none'))
        self.wait_checkpoint(job)
        self.wait_done(self.submit('--slots', '3', '--', 'true'))
        return job, self.show(job)['nodes'][0].split('.')[0]

    def wait_again(self, job, node):
        """Waits until the job's second attempt runs. Returns how long that took."""
        began = time.monotonic()
        wait_until(lambda: self.show(job)['attempt'] == 2 and self.show(job)['state'] == 'running',
                   'the second attempt', 30)
        took = time.monotonic() - began
        first = self.show(job)['attempts'][0]
        self.assertEqual((first['outcome'], first['reason']), ('infra', SAYS_SO.format(node)))
        return took

    def test_a_dead_nodes_training_goes_on_elsewhere_once_slurm_says_so(self):
        job, node = self.train(steps=200)
        beside = self.submit('--', 'sleep', '1000')
        wait_until(lambda: self.show(beside)['state'] == 'running', 'the job beside it')
        self.assertEqual(self.show(beside)['nodes'], self.show(job)['nodes'])
        self.cluster.kill_node(node)
        self.addCleanup(self.cluster.wait_idle)
        self.addCleanup(self.cluster.mend_node, node)
        time.sleep(4)
        self.assertEqual(self.show(job)['attempt'], 1, 'silence alone is no proof')
        self.cluster.set_down(node)
        print(f'runs again {self.wait_again(job, node):.2f} s after Slurm said so')
        # This command may write anywhere, so only its expired lease proves that it has ended.
        self.assertEqual((self.show(beside)['attempt'], self.show(beside)['state']), (1, 'running'))
        self.wait_done(job)
        self.assertEqual({c['token'].split('-')[1] for c in self.show(job)['checkpoints']}, {'2'})

    def test_where_slurm_is_wrong_nothing_counts_twice(self):
        job, node = self.train(steps=100000)
        slurmd = self.cluster.daemons[f'slurmd-{node}']
        slurmd.send_signal(signal.SIGSTOP)  # ends no process
        self.addCleanup(self.cluster.wait_idle)
        self.addCleanup(self.cluster.mend_node, node)
        self.addCleanup(self.cluster.kill_node, node)
        self.cluster.set_down(node)
        wait_until(lambda: self.slurm_jobs(('NODE_FAIL',)), 'Slurm to give the pilot up')
        time.sleep(4)
        self.assertEqual(self.show(job)['attempt'], 1, 'its worker is heard')
        ranks = self.pids_of('roll-rank')
        worker, = [pid for pid in self.pids_of('roll-worker') if self.holds(pid, node)]
        os.kill(worker, signal.SIGSTOP)
        self.wait_again(job, node)
        before = self.written_by(job, 1)
        self.assertTrue(all(is_alive(pid) for pid in ranks), 'the first attempt runs on')
        wait_until(lambda: self.written_by(job, 2), 'a checkpoint of the second')
        os.kill(worker, signal.SIGCONT)
        wait_until(lambda: not any(is_alive(pid) for pid in ranks), 'its ranks to be ended')
        self.assertLessEqual(self.written_by(job, 1), before)
        self.assertEqual(self.show(job)['attempt'], 2)
        self.ctl('cancel', job)
        self.wait(job)
        self.cluster.kill_node(node)

    def written_by(self, job, attempt):
        """Returns the steps of the recorded checkpoints that this attempt wrote."""
        return {c['step'] for c in self.show(job)['checkpoints'] if c['token'].endswith(f'-{attempt}')}

    def holds(self, pid, node):
        """Returns whether the process is this node's roll-worker, and not a guard or the reaper."""
        with open(f'/proc/{pid}/environ', 'rb') as environ, open(f'/proc/{pid}/cmdline', 'rb') as words:
            return f'SLURMD_NODENAME={node}'.encode() in environ.read().split(b'\0') and \
                not any(word.startswith((b'--guard', b'--reaper')) for word in words.read().split(b'\0'))


if __name__ == '__main__':
    unittest.main()
