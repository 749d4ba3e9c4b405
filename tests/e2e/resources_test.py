#!/usr/bin/env python3
"""Memory, CPUs and slots per rank: what a job asks for is kept for it, is its limit, and what it used is told."""
import os
import unittest

from harness import RollTest, wait_until

TAKES_900_MB = 'x = b"x" * (900 << 20); import time; time.sleep(60)'


class Resources(RollTest):

    def up(self, slots=2):
        super().up(slots)
        self.node = wait_until(lambda: self.json('nodes')['nodes'], 'the worker')[0]

    def test_a_job_over_its_memory_is_ended_and_its_process_named(self):
        self.up()
        self.assertRegex(self.node['limits'], '^(cgroup v[12]|watched)')
        grandchild = f"/usr/bin/python3 -c '{TAKES_900_MB}' & wait; sleep 60"
        for command in (['/usr/bin/python3', '-c', TAKES_900_MB], ['sh', '-c', grandchild]):
            job = self.wait(self.submit('--memory', '256MiB', '--', *command), 30)
            self.assertEqual((job['state'], job['exit_code']), ('failed', 137))
            self.assertRegex(job['reason'],
                             r'^out of memory: used 2\d\d(\.\d)? of 256 MiB \(python3, pid \d+\)$')
            self.assertEqual([attempt['outcome'] for attempt in job['attempts']], ['app'])
            self.assertGreaterEqual(job['attempts'][0]['usage']['memory_peak'], 128 << 20)
        brief = TAKES_900_MB.replace('60', '0')
        self.wait_done(self.submit('--memory', '1500MiB', '--', '/usr/bin/python3', '-c', brief))
        self.assertIn('limits', self.ctl('doctor', check=False).stdout)

    def test_jobs_whose_memory_does_not_fit_together_run_one_after_the_other(self):
        self.up()
        share = str(self.node['memory'] * 6 // 10)
        go = os.path.join(self.top, 'go')
        first = self.submit('--memory', share, '--', 'sh', '-c', f'until [ -e {go} ]; do sleep 0.05; done')
        self.wait_done(self.submit('--', 'true'))
        second = self.submit('--memory', share, '--', 'true')
        self.assertEqual(self.show(first)['state'], 'running')
        self.assertEqual(self.show(second)['state'], 'queued')
        self.assertRegex(self.ctl('explain', second).stdout, r'of memory are free, but the job needs')
        self.assertEqual(self.json('nodes')['nodes'][0]['memory_free'], self.node['memory'] - int(share))
        self.assertIn('of memory on each node (' + self.node['node'], self.ctl('show', first).stdout)
        with open(go, 'w', encoding='ascii'):
            pass
        ended, began = self.wait_done(first)['attempts'][0], self.wait_done(second)['attempts'][0]
        self.assertLessEqual(ended['ended_at'], began['placed_at'])

    def test_what_an_attempt_used_is_kept_over_a_restart(self):
        self.up()
        work = "x = b'x' * (100 << 20); print(sum(range(2_000_000)))"
        file = os.path.join(self.work, 'written')
        job = self.submit('--', 'sh', '-c', f'python3 -c "{work}"; sh -c "head -c 30M /dev/zero > {file}"')
        usage = self.wait_done(job)['attempts'][0]['usage']
        self.assertTrue(30 << 20 <= usage['disk_written'] < 40 << 20, usage)
        self.assertGreater(usage['cpu_seconds'], 0.02)
        self.assertGreater(usage['memory_peak'], 100 << 20)
        self.assertLess(usage['memory_peak'], 400 << 20)
        self.assertGreater(usage['wall_seconds'], 0)
        self.kill_rolld()
        super().up()
        self.assertEqual(self.show(job)['attempts'][0]['usage'], usage)
        self.assertRegex(self.ctl('show', job).stdout,
                         r'CPU +MEMORY +DISK.*\n.*s +1\d\d(\.\d)? MiB +3\d(\.\d)? MiB')
        shown = self.ctl('jobs', '-a', '-o', '{id} {cpu_time} {memory_peak} {disk} {usage.memory_peak}').stdout
        self.assertRegex(shown, rf'^{job} [\d.]+s [\d.]+ MiB [\d.]+ MiB {usage["memory_peak"]}\n$')
        events = [event for event in self.events(job) if event['kind'] == 'member_ended']
        self.assertEqual(len(events), 1)

    def test_a_rank_of_two_slots_is_one_rank_with_two_threads(self):
        del self.env['OMP_NUM_THREADS']
        self.up()
        self.corpus()
        job = self.submit(self.train_job(steps=6, resources={'nodes': 1, 'slots_per_node': 2, 'slots_per_rank': 2},
                                         parallel={}, checkpoint__every=0, export='none'))
        ended = self.wait_done(job)
        self.assertEqual(ended['resources']['slots_per_rank'], 2)
        self.assertEqual(os.listdir(os.path.join(self.output(job), 'logs', 'attempt-1')).count('rank-1.log'), 0)
        self.assertEqual(self.metrics(job)[-1]['step'], 6)


if __name__ == '__main__':
    unittest.main()
