#!/usr/bin/env python3
"""Pilots on a real Slurm: allocations appear when jobs need them and end when they do not."""
import json
import os
import signal
import unittest

import slurm_cluster
from harness import RollTest, text_of, wait_until

ALIVE = ('PENDING', 'CONFIGURING', 'RUNNING', 'COMPLETING')


@unittest.skipUnless(os.geteuid() == 0, slurm_cluster.ONLY_ROOT)
class SlurmTest(RollTest):
    """A test class with one cluster for all tests, and a rolld and a state directory for each test."""

    @classmethod
    def setUpClass(cls):
        cls.cluster = slurm_cluster.Cluster()
        cls.addClassCleanup(cls.cluster.stop)
        cls.cluster.start()

    def setUp(self):
        super().setUp()
        self.env['SLURM_CONF'] = self.cluster.conf
        self.env['SQUEUE_FORMAT'] = '%j'  # rolld must not use it
        self.env['SLURM_JOB_ID'] = '4711'
        self.ctl('up', '--endpoint', 'tcp://127.0.0.1:*', '--slurm-poll', '1', '--no-worker')

    def tearDown(self):
        self.ctl('down', '--now', check=False)  # otherwise it would order allocations again
        self.cluster.run('scancel', '--user=root', '--signal=KILL', '--full', check=False)
        self.cluster.run('scancel', '--user=root', check=False)
        wait_until(lambda: not self.slurm_jobs(), 'Slurm to end every job')
        super().tearDown()

    def queue(self, *options, name='q'):
        time = () if '--time' in options else ('--time', '30m')
        # Nothing may be bound to CPUs, because the fake nodes share this machine's.
        self.ctl('alloc', 'add', name, *time, '--setup', f'export ROLL_E2E_ID={self.id}',
                 '--setup', 'export ROLL_CPU_BINDING=none', *options)

    def slurm_jobs(self, states=ALIVE):
        """Returns {Slurm's id: (state, comment)} of all jobs that are not over."""
        found = {}
        for line in self.cluster.run('squeue', '-h', '-t', 'all', '-o', '%i|%T|%k').splitlines():
            job, state, comment = line.split('|', 2)
            if state in states:
                found[job] = (state, comment)
        return found

    def alloc(self):
        return self.json('alloc', 'list')

    def log_of(self, job, rank=0, attempt=1):
        return text_of(self.output(job), 'logs', f'attempt-{attempt}', f'rank-{rank}.log')


