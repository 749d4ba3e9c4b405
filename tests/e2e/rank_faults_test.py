#!/usr/bin/env python3
"""Ranks and workers that are killed: the job retries from its checkpoint and ends the same."""
import os
import unittest

from harness import RollTest, wait_until

TIMES = ('time', 'seconds', 'tokens_per_second', 'mfu', 'eta', 'at', 'ms', 'tflops', 'memory')


def without_times(row):
    return {key: value for key, value in row.items()
            if not any(word in key.split('_') or key.endswith(word) for word in TIMES)}


class RankFaults(RollTest):
    STEPS = 400

    def setUp(self):
        super().setUp()
        self.corpus()
        self.up()

    def weights(self, job):
        """The bytes of the last checkpoint's weights and optimizer state."""
        newest = max(self.show(job)['checkpoints'], key=lambda c: c['step'])
        folder = newest['directory']
        found = {}
        for name in ('iter_0000001/mp_rank_00/model_optim_rng.pt', 'roll/optimizer.safetensors'):
            with open(os.path.join(folder, name), 'rb') as file:
                found[name] = file.read()
        return found

    def undisturbed(self):
        job = self.submit(self.train_job('calm', steps=self.STEPS, export='none'))
        self.wait_done(job)
        return job

    def assert_same(self, job, calm):
        self.assertEqual([without_times(row) for row in self.metrics(job)],
                         [without_times(row) for row in self.metrics(calm)])
        self.assertTrue(self.weights(job) == self.weights(calm), 'other weights than undisturbed')

    def assert_one_current_attempt(self, job, attempts):
        """In the job's history an attempt starts only after the one before it is over."""
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
