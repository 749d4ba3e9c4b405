#!/usr/bin/env python3
"""The main job: it trains on two ranks and exports by itself, and transformers loads the export."""
import json
import os
import re
import subprocess
import unittest

import notify_test
from harness import ORACLE, RollTest, json_of, wait_until


BITS_PER_BYTE = '''
import sys, torch
from transformers import AutoModelForCausalLM
model = AutoModelForCausalLM.from_pretrained(sys.argv[1], dtype=torch.float32).eval()
ids = torch.tensor([list(b"the same bytes in both programs")])
with torch.no_grad():
    logits = model(ids).logits
assert torch.isfinite(logits).all()
print(model.num_parameters(), float(model(ids, labels=ids).loss))
'''


class MainJob(RollTest):

    def test_trains_exports_by_itself_and_loads_in_transformers(self):
        self.corpus()
        self.up()
        job = self.submit(self.train_job(steps=60))
        followed = self.ctl('wait', job, '--follow').stdout
        ended = self.wait_done(job)
        rows = [row for row in self.metrics(job) if 'loss' in row]
        self.assertEqual([row['step'] for row in rows], list(range(1, 61)))
        self.assertLess(rows[-1]['loss'], 0.9 * rows[0]['loss'])
        self.assertRegex(followed, rf'\n  loss +{rows[0]["loss"]:.4g} at step 1 to '
                                   rf'{rows[-1]["loss"]:.4g} at step 60\n')
        self.assertRegex(followed, rf'\n  export +{ended["output"]}/export/hf')
        started, _ = re.split(r'step +1/60', self.ctl('logs', job).stdout, maxsplit=1)
        self.assertLessEqual(started.count('\n'), 25, 'a start that nobody reads')
        export = self.wait_done(ended['export_job'])
        self.assertEqual(export['kind'], 'convert')
        self.assertEqual(self.json('show', 'last')['job']['id'], job, 'not the export')
        self.assertRegex(self.ctl('metrics', 'last', '--plot').stdout, '^loss: .* at step 1, .* at step 60\n')
        folder = os.path.join(ended['output'], 'export', 'hf')
        self.assertEqual(json_of(folder, 'config.json')['model_type'], 'llama')
        self.assertIn('model.safetensors', os.listdir(folder))
        checkpoints = os.listdir(os.path.join(ended['output'], 'checkpoints'))
        self.assertEqual(len(checkpoints), 2, f'keep: 2 left {checkpoints}')
        done = subprocess.run([ORACLE, '-c', BITS_PER_BYTE, folder], capture_output=True,
                              text=True, env={'PATH': '/usr/bin:/bin', 'HF_HUB_OFFLINE': '1'})
        self.assertEqual(done.returncode, 0, done.stderr[-2000:])
        text = self.ctl('generate', folder, 'the ', '--max-tokens', '8', '--seed', '1').stdout
        self.assertTrue(text.strip())
        self.assertEqual(text, self.ctl('generate', folder, 'the ', '--max-tokens', '8', '--seed',
                                        '1').stdout)

    def test_stages_train_export_and_go_on_in_another_layout(self):
        self.corpus()
        self.up()
        job = self.submit(self.train_job(steps=20, parallel={'pp': 2}))
        ended = self.wait_done(job)
        losses = [row['loss'] for row in self.metrics(job) if 'loss' in row]
        self.wait_done(ended['export_job'])
        export = os.path.join(ended['output'], 'export', 'hf')
        self.assertTrue(self.ctl('generate', export, 'the ', '--max-tokens', '8').stdout.strip())
        again = self.submit(self.train_job(name='again', steps=30, kind='resume', resume={'job': job},
                                           parallel={'dp': 2}))
        self.wait_done(again)
        rows = [row for row in self.metrics(again) if 'loss' in row]
        self.assertEqual([row['step'] for row in rows], list(range(1, 31)))
        self.assertEqual([row['loss'] for row in rows[:20]], losses)

    def test_checkpoints_are_exported_while_the_job_trains_and_is_killed(self):
        self.corpus()
        self.up()
        job = self.submit(self.train_job(steps=400, parallel={'pp': 2}, checkpoint__every=20,
                                         export={'every': 2, 'keep': 3, 'dtype': 'bf16'}))
        wait_until(lambda: self.show(job)['exports'], 'an export')
        self.kill_worker()
        self.ctl('up', '--slots', 2)
        ended = self.wait_done(job)
        exports = self.show(job)['exports']
        # A checkpoint is skipped if the export of an earlier one still runs when the next one is due.
        self.assertIn(len(exports), (2, 3), exports)
        steps = [one['step'] for one in exports]
        self.assertEqual(steps[-1], 360)
        self.assertEqual({step % 40 for step in steps}, {0})
        folder = os.path.join(ended['output'], 'export')
        self.assertEqual(sorted(name for name in os.listdir(folder) if 'step' in name),
                         [os.path.basename(one['directory']) for one in exports])
        self.assertEqual(os.path.basename(exports[-1]['directory']), 'hf-step-00000360')
        recorded = [one['text'] for one in self.events(job) if 'export of step' in one['text']]
        self.assertEqual(len(recorded), len(set(recorded)), recorded)
        self.assertRegex(self.ctl('show', job).stdout, r'STEP +EXPORT\n')
        done = subprocess.run([ORACLE, '-c', BITS_PER_BYTE, exports[-1]['directory']], capture_output=True,
                              text=True, env={'PATH': '/usr/bin:/bin', 'HF_HUB_OFFLINE': '1'})
        self.assertEqual(done.returncode, 0, done.stderr[-2000:])
        self.wait_done(ended['export_job'])

    def test_the_export_is_of_the_best_checkpoint_where_one_is_kept(self):
        """A job learns 600 bytes by heart. Its held-out loss falls, then rises until the job stops early."""
        with open(self.corpus(), 'r+b') as file:
            file.truncate(700)
        self.up()
        job = self.submit(self.train_job(
            steps=400, data__valid=0.15, train__valid_every=5, train__early_stop={'patience': 3},
            train__optimizer={'lr': 1e-2, 'schedule': 'constant'}, checkpoint={'keep': 1, 'keep_best': True}))
        ended = self.wait_done(job)
        self.wait_done(ended['export_job'])
        losses = {row['step']: row['valid_loss'] for row in self.metrics(job) if 'valid_loss' in row}
        best, last = min(losses, key=losses.get), max(losses)
        self.assertLess(best, last)
        self.assertIn(f'using the best checkpoint, step {best}\n', self.ctl('logs', ended['export_job']).stdout)
        # because the export has other weights
        self.assertFalse([row for row in self.metrics(job) if 'export_valid_loss' in row])

        def weights(folder):
            with open(os.path.join(folder, 'model.safetensors'), 'rb') as file:
                return file.read()
        at = {one['step']: one['directory'] for one in self.show(job)['checkpoints']}
        for step in (best, last):
            self.ctl('convert', at[step], f'of-{step}', '--to', 'hf', '--dtype', 'fp32')
        exported = weights(os.path.join(ended['output'], 'export', 'hf'))
        self.assertTrue(exported == weights(os.path.join(self.work, f'of-{best}')), 'not the best')
        self.assertFalse(exported == weights(os.path.join(self.work, f'of-{last}')))

    def test_a_resumed_job_trains_the_steps_that_are_left(self):
        self.corpus()
        self.up()
        half = self.submit(self.train_job('half', steps=20, export='none', checkpoint__every=10))
        self.wait_done(half)
        fewer = self.ctl('resume', half, '--set', 'train.steps=15', check=False)
        self.assertEqual((fewer.returncode, fewer.stdout), (2, ''))
        self.assertIn(f'train.steps is 15; allowed: at least 20, the step of the newest checkpoint of job {half}',
                      fewer.stderr)
        more = int(self.ctl('resume', half, '--set', 'train.steps=30', '--set', 'output=more',
                            '--parsable').stdout.split()[0])
        self.wait_done(more)
        self.assertEqual(self.show(more)['output'], os.path.join(self.work, 'more'))
        self.assertEqual([row['step'] for row in self.metrics(more) if 'loss' in row], list(range(1, 31)))


