#!/usr/bin/env python3
"""train.lora as users have it: submitted, trained, exported by itself as a PEFT adapter or merged, and used."""
import json
import os
import unittest

from harness import RollTest


class LoraJob(RollTest):

    def lora_job(self, name, **changes):
        return self.train_job(name, steps=12, model={'from': self.base}, resources={'nodes': 1, 'slots_per_node': 1},
                              parallel={'dp': 1}, train__lora={'r': 4, 'alpha': 8}, **changes)

    def run_to_export(self, job):
        ended = self.wait_done(self.submit(job))
        self.wait_done(ended['export_job'])
        return ended, os.path.join(ended['output'], 'export', 'hf')

    def test_the_export_is_an_adapter_or_the_merged_model(self):
        self.corpus()
        self.up()
        self.base = self.run_to_export(self.train_job('base', steps=6))[1]
        ended, adapter = self.run_to_export(self.lora_job('adapter', export={}))
        with open(os.path.join(adapter, 'adapter_config.json'), encoding='utf-8') as file:
            config = json.load(file)
        self.assertEqual((config['peft_type'], config['r'], config['base_model_name_or_path']), ('LORA', 4, self.base))
        self.assertIn('F32', self.ctl('inspect', adapter, '--json').stdout.upper())
        merged = self.run_to_export(self.lora_job('merged', export={'merge': True, 'dtype': 'fp32'}))[1]
        self.ctl('merge', self.base, adapter, 'by_hand', '--to', 'hf')
        self.ctl('diff', merged, 'by_hand')
        differs = self.ctl('diff', merged, self.base, '--json', check=False)
        self.assertEqual(len(json.loads(differs.stdout)['differences']), 2 * 7)
        self.ctl('generate', merged, 'the', '--max-tokens', 4)
        again = self.submit(self.lora_job('again', train__steps=16, kind='resume', resume={'job': ended['id']},
                                          export='none'))
        self.wait_done(again)
        self.assertEqual([row['step'] for row in self.metrics(again) if 'loss' in row][-4:], [13, 14, 15, 16])

    def test_what_cannot_be_trained_is_refused_at_submit(self):
        self.corpus()
        self.up()
        self.base = self.run_to_export(self.train_job('base', steps=6))[1]
        for lora, text in (({'targets': ['q_proj', 'wq']}, 'train.lora.targets has wq, which matches no linear layer'),
                           ({'targets': []}, 'train.lora.targets is empty'),
                           ({'dropout': 1.5}, 'train.lora.dropout is 1.5; allowed: a number, at least 0, below 1'),
                           ({'modules_to_save': ['q_proj']}, 'train.lora.modules_to_save has q_proj, which cannot be'),
                           ({'rank_pattern': {'x': 2}}, 'train.lora.rank_pattern.x is not one of the targets'),
                           ({'r': 0}, 'train.lora.r')):
            done = self.ctl('submit', self.train_job('bad', model={'from': self.base}, train__lora=lora), check=False)
            self.assertNotEqual(done.returncode, 0)
            self.assertIn(text, ' '.join((done.stdout + done.stderr).split()))
        done = self.ctl('submit', self.train_job('bad', train__lora={}), check=False)
        self.assertIn('train.lora needs a trained model; set model.from', done.stdout + done.stderr)
        done = self.ctl('submit', self.train_job('bad', export={'merge': True}), check=False)
        self.assertIn('export.merge is true, but there is no adapter to merge', done.stdout + done.stderr)


if __name__ == '__main__':
    unittest.main()