class Pilots(SlurmTest):

    def test_an_allocation_comes_is_shared_and_goes_back_when_idle(self):
        self.queue('--nodes', '2', '--gpus', '4', '--slots', '2', '--idle', '1s')
        self.assertEqual(self.slurm_jobs(), {})
        job = self.submit('--nodes', '2', '--gpus', '3', '--', 'sh', '-c',
                          'echo $SLURMD_NODENAME $CUDA_VISIBLE_DEVICES $ROLL_E2E_ID')
        self.wait_done(job)
        said = [self.log_of(job, rank).split() for rank in (0, 1)]
        self.assertEqual({gpus for _, gpus, _ in said}, {'0,1,2'})
        self.assertEqual(len({node for node, _, _ in said}), 2)
        self.assertEqual({setup for _, _, setup in said}, {self.id}, 'exported by --setup')
        self.assertLessEqual(len(self.slurm_jobs()), 1)
        wait_until(lambda: not self.slurm_jobs(), 'the idle allocation to go back')
        wait_until(lambda: not self.alloc()['allocations'], 'rolld to note that')
        self.assertEqual(self.json('nodes')['nodes'], [])

    def test_two_allocations_on_a_node_use_their_own_gpus(self):
        self.queue('--gpus', '2', '--max-jobs', '2', '--sbatch-arg=--nodelist=n3')
        gpus = []
        both = (f'echo $CUDA_VISIBLE_DEVICES; touch {self.work}/$ROLL_JOB.here; '
                f'while [ $(ls {self.work}/*.here | wc -l) -lt 2 ]; do sleep 0.1; done')
        jobs = [self.submit('--gpus', '2', '--', 'sh', '-c', both) for _ in range(2)]
        for job in jobs:
            self.wait_done(job)
            gpus += self.log_of(job).split()[0].split(',')
        self.assertEqual(sorted(gpus), ['0', '1', '2', '3'])

    def test_the_operator_closes_and_cancels_single_allocations(self):
        self.queue('--slots', '1', '--idle', '10m', '--max-jobs', '2')
        first = self.submit('--', 'sh', '-c', f'while [ ! -e {self.work}/go ]; do sleep 0.1; done')
        wait_until(lambda: self.show(first)['state'] == 'running', 'the first job to run')
        closed = self.alloc()['allocations'][0]['id']
        self.assertEqual(self.ctl('alloc', 'close', closed).stdout, f'{closed}\n')
        self.assertEqual(self.alloc()['allocations'][0]['state'], 'closed')
        second = self.submit('--', 'sleep', '300')
        wait_until(lambda: self.show(second)['state'] == 'running', 'the second job to run')
        other, = (one['id'] for one in self.alloc()['allocations'] if one['id'] != closed)
        self.assertEqual(self.show(first)['state'], 'running')
        with open(f'{self.work}/go', 'w', encoding='ascii'):
            pass
        self.wait_done(first)
        wait_until(lambda: [one['id'] for one in self.alloc()['allocations']] == [other], 'the closed one to go')
        self.ctl('alloc', 'cancel', other)
        wait_until(lambda: len(self.show(second)['attempts']) == 2, 'the job to start elsewhere')
        # A command cannot save, so it has lost an attempt.
        self.assertEqual(self.show(second)['retries'],
                         {'infra': 1, 'app': 0, 'timeout': 0, 'preempted': 0, 'no_progress': 0})
        self.assertEqual(self.alloc()['queues'][0]['failures'], 0)
        unknown = self.ctl('alloc', 'cancel', 99, check=False)
        self.assertEqual(unknown.returncode, 3, unknown.stderr)
        self.assertIn('there is no allocation 99, or it has ended', unknown.stderr)
        self.ctl('cancel', second)

    def test_an_order_says_what_its_queue_says(self):
        self.cluster.run('scontrol', 'update', 'NodeName=n5', 'AvailableFeatures=fast', 'ActiveFeatures=fast')
        self.queue('--partition', 'high', '--account', 'lab', '--qos', 'normal', '--constraint', 'fast',
                   '--sbatch-arg=--nice=7')
        job = self.submit('--', 'sh', '-c', 'echo $SLURMD_NODENAME')
        self.wait_done(job)
        self.assertEqual(self.log_of(job).strip(), 'n5')
        order, = self.slurm_jobs()
        said = dict(word.split('=', 1) for word in self.cluster.run('scontrol', 'show', 'job', order).split()
                    if '=' in word)
        self.assertEqual([said[key] for key in ('Partition', 'Account', 'Features', 'Nice')],
                         ['high', 'lab', 'fast', '7'])

    def test_orders_leave_a_bad_node_out(self):
        self.write(os.path.join(self.state, 'rolld.yaml'), 'bad_nodes: {failures: 2, within: 1h, for: 1h}\n')
        os.kill(self.pid_file('rolld'), signal.SIGHUP)
        self.queue('--nodes', '2', '--slots', '2', '--max-jobs', '2')
        # For each job, the node that checks first is bad.
        check = (f'mkdir {self.work}/bad && echo $SLURMD_NODENAME >{self.work}/bad/node; '
                 f'sleep 0.2; ! grep -x $SLURMD_NODENAME {self.work}/bad/node')
        jobs = [self.write(f'{n}.json', json.dumps({
            'name': f'j{n}', 'kind': 'command', 'command': ['true'], 'check': {'command': ['sh', '-c', check]},
            'retry': {'backoff': '1s'}, 'resources': {'nodes': 2}})) for n in 'ab']
        for job in self.ctl('submit', '--parsable', *jobs).stdout.split():
            self.wait_done(int(job))
        bad = text_of(f'{self.work}/bad/node').strip()
        left_out = {self.cluster.run('scontrol', '-o', 'show', 'job', job).split('ExcNodeList=')[1].split()[0]
                    for job in self.slurm_jobs()}
        self.assertEqual(left_out, {'(null)', bad})

    def test_200_short_jobs_in_one_allocation_that_one_would_not_pay_for(self):
        self.queue('--gpus', '8', '--max-jobs', '1', '--min-utilization', '1')
        files = [self.write(f'{n}.yaml', json.dumps({
            'name': f'j{n}', 'kind': 'command', 'command': ['true'],
            'resources': {'slots_per_node': 1, 'gpus_per_node': 1}})) for n in range(200)]
        self.ctl('submit', files[0])
        self.assertIn('requests an allocation only if jobs use at least 100 % of it', self.show(1)['waiting'])
        self.assertEqual(self.slurm_jobs(), {})
        self.ctl('submit', *files[1:])
        wait_until(lambda: not self.json('jobs')['jobs'], '200 jobs to end')
        states = {job['state'] for job in self.json('jobs', '-a')['jobs']}
        self.assertEqual(states, {'done'})
        ordered = [e for e in self.events() if e['kind'] == 'allocation_ordered']
        self.assertEqual(len(ordered), 1)


if __name__ == '__main__':
    unittest.main()
