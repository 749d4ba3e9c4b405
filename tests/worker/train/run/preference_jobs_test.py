#!/usr/bin/env python3
"""objective: dpo and its kin, and kto, as jobs: the reference, layouts, continued jobs, and refused files."""
import glob
import json
import math
import os
import random
import signal
import subprocess
import unittest

from ranks import ORACLE, Attempt, RankCase, json_of

REWARDS = ('rewards/chosen', 'rewards/rejected', 'rewards/margins', 'rewards/accuracies', 'logps/chosen',
           'logps/rejected', 'nll_loss', 'pairs')
LORA = {'r': 4, 'alpha': 8}
# The means of the scores that transformers, and PEFT if there is an adapter, give the answers of the last pairs.
SCORES = '''
import json, sys, torch
from transformers import AutoModelForSequenceClassification
base, adapter, path, count = sys.argv[1:]
model = AutoModelForSequenceClassification.from_pretrained(base, num_labels=1, dtype=torch.float64)
if adapter:
    from peft import PeftModel
    model = PeftModel.from_pretrained(model, adapter)
pairs = [json.loads(line) for line in open(path, encoding='utf-8')][-int(count):]
with torch.no_grad():
    print([sum(model.eval()(torch.tensor([list((pair['prompt'] + pair[side]).encode())])).logits.item()
               for pair in pairs) / len(pairs) for side in ('chosen', 'rejected')])
'''


def write_pairs(path, count, seed=3):
    """Writes pairs of which the chosen answer has other letters than the rejected one."""
    rng = random.Random(seed)
    word = lambda letters, size: ''.join(rng.choice(letters) for _ in range(size))
    with open(path, 'w', encoding='utf-8') as file:
        for _ in range(count):
            file.write(json.dumps({'prompt': word('abcdefgh ', rng.randint(1, 9)) + ':',
                                   'chosen': word('aeiou', rng.randint(2, 14)),
                                   'rejected': word('xyzuv', rng.randint(2, 14))}) + '\n')
    return path


def write_labelled(path, count, seed=4):
    """Writes the same kind of answers without partners, two thirds of them chosen."""
    rng = random.Random(seed)
    word = lambda letters, size: ''.join(rng.choice(letters) for _ in range(size))
    with open(path, 'w', encoding='utf-8') as file:
        for i in range(count):
            good = i % 3 > 0
            file.write(json.dumps({'prompt': word('abcdefgh ', rng.randint(1, 9)) + ':',
                                   'completion': word('aeiou' if good else 'xyzuv', rng.randint(2, 14)),
                                   'label': good}) + '\n')
    return path