class Webhook(RollTest):
    serve, start_notify = notify_test.Notify.serve, notify_test.Notify.start_notify

    def setUp(self):
        super().setUp()
        self.started = []

    def tearDown(self):
        for started in self.started:
            started.kill()
            started.wait()
        super().tearDown()

    def test_each_recorded_checkpoint_reaches_a_server(self):
        self.up()
        server = self.serve()
        self.write(os.path.join(self.state, 'notify.yaml'), json.dumps({'targets': [
            {'name': 'web', 'url': f'http://127.0.0.1:{server.server_port}/hook', 'on': ['checkpointed'],
             'kinds': ['train']}]}))
        self.start_notify()
        wait_until(lambda: os.path.exists(os.path.join(self.state, 'notify', 'web.position')), 'a position')
        self.corpus()
        job = int(self.submit(self.train_job(steps=30, export='none', checkpoint={'every': 10, 'keep': 9})))
        self.wait_done(job)
        steps = [one['step'] for one in self.show(job)['checkpoints']]
        self.assertEqual(sorted(steps), [10, 20, 30])
        wait_until(lambda: len(server.seen) >= 3, 'the notifications')
        self.assertEqual([(body['event'], body['job']['id'], body['data']['step']) for _, body in server.seen],
                         [('checkpointed', job, step) for step in (10, 20, 30)])


if __name__ == '__main__':
    unittest.main()
