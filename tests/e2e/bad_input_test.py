#!/usr/bin/env python3
"""Wrong input of users and faults of disks: each gives one clear sentence and the right exit code, and nothing is
lost."""
import glob
import json
import os
import subprocess
import sys
import unittest

from harness import RollTest, wait_until

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'oracle'))
from tiny_hf import write_llama  # noqa: E402


class BadInput(RollTest):

    def setUp(self):
        super().setUp()
        self.corpus()
        self.up()

    def fails(self, job, pattern):
        """Checks that the job fails and that one sentence says why."""
        ended = self.wait(job)
        self.assertEqual(ended['state'], 'failed')
        self.assertRegex(ended['reason'], pattern)
        self.assertNotIn('\n', ended['reason'])
        return ended

    def daemon_is_unharmed(self):
        self.wait_done(self.submit('--', 'true'))

    def test_a_bad_job_file_is_refused_whole_with_every_problem(self):
        path = self.train_job(parallel__tp='two', nonsense=1, train__steps=-5)
        done = self.ctl('submit', path, check=False)
        self.assertEqual(done.returncode, 2)
        for name in ('parallel.tp', 'nonsense', 'train.steps'):
            self.assertIn(name, done.stderr)
        self.assertEqual(self.json('jobs', '-a')['jobs'], [])

    def test_what_is_not_built_yet_is_refused_by_name(self):
        done = self.ctl('submit', self.train_job(objective='dpo'), check=False)
        self.assertEqual(done.returncode, 2)
        self.assertIn('dpo', done.stderr)

    def test_every_bad_model_and_text_is_one_sentence_and_exit_2(self):
        """Submit refuses a bad model. If the model is damaged between submit and start, the ranks refuse it."""
        def bad(pattern, **changes):
            ended = self.fails(self.submit(self.train_job(steps=5, **changes)), pattern)
            self.assertEqual(ended['exit_code'], 2, ended)

        def bad_model(told, change, name, **changes):
            """Tests one bad model. `told` is the message of the ranks, and that of submit if it differs."""
            ranks, at_submit = told if isinstance(told, tuple) else (told, told)
            job = self.train_job(steps=5, model={'from': model(name)}, **changes)
            queued = self.submit(job, '--hold')
            change(os.path.join(self.work, name))
            refused = self.ctl('submit', job, check=False)
            self.assertEqual(refused.returncode, 2)
            self.assertRegex(refused.stderr, at_submit)
            self.ctl('release', queued)
            ended = self.fails(queued, ranks)
            self.assertEqual(ended['exit_code'], 2, ended)

        def model(name):
            folder = os.path.join(self.work, name)
            write_llama(folder)
            with open(os.path.join(folder, 'tokenizer.json'), 'w', encoding='utf-8') as file:
                json.dump(tokenizer(200), file)
            return name

        def config(**changes):
            def change(folder):
                path = os.path.join(folder, 'config.json')
                with open(path, encoding='utf-8') as file:
                    whole = {**json.load(file), **changes}
                with open(path, 'w', encoding='utf-8') as file:
                    json.dump(whole, file)
            return change

        def tokenizer(size):
            vocab = {chr(0x4e00 + i): i for i in range(size)}
            return {'version': '1.0', 'added_tokens': [], 'normalizer': None, 'pre_tokenizer': None, 'decoder': None,
                    'post_processor': None, 'model': {'type': 'BPE', 'vocab': vocab, 'merges': []}}

        def cut(folder):
            path = os.path.join(folder, 'model.safetensors')
            os.truncate(path, os.path.getsize(path) - 1)

        def lose(folder):
            os.rename(os.path.join(folder, 'model.safetensors'), os.path.join(folder, 'one.safetensors'))
            with open(os.path.join(folder, 'model.safetensors.index.json'), 'w', encoding='utf-8') as file:
                json.dump({'weight_map': {'model.norm.weight': 'one.safetensors',
                                          'lm_head.weight': 'two.safetensors'}}, file)

        def grow(folder):
            with open(os.path.join(folder, 'tokenizer.json'), 'w', encoding='utf-8') as file:
                json.dump(tokenizer(600), file)
        bad_model('model.safetensors', cut, 'cut')
        bad_model('two.safetensors, which does not exist', lose, 'lost')
        bad_model('the config says', config(intermediate_size=64), 'other')
        bad_model("has ids up to 599, but the model's embedding has 512 rows", grow, 'grown',
                  tokenizer='grown')
        def shorten(folder):
            config(max_position_embeddings=16)(folder)
            # without a tokenizer, the job's bytes may be the model's own
            os.unlink(os.path.join(folder, 'tokenizer.json'))
        bad_model(('train.seq_length: 32 is more than', 'train.seq_length is 32; allowed: at most 16'), shorten,
                  'short')
        self.write('empty.txt', '')
        waited = self.ctl('submit', self.train_job(data={'train': ['empty.txt']}), '--wait', check=False)
        self.assertEqual(waited.returncode, 2)
        self.assertRegex(waited.stderr, r'(?m)^job \d+ failed: .*empty\.txt is empty$')
        with open(os.path.join(self.work, 'huge.jsonl'), 'wb') as file:
            file.write(b'{"text": "')
            file.truncate((1 << 30) + (100 << 20))
        for kind in ('train', 'tokenize'):
            bad(r'huge.jsonl, line 1: has 1124 MiB; allowed: at most 1 GiB', data={'train': ['huge.jsonl']},
                kind=kind)
        self.daemon_is_unharmed()

    def test_a_missing_corpus_is_named(self):
        os.unlink(os.path.join(self.work, 'corpus.txt'))
        done = self.ctl('submit', self.train_job(), '--wait', check=False)
        self.assertEqual(done.returncode, 125)  # not 2: nothing was queued, so no job ended
        self.assertIn('corpus.txt', done.stderr)
        self.daemon_is_unharmed()

    def test_a_loss_gone_nan_ends_the_job_and_keeps_the_last_good_checkpoint(self):
        path = self.train_job(steps=400, export='none', checkpoint__every=2, train__optimizer={
            'lr': 1e12, 'min_lr': 1e12, 'warmup_steps': 100, 'schedule': 'constant',
            'weight_decay': 0.1, 'clip_grad': 0.0})
        ended = self.fails(self.submit(path, '--set', 'retry.app=0'), r'(?i)\bnan\b|not finite')
        self.assertEqual(ended['exit_code'], 3)
        self.daemon_is_unharmed()

    def test_a_flipped_byte_is_noticed_and_the_older_checkpoint_used(self):
        first = self.submit(self.train_job(steps=40, export='none'))
        self.wait_done(first)
        newest, older = sorted(self.show(first)['checkpoints'], key=lambda c: -c['step'])[:2]
        path = glob.glob(newest['directory'] + '/iter_*/mp_rank_00/model_optim_rng.pt')[0]
        with open(path, 'r+b') as file:
            file.seek(os.path.getsize(path) // 2)
            byte = file.read(1)
            file.seek(-1, os.SEEK_CUR)
            file.write(bytes([byte[0] ^ 1]))
        done = self.ctl('resume', first, '--set', 'train.steps=45', '--parsable')
        job = int(done.stdout.split()[0])
        self.wait_done(job)
        rows = self.metrics(job)
        self.assertEqual(rows[-1]['step'], 45)
        self.assertIn(older['step'] + 1, [row['step'] for row in rows])
        self.assertRegex(self.ctl('logs', job).stdout, r'skipped.*does not match its checksum')

    @unittest.skipUnless(os.geteuid() == 0, 'mounting a small disk needs root')
    def test_a_full_disk_in_a_checkpoint_keeps_the_last_good_one(self):
        disk = os.path.join(self.work, 'disk')
        os.makedirs(disk)
        done = subprocess.run(['mount', '-t', 'tmpfs', '-o', 'size=2m', 'tmpfs', disk],
                              capture_output=True, text=True)
        if done.returncode != 0:
            self.skipTest('this machine lets nobody mount a tmpfs: ' + done.stderr.strip())
        self.addCleanup(subprocess.run, ['umount', '--lazy', disk])
        path = self.train_job(steps=400, export='none', output=os.path.join(disk, 'out'),
                              checkpoint={'every': 20, 'keep': 50, 'wait_for_space': '2s'})
        job = self.submit(path)
        ended = self.fails(job, r'(?i)(disk full|no space)')
        self.assertEqual(ended['exit_code'], 4)
        self.assertEqual(ended['attempt'], 1, 'a full output is the job\'s own fault: no retry')
        kept = self.show(job)['checkpoints']
        self.assertTrue(kept, 'no good checkpoint was kept')
        for checkpoint in kept:
            self.ctl('verify', checkpoint['directory'])
        self.daemon_is_unharmed()

    def test_generate_and_convert_name_what_they_cannot_read(self):
        for command in (('generate', 'nowhere', 'x'), ('generate', 'nowhere'), ('eval', 'nowhere'),
                        ('convert', 'nowhere', 'out'), ('inspect', 'nowhere')):
            done = self.ctl(*command, check=False)
            self.assertEqual(done.returncode, 3, (command, done.stderr))
            self.assertIn('nowhere', done.stderr)
        done = self.ctl('generate', '.', check=False)
        self.assertEqual((done.returncode, done.stderr.split('\n')[0]), (2, 'roll-rank: PROMPT is required'))


if __name__ == '__main__':
    unittest.main()
