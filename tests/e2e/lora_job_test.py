#!/usr/bin/env python3
"""train.lora as users have it: submitted, trained, exported by itself as a PEFT adapter or merged, and used."""
import glob
import json
import os
import random
import unittest

from harness import RollTest, json_of


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
        config = json_of(adapter, 'adapter_config.json')
        self.assertEqual((config['peft_type'], config['r'], config['base_model_name_or_path']), ('LORA', 4, self.base))
        self.assertIn('F32', self.ctl('inspect', adapter, '--json').stdout.upper())
        # The second job exports the average of the adapter.
        averaged, merged = self.run_to_export(self.lora_job('merged', train__ema={'decay': 0.5}, export={
            'merge': True, 'weights': 'ema', 'dtype': 'fp32'}))
        average = max(glob.glob(os.path.join(averaged['output'], 'checkpoints', '*', 'roll', 'ema')))
        self.ctl('merge', self.base, average, 'by_hand', '--to', 'hf')
        self.ctl('diff', merged, 'by_hand')
        differs = self.ctl('diff', merged, self.base, '--json', check=False)
        self.assertEqual(len(json.loads(differs.stdout)['differences']), 2 * 7)
        self.ctl('generate', merged, 'the', '--max-tokens', 4)
        during = {}
        for name, merge in (('peft', {}), ('whole', {'merge': True})):
            export = {'every': 1, **merge}
            done = self.wait_done(self.submit(self.lora_job(name, checkpoint__every=4, export=export)))
            self.wait_done(done['export_job'])
            during[name] = self.show(done['id'])['exports'][-1]['directory']
        self.assertIn('adapter_model.safetensors', os.listdir(during['peft']))
        self.ctl('generate', during['whole'], 'the', '--max-tokens', 4)
        again = self.submit(self.lora_job('again', train__steps=16, kind='resume', resume={'job': ended['id']},
                                          export='none'))
        self.wait_done(again)
        self.assertEqual([row['step'] for row in self.metrics(again) if 'loss' in row][-4:], [13, 14, 15, 16])

    def write_answers(self):
        """Writes prompts with completions, and pairs, of which the chosen answers have other letters."""
        rng = random.Random(3)
        word = lambda letters: ''.join(rng.choice(letters) for _ in range(rng.randint(3, 9)))
        rows = [(word('abcd ') + ':', word('aeiou'), word('xyzuv')) for _ in range(80)]
        self.write('answers.jsonl', ''.join(json.dumps({'prompt': prompt, 'completion': good}) + '\n'
                                            for prompt, good, _ in rows))
        self.write('pairs.jsonl', ''.join(json.dumps({'prompt': prompt, 'chosen': good, 'rejected': bad}) + '\n'
                                          for prompt, good, bad in rows))

    def stage(self, name, base, data, objective, **changes):
        """Returns a job of the chain, whose rank is killed after step 12 of its first attempt."""
        document = json_of(self.lora_job(name, train__valid_every=10, train__valid_at_start=True,
                                         train__optimizer__lr=1e-2, **changes))
        document['train']['steps'] = 30
        kill = 'test -e "$ROLL_OUTPUT/killed" || { touch "$ROLL_OUTPUT/killed"; kill -9 $PPID; }'
        document['train']['hooks'] = {'step': {'every': 12, 'command': ['sh', '-c', kill], 'wait': True}}
        return {**document, 'model': {'from': base}, 'data': {'train': [data], 'valid': 0.25}, 'objective': objective}

    def test_a_queued_chain_tunes_prefers_scores_and_speaks_although_ranks_die(self):
        self.corpus()
        self.write_answers()
        self.up(slots=1)
        self.base = '{base.result}'
        chain = json_of(self.train_job('base', steps=10, parallel={'dp': 1},
                                       resources={'nodes': 1, 'slots_per_node': 1}))
        merged = {'merge': True, 'dtype': 'fp32'}
        chain['then'] = [
            self.stage('tuned', '{base.result}', 'answers.jsonl', 'sft', export=merged),
            self.stage('prefers', '{tuned.result}', 'pairs.jsonl', 'dpo', export=merged),
            self.stage('scores', '{prefers.result}', 'pairs.jsonl', 'reward', export={}),
            {'name': 'speaks', 'kind': 'command',
             'command': ['rollctl', 'generate', '{prefers.result}', 'abc:', '--max-tokens', '8']}]
        ids = self.ctl('submit', '--parsable', self.write('chain.yaml', json.dumps(chain))).stdout.split()
        self.assertEqual(self.ctl('wait', f'{ids[0]}-{ids[-1]}').returncode, 0)
        for job, key, falls in ((ids[1], 'valid_loss', True), (ids[2], 'valid_rewards/accuracies', False),
                                (ids[3], 'valid_rewards/accuracies', False)):
            self.assertEqual(self.show(job)['attempt'], 2)
            valid = [row[key] for row in self.metrics(job) if key in row]
            self.assertTrue(valid[-1] < valid[0] if falls else valid[-1] > max(valid[0], 0.9), valid)
        adapter = os.path.join(self.output(ids[3]), 'export', 'hf', 'adapter_config.json')
        self.assertEqual(json_of(adapter)['task_type'], 'SEQ_CLS')
        self.assertIn('abc:', self.ctl('logs', ids[4]).stdout)


if __name__ == '__main__':
    unittest.main()
