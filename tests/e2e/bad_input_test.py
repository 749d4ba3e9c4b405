#!/usr/bin/env python3
"""Wrong input of users: each gives one clear sentence and the right exit code, and nothing is lost."""
import json
import os
import sys
import unittest

from harness import RollTest

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'oracle'))
from tiny_hf import write_llama  # noqa: E402


class BadInput(RollTest):

    def setUp(self):
        super().setUp()
        self.corpus()
        self.up()

    def daemon_is_unharmed(self):
        self.wait_done(self.submit('--', 'true'))

    def test_a_model_damaged_between_submit_and_start_is_one_sentence_and_exit_2(self):
        """Submit would refuse it (model_check_test.py), so only the ranks can notice it (factory_test.py)."""
        model = os.path.join(self.work, 'model')
        write_llama(model)
        job = self.submit(self.train_job(steps=5, model={'from': 'model'}, tokenizer='bytes'), '--hold')
        weights = os.path.join(model, 'model.safetensors')
        os.truncate(weights, os.path.getsize(weights) - 1)
        self.ctl('release', job)
        ended = self.wait(job)
        self.assertEqual((ended['state'], ended['exit_code']), ('failed', 2), ended)
        self.assertIn('model.safetensors', ended['reason'])
        self.assertNotIn('\n', ended['reason'])
        self.daemon_is_unharmed()

    def test_an_empty_text_ends_the_job_in_one_line(self):
        self.write('empty.txt', '')
        waited = self.ctl('submit', self.train_job(data={'train': ['empty.txt']}), '--wait', check=False)
        self.assertEqual(waited.returncode, 2)
        self.assertRegex(waited.stderr, r'(?m)^job \d+ failed: .*empty\.txt is empty$')

    def test_a_missing_corpus_is_named(self):
        os.unlink(os.path.join(self.work, 'corpus.txt'))
        done = self.ctl('submit', self.train_job(), '--wait', check=False)
        self.assertEqual(done.returncode, 125)  # not 2: nothing was queued, so no job ended
        self.assertIn('corpus.txt', done.stderr)
        self.daemon_is_unharmed()

    def test_generate_and_convert_name_what_they_cannot_read(self):
        for command in (('generate', 'nowhere', 'x'), ('generate', 'nowhere'), ('eval', 'nowhere'),
                        ('convert', 'nowhere', 'out'), ('inspect', 'nowhere')):
            done = self.ctl(*command, check=False)
            self.assertEqual(done.returncode, 3, (command, done.stderr))
            self.assertIn('nowhere', done.stderr)
        os.symlink('loop', os.path.join(self.work, 'loop'))
        for command in (('convert', 'loop', 'out'), ('convert', '.', 'loop/out'), ('verify', 'loop')):
            done = self.ctl(*command, check=False)
            self.assertEqual(done.returncode, 1, (command, done.stderr))
            self.assertRegex(done.stderr, r'^roll\S+: cannot use loop\S*: Too many levels of symbolic links\n$')
        for command in (('generate', '.', 'x'), ('eval', '.', '--data', 'corpus.txt'), ('inspect', '.')):
            done = self.ctl(*command, '--json', check=False)
            error = json.loads(done.stdout)['error']
            self.assertEqual((done.returncode, error['code'], error['hint']), (3, 'not_found', ''), command)
            self.assertRegex(error['message'], 'is not a known checkpoint format')
        done = self.ctl('generate', '.', check=False)
        self.assertEqual((done.returncode, done.stderr.split('\n')[0]), (2, 'roll-rank: PROMPT is required'))


if __name__ == '__main__':
    unittest.main()
