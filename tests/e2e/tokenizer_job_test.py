#!/usr/bin/env python3
"""A model with a tokenizer, as users have it: trained from its directory on lines of text, exported, and used to
generate."""
import json
import os
import subprocess
import unittest

from harness import ORACLE, RollTest, json_of, text_of

HF_TEXT = os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'oracle', 'hf_text.py')


class TokenizerJob(RollTest):

    def hf(self, *commands):
        words = [word for command in commands for word in ('--', *map(str, command))][1:]
        done = subprocess.run([ORACLE, HF_TEXT, *words], capture_output=True, text=True, check=False,
                              env={'PATH': '/usr/bin:/bin'})
        self.assertEqual(done.returncode, 0, done.stderr[-2000:])
        return json.loads(done.stdout)

    def test_trains_from_a_directory_and_its_export_says_what_transformers_says(self):
        corpus = self.corpus()
        self.hf(('make', os.path.join(self.work, 'model'), corpus, 'bos=1'))
        words = text_of(corpus).split(' ')
        rows = [json.dumps({'body': ' '.join(words[at:at + 40])}) for at in range(0, 12000, 40)]
        self.write('lines.jsonl', '\n'.join([*rows[:9], 'no line', *rows[9:]]) + '\n')
        job = self.train_job('words', steps=30, model={'from': 'model'}, tokenizer=None, export__dtype='fp32',
                             data={'train': ['lines.jsonl'], 'field': 'body', 'attention': 'within_documents',
                                   'valid': {'tail': 0.05, 'text': 'corpus.txt'}})
        document = json_of(job)
        del document['tokenizer']
        self.write('words.yaml', json.dumps(document))
        self.up()
        refused = self.wait(self.submit(job))
        self.assertEqual((refused['state'], refused['exit_code']), ('failed', 2), refused)
        self.assertIn('lines.jsonl, line 10: ', refused['reason'])
        document['data']['on_bad_line'] = 'skip'
        self.write('words.yaml', json.dumps(document))
        ended = self.wait_done(self.submit(job))
        rows = [row for row in self.metrics(ended['id']) if 'valid_loss' in row]
        self.assertIn('valid_loss/text', rows[-1])
        first = [row for row in self.metrics(ended['id']) if 'loss' in row][0]
        self.assertLess(rows[-1]['valid_loss'], 0.9 * first['loss'])
        self.wait_done(ended['export_job'])
        export = os.path.join(ended['output'], 'export', 'hf')
        prompts = [' '.join(words[at:at + 3]) for at in (5, 50, 500)]
        said, ids, theirs = self.hf(('generate', export, 'float32', 16, *prompts), ('ids', export, corpus),
                                    ('ids', os.path.join(self.work, 'model'), corpus))
        self.assertEqual(ids, theirs, 'the tokenizer came along')
        for prompt, text in zip(prompts, said['texts']):
            ours = json.loads(self.ctl('generate', export, prompt, '--max-tokens', 16, '--json').stdout)
            self.assertEqual(ours['prompt'] + ours['text'], text)
        sampled = ['generate', export, prompts[0], '--temperature', '0.9', '--top-p', '0.9', '--seed', '4']
        self.assertEqual(self.ctl(*sampled).stdout, self.ctl(*sampled).stdout)
        self.assertNotEqual(self.ctl(*sampled).stdout, self.ctl(*sampled[:-1], '5').stdout)

    def test_a_preview_shows_what_a_file_and_a_job_teach(self):
        self.write('pairs.jsonl', json.dumps({'prompt': 'who? ', 'completion': 'me'}) + '\n')
        self.write('lines.jsonl', json.dumps({'text': 'all of it'}) + '\n')
        self.assertIn('\n  who? {+me+}\n', self.ctl('data', 'preview', 'pairs.jsonl').stdout)
        self.assertIn('\n  {+all of it+}\n', self.ctl('data', 'preview', 'lines.jsonl').stdout)
        coloured = self.ctl('data', 'preview', 'pairs.jsonl', '--color', 'always').stdout
        self.assertIn('\n  who? \x1b[32mme\x1b[0m\n', coloured)
        job = self.train_job('pairs', steps=9, objective='sft', data={'train': ['pairs.jsonl'], 'train_on': 'all'})
        self.assertIn('\n  {+who? me+}\n', self.ctl('data', 'preview', job).stdout)
        shown, = self.json('data', 'preview', job, '--set', 'train.seq_length=3')['files']
        self.assertEqual((shown['tokens'], shown['documents_cut']), (4, 1))
        self.assertEqual(self.ctl('data', 'preview', 'pairs.txt', check=False).returncode, 2)


if __name__ == '__main__':
    unittest.main()
