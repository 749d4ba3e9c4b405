#!/usr/bin/env python3
"""Training jobs from outside: a checkpoint on demand, and a chain in one file."""
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

    def test_a_chain_in_one_file_goes_from_training_to_a_command_on_the_export(self):
        self.corpus()
        self.up()
        path = self.train_job('first', steps=6)
        with open(path, encoding='utf-8') as file:
            document = json.load(file)
        document['then'] = [
            {'name': 'as-mca', 'kind': 'convert',
             'convert': {'source': '{previous.result}', 'target': '{first.output}/again', 'to': 'mca'}},
            {'name': 'look', 'kind': 'command',
             'command': ['sh', '-c', 'ls {first.result} {as-mca.result}; echo after {first.id}']}]
        self.write('first.yaml', json.dumps(document))
        ids = self.ctl('submit', '--parsable', path).stdout.split()
        self.assertEqual(ids, ['1', '2', '3'])
        self.assertEqual(self.ctl('wait', '1-3').returncode, 0)
        log = self.ctl('logs', 3).stdout
        for name in ('model.safetensors', 'mca_config.json', 'after 1'):
            self.assertIn(name, log)
        export = self.show(1)['export_job']
        self.assertGreaterEqual(self.show(2)['started_at'], self.show(export)['ended_at'])

    def test_a_chain_falls_with_its_first_job(self):
        self.up()
        path = self.write('chain.yaml', json.dumps({
            'name': 'a', 'kind': 'command', 'command': ['false'], 'retry': {'app': 0},
            'then': [{'name': 'b', 'kind': 'command', 'command': ['true']}]}))
        self.ctl('submit', path)
        self.assertEqual(self.wait(1)['state'], 'failed')
        self.assertEqual(self.wait(2)['state'], 'cancelled')
        wrong = self.write('wrong.yaml', json.dumps({
            'name': 'a', 'kind': 'command', 'command': ['true'],
            'then': [{'name': 'b', 'kind': 'command', 'command': ['{c.output}']}]}))
        done = self.ctl('submit', wrong, check=False)
        self.assertEqual(done.returncode, 2)
        self.assertIn('no earlier job of the chain is called c', done.stderr)

    def test_a_line_of_the_log_stops_a_job_and_labels_it(self):
        self.up()
        path = self.write('logs.yaml', json.dumps({
            'name': 'logs', 'kind': 'command', 'retry': {
                'app': 5, 'on_log': [{'match': 'CUDA error.*ECC', 'label': 'ecc'},
                                     {'match': '^FATAL', 'then': 'stop'}, {'match': 'never'}]},
            'command': ['sh', '-c', 'echo CUDA error: bad ECC; echo FATAL x >&2; exit 3']}))
        ended = self.wait(self.submit(path))
        self.assertEqual((ended['state'], ended['attempt'], ended['exit_code']), ('failed', 1, 3))
        self.assertEqual(ended['labels'], ['ecc'])
        self.assertIn('its log has: ^FATAL', ended['reason'])


if __name__ == '__main__':
    unittest.main()
