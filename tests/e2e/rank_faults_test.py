#!/usr/bin/env python3
"""Killed ranks and workers: the job retries from its checkpoint and ends the same."""
import unittest

from harness import RollTest, wait_until

class RankFaults(RollTest):
    STEPS = 400

    def setUp(self):
        super().setUp()
        self.corpus()
        self.up()

    def undisturbed(self):
        job = self.submit(self.train_job('calm', steps=self.STEPS, export='none'))
        self.wait_done(job)
        return job

    def assert_one_current_attempt(self, job, attempts):
        """Checks that each attempt in the job's history starts only after the previous one is over."""
        kinds = [event['kind'] for event in self.events(job)
                 if event['kind'] in ('attempt_placed', 'attempt_ended')]
        self.assertEqual(kinds, ['attempt_placed', 'attempt_ended'] * attempts)

    def test_a_killed_rank_costs_an_attempt_and_changes_no_bit(self):
        job = self.submit(self.train_job(steps=self.STEPS, export='none'))
        self.wait_checkpoint(job)
        ranks = wait_until(lambda: self.pids_of('roll-rank'), 'ranks to run')
        self.kill(ranks[-1])
        ended = self.wait_done(job)
        self.assertGreaterEqual(ended['attempt'], 2)
        self.assert_one_current_attempt(job, ended['attempt'])
        self.assert_same(job, self.undisturbed())

    def test_a_killed_worker_leaves_no_process_and_the_job_ends_right(self):
        job = self.submit(self.train_job(steps=self.STEPS, export='none'))
        self.wait_checkpoint(job)
        ranks = self.pids_of('roll-rank')
        self.kill_worker()
        wait_until(lambda: not set(ranks) & set(self.pids_of('roll-rank')),
                   'the dead worker\'s ranks to be gone')
        self.up()
        ended = self.wait_done(job)
        self.assertGreaterEqual(ended['attempt'], 2)
        self.assert_one_current_attempt(job, ended['attempt'])
        self.assert_same(job, self.undisturbed())


if __name__ == '__main__':
    unittest.main()