class PreferenceTest(RankCase):

    def setUp(self):
        super().setUp()
        self.start = self.base_model(self.document(2, dp=1, train__precision='fp64'))
        self.path = write_pairs(os.path.join(self.top, 'pairs.jsonl'), 60)

    def pairs(self, steps, dp=1, **changes):
        return self.document(steps, dp=dp, **{
            'objective': 'dpo', 'model': {'from': self.start}, 'data': {'train': [self.path], 'valid': 0.2},
            'train__precision': 'fp64', 'train__global_batch_size': 4, 'train__micro_batch_size': 2,
            'train__valid_every': 3, 'train__valid_at_start': True, 'checkpoint__every': 3, **changes})

    def stored(self):
        return glob.glob(os.path.join(self.top, 'tokens', 'reference-*'))

    def test_every_layout_trains_as_one_rank_from_a_loss_of_log_2(self):
        one = self.run_whole(1, 1, self.pairs(6))
        rows = one.metrics()
        self.assertAlmostEqual(rows[0]['valid_loss'], math.log(2), delta=1e-12)
        self.assertAlmostEqual(rows[1]['loss'], math.log(2), delta=1e-12)
        for key in REWARDS:
            self.assertIn(key, rows[1])
            self.assertIn('valid_' + key, rows[0])
        self.assertNotIn('valid_perplexity', rows[0])
        self.assertEqual((rows[1]['rewards/margins'], rows[1]['pairs'], rows[0]['valid_rewards/accuracies']), (0, 4, 0))
        valid = [row for row in rows if 'valid_loss' in row]
        self.assertLess(valid[-1]['valid_loss'], valid[0]['valid_loss'])
        self.assertGreater(valid[-1]['valid_rewards/accuracies'], 0.9)
        self.assertIn('margin +', one.log())
        for job, slots, parallel in ((2, 2, {'dp': 2, 'zero': 2}), (3, 2, {'dp': 1, 'tp': 2, 'sequence': True}),
                                     (4, 2, {'dp': 1, 'pp': 2})):
            for file in self.stored():
                os.remove(file)
            run = self.run_whole(job, 1, self.pairs(6, resources={'nodes': 1, 'slots_per_node': slots},
                                                    parallel=parallel))
            self.expect_close(run.metrics(), rows)
            self.expect_close_tensors(run.doubles(6) if job == 2 else one.doubles(6), one.doubles(6))

    def test_a_continued_job_keeps_its_reference(self):
        """Bitwise, with the stored values, and with values that are computed again although the weights have moved."""
        for job, lora in ((1, None), (4, LORA)):
            document = self.pairs(6, dp=2, **({'train__lora': lora} if lora else {}))
            for file in self.stored():
                os.remove(file)
            whole = self.run_whole(job, 1, document)
            self.assertIn(f'reference {self.start}: log-probabilities of 39 pairs, 39 of them computed', whole.log())
            again = self.run_whole(job + 1, 1, document, checkpoints=whole.published[:1])
            self.assertIn('39 pairs, 0 of them computed', again.log())
            self.assertEqual(again.metrics(), whole.metrics())
            for file in self.stored():
                os.remove(file)
            anew = self.run_whole(job + 2, 1, document, checkpoints=whole.published[:1])
            self.assertIn('resumed at step 3', anew.log())
            self.assertIn('39 pairs, 39 of them computed', anew.log())
            self.assertEqual(anew.metrics(), whole.metrics())

    def test_a_changed_reference_is_refused_when_it_is_needed(self):
        whole = self.run_whole(1, 1, self.pairs(3))
        for name in ('config.json', 'model.safetensors'):
            os.utime(os.path.join(self.start, name), (1, 1))
        again = self.run_whole(2, 1, self.pairs(3), checkpoints=whole.published)
        self.assertIn('0 of them computed', again.log())
        for file in self.stored():
            os.remove(file)
        self.refused(self.pairs(3), 2, f'the reference model {self.start} has changed since the job started',
                     checkpoints=whole.published)

    def test_another_model_is_the_reference(self):
        other = self.exported(self.run_whole(98, 1, self.document(4, dp=1, train__precision='fp64')), 'other')
        run = self.run_whole(1, 1, self.pairs(1, objective={'kind': 'dpo', 'reference': other}))
        self.assertIn(f'reference {other}: ', run.log())
        self.assertGreater(abs(run.metrics()[0]['valid_loss'] - math.log(2)), 1e-4)

    def test_adapters_below_the_trained_one_are_part_of_the_reference(self):
        """Also if a job without them has stored its reference for the same pairs and the same model."""
        first = self.run_whole(1, 1, self.pairs(6, train__lora=LORA))
        adapter = first.published[-1][1]
        over = self.run_whole(2, 1, self.pairs(1, model={'from': self.start, 'adapters': [adapter]}, train__lora=LORA))
        self.assertIn('19 pairs, 19 of them computed', over.log())
        self.assertAlmostEqual(over.metrics()[0]['valid_loss'], math.log(2), delta=1e-12)

    def test_an_adapter_that_is_trained_further_is_part_of_the_reference(self):
        """Unless the job names its reference. The values that another job stored for the same pairs are not used."""
        adapter = self.run_whole(1, 1, self.pairs(6, train__lora=LORA)).published[-1][1]
        further = {**LORA, 'from': adapter}
        job = self.run_whole(2, 1, self.pairs(6, train__lora=further))
        self.assertIn('39 pairs, 39 of them computed', job.log())
        self.assertAlmostEqual(job.metrics()[0]['valid_loss'], math.log(2), delta=1e-12)
        for file in self.stored():
            os.remove(file)
        anew = self.run_whole(3, 1, self.pairs(6, train__lora=further), checkpoints=job.published[:1])
        self.assertIn('resumed at step 3', anew.log())
        self.assertEqual(anew.metrics()[-1], job.metrics()[-1])
        named = self.pairs(1, train__lora=further, objective={'kind': 'dpo', 'reference': self.start})
        self.assertLess(self.run_whole(4, 1, named).metrics()[0]['valid_loss'], math.log(2) - 1e-4)

    def test_a_stopped_pass_over_the_reference_keeps_what_it_computed(self):
        path = write_pairs(os.path.join(self.top, 'many.jsonl'), 6000)
        document = self.pairs(1500, data__train=[path], data__valid=0.0)
        first = Attempt(self, 1, 1, document)
        while not any(report['p'].get('pairs', 0) for report in first.said('progress')):
            self.assertIsNone(first.ranks[0].poll(), first.log())
        first.ranks[0].send_signal(signal.SIGTERM)
        self.assertEqual(first.wait(), [75], first.log())
        self.assertEqual(first.metrics(), [])
        self.assertEqual(len(self.stored()), 1)
        again = self.run_whole(2, 1, dict(document, train=dict(document['train'], steps=2, valid_at_start=False)))
        self.assertIn('12 pairs, 0 of them computed', again.log())

    def test_objectives_without_a_reference_need_no_model(self):
        sizes = self.document(1)['model']
        for job, kind in ((1, 'orpo'), (2, 'simpo'), (3, 'cpo')):
            run = self.run_whole(job, 1, self.pairs(12, objective=kind, model=sizes, train__precision='bf16'))
            valid = [row for row in run.metrics() if 'valid_loss' in row]
            self.assertLess(valid[-1]['valid_loss'], valid[0]['valid_loss'], kind)
            self.assertNotIn('reference', run.log())

    def test_labelled_answers_train_in_every_layout_and_go_on(self):
        path = write_labelled(os.path.join(self.top, 'labelled.jsonl'), 60)
        kto = lambda **changes: self.pairs(6, objective='kto', data__train=[path], **changes)
        one = self.run_whole(1, 1, kto())
        self.assertRegex(one.log(), rf'reference {self.start}: log-probabilities of \d+ answers')
        rows = one.metrics()
        self.assertAlmostEqual(rows[0]['valid_loss'], 0.5, delta=1e-12)  # the model is its reference
        self.assertEqual((rows[0]['valid_kl'], rows[1]['kl'], rows[1]['answers']), (0, 0, 4))
        for key in ('rewards/margins', 'rewards/chosen', 'rewards/rejected', 'logps/chosen', 'logps/rejected'):
            self.assertIn('valid_' + key, rows[0])
        valid = [row for row in rows if 'valid_loss' in row]
        self.assertLess(valid[-1]['valid_loss'], valid[0]['valid_loss'])
        self.assertGreater(valid[-1]['valid_rewards/margins'], 0)
        self.assertIn('answers labelled chosen', one.log())
        run = self.run_whole(2, 1, kto(resources={'nodes': 1, 'slots_per_node': 4},
                                       parallel={'dp': 2, 'pp': 2, 'zero': 1}))
        self.expect_close(run.metrics(), rows)
        for file in self.stored():
            os.remove(file)
        again = self.run_whole(3, 1, kto(), checkpoints=one.published[:1])
        self.assertIn('resumed at step 3', again.log())
        self.assertEqual(again.metrics(), rows)
        pairs = self.run_whole(4, 1, self.pairs(2, objective={'kind': 'kto', 'loss': 'apo_zero_unpaired'}))
        self.assertIn('pairs.jsonl: 240 documents', pairs.log())  # two answers of each pair, with their labels
        self.assertEqual((pairs.metrics()[1]['answers'], pairs.metrics()[1]['kl']), (4, 0))

    def test_a_reward_model_trains_in_every_layout_and_goes_on(self):
        """A checkpoint continues bitwise. A job with another objective refuses a reward model."""
        reward = lambda job, **changes: self.run_whole(job, 1, self.pairs(
            6, objective={'kind': 'reward', 'center_rewards_coefficient': 0.01}, **changes))
        one = reward(1)
        self.assertIn('the score layer is new', one.log())
        rows = one.metrics()
        self.assertEqual((rows[1]['pairs'], 'nll_loss' in rows[1], 'logps/chosen' in rows[1]), (4, False, False))
        valid = [row for row in rows if 'valid_loss' in row]
        self.assertLess(valid[-1]['valid_loss'], valid[0]['valid_loss'])
        self.assertGreater(valid[-1]['valid_rewards/accuracies'], 0.9)
        for job, slots, parallel in ((2, 2, {'dp': 2, 'zero': 3}), (3, 2, {'dp': 1, 'tp': 2, 'sequence': True}),
                                     (4, 4, {'dp': 2, 'pp': 2, 'zero': 1})):
            run = reward(job, resources={'nodes': 1, 'slots_per_node': slots}, parallel=parallel)
            self.expect_close(run.metrics(), rows)
            if job == 2:
                self.expect_close_tensors(run.doubles(6), one.doubles(6))
        again = self.run_whole(5, 1, self.pairs(6, objective={'kind': 'reward', 'center_rewards_coefficient': 0.01}),
                               checkpoints=one.published[:1])
        self.assertIn('resumed at step 3', again.log())
        self.assertEqual(again.metrics(), rows)
        export = self.exported(one, 'reward')
        self.refused(self.pairs(1, model={'from': export}), 2, 'is a reward model')
        self.expect_scores(valid[-1], export)

    def expect_scores(self, row, base, adapter=''):
        told = subprocess.run([ORACLE, '-c', SCORES, base, adapter, self.path, str(row['valid_pairs'])], check=True,
                              capture_output=True, text=True)
        for side, score in zip(('chosen', 'rejected'), json.loads(told.stdout)):
            self.assertAlmostEqual(score, row['valid_rewards/' + side], delta=2e-6)

    def test_a_reward_model_with_an_adapter_trains_its_score_whole(self):
        document = self.pairs(6, objective='reward', train__lora=LORA)
        one = self.run_whole(1, 1, document)
        rows = one.metrics()
        config = json_of(one.published[-1][1], 'adapter_config.json')
        self.assertEqual((config['task_type'], config['modules_to_save']), ('SEQ_CLS', ['score']))
        run = self.run_whole(2, 1, dict(document, resources={'nodes': 1, 'slots_per_node': 2},
                                        parallel={'dp': 1, 'tp': 2}))
        self.expect_close(run.metrics(), rows)
        again = self.run_whole(3, 1, document, checkpoints=one.published[:1])
        self.assertEqual(again.metrics(), rows)
        self.expect_scores(rows[-1], self.start, one.published[-1][1])

    def test_pairs_that_are_cut_or_teach_nothing_are_counted(self):
        with open(self.path, 'a', encoding='utf-8') as file:
            file.write(json.dumps({'prompt': 'a' * 40, 'chosen': 'b', 'rejected': 'c'}) + '\n')
            file.write(json.dumps({'prompt': 'a', 'chosen': 'b' * 40, 'rejected': 'c'}) + '\n')
        run = self.run_whole(1, 1, self.pairs(1, data__valid=0.0))
        self.assertIn('62 pairs: 2 cut to 33 tokens, 1 without a token to learn', run.log())
        self.assertIn('warning: data.train: 62 pairs', run.log())


if __name__ == '__main__':
    unittest.main()
