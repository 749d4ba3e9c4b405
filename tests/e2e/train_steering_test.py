#!/usr/bin/env python3
"""Training jobs from outside: a checkpoint on demand."""
import json
import os
import unittest

from harness import RollTest


class TrainSteering(RollTest):

    def test_a_checkpoint_on_demand_and_training_goes_on(self):
        self.corpus()
        self.up()
        job = self.submit(self.train_job(steps=100000, checkpoint__every=0, export='none'))
        self.wait_step(job, 3)
        folder = self.ctl('checkpoint', job).stdout.strip()
        self.assertIn('model_optim_rng.pt', os.listdir(
            os.path.join(folder, 'iter_0000001', 'mp_rank_00')))
        first = self.json('show', job)['job']['checkpoints']
        self.assertEqual([one['directory'] for one in first], [folder])
        again = json.loads(self.ctl('checkpoint', job, '--json').stdout)
        self.assertGreater(again['step'], first[0]['step'])
        self.assertEqual(self.show(job)['attempt'], 1)
        self.ctl('cancel', job)
        self.assertEqual(self.wait(job)['state'], 'cancelled')
        refused = self.ctl('checkpoint', job, check=False)
        self.assertEqual(refused.returncode, 4)
        self.assertIn('is over', refused.stderr)


if __name__ == '__main__':
    unittest.main()
