#!/usr/bin/env python3
"""rolld killed while a job trains: training goes on, and the job is adopted."""
import unittest

from harness import RollTest, is_alive, wait_until


class DaemonFaults(RollTest):

    def test_training_goes_on_without_rolld_and_the_job_is_adopted(self):
        self.corpus()
        self.up()
        job = self.submit(self.train_job(steps=1500, checkpoint__every=100))
        self.wait_step(job, 20)
        output = self.output(job)
        ranks = self.pids_of('roll-rank')
        self.kill_rolld()
        seen = self.rows_in(output)
        wait_until(lambda: self.rows_in(output) > seen + 20, 'training to go on without rolld')
        self.assertTrue(all(is_alive(pid) for pid in ranks))
        self.up()
        ended = self.wait_done(job)
        self.assertEqual(ended['attempt'], 1, 'the job was started again instead of adopted')
        self.assertEqual(self.metrics(job)[-1]['step'], 1500)
        self.wait_done(ended['export_job'])

    def rows_in(self, output):
        with open(f'{output}/metrics.jsonl', encoding='utf-8') as file:
            return sum(1 for _ in file)


if __name__ == '__main__':
    unittest.main()
