#!/usr/bin/env python3
"""Killed ranks and workers: the job retries from its checkpoint and ends the same."""
import unittest

from harness import RollTest, wait_until


class RankFaults(RollTest):

    def test_a_killed_rank_or_worker_costs_an_attempt_and_changes_no_bit(self):
        self.corpus()
        self.up()
        calm = self.train('calm')
        self.wait_done(calm)

        job = self.train('rank')
        self.wait_checkpoint(job)
        ranks = wait_until(lambda: self.pids_of('roll-rank'), 'ranks to run')
        self.kill(ranks[-1])
        self.expect_retried(job, calm)

        job = self.train('worker')
        self.wait_checkpoint(job)
        ranks = self.pids_of('roll-rank')
        self.kill_worker()
        wait_until(lambda: not set(ranks) & set(self.pids_of('roll-rank')),
                   'the dead worker\'s ranks to be gone')
        self.up()
        self.expect_retried(job, calm)

    def train(self, name):
        return self.submit(self.train_job(name, steps=400, export='none'))

    def expect_retried(self, job, calm):
        """Checks that each attempt in the job's history starts only after the previous one is over, and that the job
        ends as `calm` does."""
        ended = self.wait_done(job)
        self.assertGreaterEqual(ended['attempt'], 2)
        kinds = [event['kind'] for event in self.events(job)
                 if event['kind'] in ('attempt_placed', 'attempt_ended')]
        self.assertEqual(kinds, ['attempt_placed', 'attempt_ended'] * ended['attempt'])
        self.assert_same(job, calm)


if __name__ == '__main__':
    unittest.main()
