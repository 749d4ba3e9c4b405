#!/usr/bin/env python3
"""objective: sft: only completions are learned, each from its own prompt, as by transformers."""
import json
import os
import random
import signal
import unittest

from ranks import Attempt, RankCase, write_text

LENGTH = 32
# packing, truncation
RULES = (('in_order', 'end'), ('best_fit', 'end'), ('in_order', 'start'), ('in_order', 'prompt'), ('best_fit', 'split'),
         ('wrapped', 'end'))


def write_pairs(path, count, seed=3):
    """Writes pairs of many sizes: empty prompts, pairs longer than a sequence, and one that fits exactly."""
    rng = random.Random(seed)
    word = lambda size: ''.join(rng.choice('abcdefghij é') for _ in range(size))
    with open(path, 'w', encoding='utf-8') as file:
        for i in range(count):
            prompt = {0: '', 1: word(40)}.get(i, word(rng.randint(1, 14)))
            file.write(json.dumps({'prompt': prompt, 'completion': word(30 if i == 2 else rng.randint(1, 12))}) + '\n')
    return path


def read_pairs(path):
    """Returns prompts and completions as bytes, which are the tokens."""
    with open(path, encoding='utf-8') as file:
        return [(pair['prompt'].encode(), pair['completion'].encode()) for pair in map(json.loads, file)]


class SftTest(RankCase):

    def pairs(self, steps, path, **changes):
        return self.document(steps, **{'objective': 'sft', 'data': {'train': [path], 'valid': 0.0}, **changes})

    def test_loss_and_gradients_are_those_of_transformers_with_labels_of_minus_100(self):
        self.oracle('hf_start.py', 'make', self.top, 'float64')
        start = os.path.join(self.top, 'plain')
        path = write_pairs(os.path.join(self.top, 'pairs.jsonl'), 9)
        size = sum(len(prompt + completion) for prompt, completion in read_pairs(path))
        with open(path, 'a', encoding='utf-8') as file:  # now wrapped rows use all tokens
            file.write(json.dumps({'prompt': 'p' * 50, 'completion': 'c' * ((1 - 50 - size) % LENGTH + 4)
                                   + 'd' * (LENGTH - 4)}) + '\n')
        first = {'model': {'from': start}, 'train__precision': 'fp64', 'train__optimizer__lr': 0.0,
                 'train__optimizer__min_lr': 0.0, 'train__optimizer__beta1': 0.0, 'train__optimizer__clip_grad': 0.0}
        runs, words = [], []
        for number, (packing, truncate) in enumerate(RULES, start=1):
            rules = {'data__packing': packing, 'data__truncate': truncate, 'train__micro_batch_size': 1}
            epoch = self.pairs(1, path, dp=1, train__epochs=1, train__global_batch_size=1,
                               train__optimizer__warmup_steps=0, **rules)
            del epoch['train']['steps']
            rows = json.loads(self.plan(epoch, '--json').stdout)['steps']
            run = self.run_whole(number, 1, self.pairs(1, path, dp=1, train__global_batch_size=rows, **rules, **first))
            runs.append((packing, truncate, rows, run.metrics()[0]))
            words += [os.path.join(run.published[-1][1], 'roll/optimizer/rank-00000.safetensors'),
                      'wrapped' if packing == 'wrapped' else truncate]
        self.assertEqual(runs[0][2], self.packed_rows(path))
        self.assertLess(runs[1][2], runs[0][2])
        told = json.loads(self.oracle('sft_gradients.py', start, path, LENGTH, *words))
        for (packing, truncate, rows, row), step in zip(runs, told, strict=True):
            print(f"{packing} {truncate}, {rows} rows, {row['tokens']} tokens: loss {row['loss']:.6f}, off by "
                  f"{row['loss'] - step['loss']:+.1e}; gradients by at most {max(step['off'].values()):.1e}")
            self.assertEqual(row['tokens'], step['tokens'])
            self.assertLess(abs(row['loss'] - step['loss']), 1e-10 * step['loss'])
            self.assertLess(max(step['off'].values()), 1e-10)
        self.assertEqual(len({step['loss'] for step in told}), len(told) - 1)  # only one rule twice

    def test_two_ranks_learn_what_one_learns_and_what_is_held_out_is_completions(self):
        path = write_pairs(os.path.join(self.top, 'pairs.jsonl'), 300)
        document = lambda dp: self.pairs(20, path, dp=dp, data__valid=0.1, train__precision='fp64',
                                         train__valid_every=10, train__valid_at_start=True)
        one, two = self.run_whole(1, 1, document(1)), self.run_whole(2, 2, document(2))
        rows = list(zip(one.metrics(), two.metrics(), strict=True))
        for a, b in rows:
            for key in ('loss', 'valid_loss', 'valid_tokens', 'tokens'):
                self.assertAlmostEqual(a.get(key, 0), b.get(key, 0), delta=1e-10 * abs(a.get(key, 0)))
        valid = [a for a, _ in rows if 'valid_loss' in a]
        self.assertEqual(len(valid), 3)
        self.assertLess(valid[-1]['valid_loss'], valid[0]['valid_loss'])
        learned = sum(len(completion) for _, completion in read_pairs(path))
        self.assertLess(valid[0]['valid_tokens'], 0.12 * learned)

    def test_epochs_give_the_steps_and_a_resumed_run_keeps_them(self):
        path = write_pairs(os.path.join(self.top, 'pairs.jsonl'), 100)
        document = self.pairs(1, path, dp=1, train__epochs=2.5, train__optimizer__warmup_steps=0,
                              train__optimizer__warmup_ratio=0.2)
        del document['train']['steps']
        plan = json.loads(self.plan(document, '--json').stdout)
        rows = self.packed_rows(path)
        steps = -(-5 * rows // 2 // 8) if rows % 2 == 0 else -(-(5 * rows + 1) // 2 // 8)
        self.assertEqual((plan['epochs'], plan['steps']), (2.5, steps))
        self.assertIn(f'the run     2.5 epochs = {steps} steps', self.plan(document).stdout)
        run = self.run_whole(1, 1, document)
        self.assertEqual([row['step'] for row in run.metrics()], list(range(1, steps + 1)))
        self.assertIn(f'{steps} steps (2.5 epochs) of 8 x 32 tokens', run.log())
        counted = self.document(steps, dp=1, **{'objective': 'sft', 'data': document['data'],
                                                'train__optimizer__warmup_steps': -(-steps // 5)})
        self.assertEqual(self.run_whole(2, 1, counted).metrics(), run.metrics())
        saving = dict(document, checkpoint={'every': 4, 'keep': 9, 'format': 'mca'})
        first = Attempt(self, 3, 1, saving)
        first.wait()
        # A run that continues in a later epoch reads the rows in the order of that epoch.
        step, folder = [point for point in first.published if rows < 8 * point[0] < 8 * steps][-1]
        late = self.run_whole(5, 1, saving, [(step, folder)])
        self.assertEqual([row for row in late.metrics() if row['step'] > step], run.metrics()[step:])
        wider = dict(document, train=dict(document['train'], global_batch_size=16))
        resumed = self.run_whole(4, 1, wider, [point for point in first.published if point[0] == 4])
        left = -(-(5 * rows + 1) // 2) - 32
        self.assertEqual(resumed.metrics()[-1]['step'], 4 - (-left // 16))

    def test_a_warm_up_longer_than_the_epochs_is_refused(self):
        path = write_pairs(os.path.join(self.top, 'pairs.jsonl'), 9)
        document = self.pairs(1, path, dp=1, train__epochs=1)
        del document['train']['steps']
        self.refused(document, 2, 'train.epochs gives 1 step, but train.optimizer.warmup_steps is 5; '
                     'set warmup_steps to at most 1')
        document['train']['optimizer']['warmup_steps'] = 0
        self.assertIn('the run     1 epoch = 1 step, ', self.plan(document).stdout)

    def packed_rows(self, path):
        """Returns the number of rows of LENGTH inputs and one more token that whole pairs fill."""
        rows, room = 0, 0
        for prompt, completion in read_pairs(path):
            if len(prompt + completion) > room:
                rows, room = rows + 1, LENGTH + 1
            room -= len(prompt + completion)
        return rows

    def resumes_bitwise(self, document):
        """Stops a run by SIGTERM in its second pass over the data or later, and resumes it."""
        whole = self.run_whole(1, 1, document)
        first = Attempt(self, 2, 1, document)
        first.wait_step(40)
        for process in first.ranks:
            process.send_signal(signal.SIGTERM)
        self.assertEqual(first.wait(), [75, 75], first.log())
        at = first.published[-1][0]
        self.assertTrue(40 <= at < 150, at)
        second = self.run_whole(2, 2, document, reversed(first.published))
        self.assertIn(f'resumed at step {at} ', second.log())
        self.assertEqual(second.metrics(), whole.metrics())
        self.assertEqual(second.weights(150), whole.weights(150))
        return whole

    def test_a_stopped_run_over_packed_rows_resumes_bitwise(self):
        path = write_pairs(os.path.join(self.top, 'pairs.jsonl'), 200)
        rows = self.resumes_bitwise(self.pairs(150, path, data__valid=0.1, train__valid_every=25)).metrics()
        passes = sum(row['tokens'] for row in rows[-2:-1]) / sum(len(completion) for _, completion in read_pairs(path))
        self.assertGreater(passes * 40 / 150, 1)

    def test_a_stopped_run_over_documents_kept_apart_resumes_bitwise(self):
        path = os.path.join(self.top, 'lines.jsonl')
        with open(path, 'w', encoding='utf-8') as file:
            for prompt, completion in read_pairs(write_pairs(os.path.join(self.top, 'pairs.jsonl'), 300)):
                file.write(json.dumps({'text': (prompt + completion).decode()}) + '\n')
        self.resumes_bitwise(self.document(150, data={'train': [path], 'valid': 0.1,
                                                      'attention': 'within_documents'}, train__valid_every=25))

    def test_what_is_held_out_without_a_token_to_predict_is_refused(self):
        path = write_pairs(os.path.join(self.top, 'pairs.jsonl'), 30)
        long = os.path.join(self.top, 'long.jsonl')
        write_text(long, json.dumps({'prompt': 'a' * 80, 'completion': 'b'}) + '\n')
        document = self.pairs(4, path, dp=1, data__valid={'asked': [long]})
        self.refused(document, 2, 'data.valid: of 1 validation window of asked, none has a token to predict')

    def write_sizes(self, name, *sizes):
        """Writes pairs of the given sizes in bytes."""
        path = os.path.join(self.top, name)
        with open(path, 'w', encoding='utf-8') as file:
            for prompt, completion in sizes:
                file.write(json.dumps({'prompt': 'a' * prompt, 'completion': 'b' * completion}) + '\n')
        return path

    def test_documents_that_are_cut_or_teach_nothing_are_counted_and_told(self):
        # The third pair is truncated within its completion, the fourth before its completion; the fifth is one token.
        path = self.write_sizes('pairs.jsonl', (5, 5), (20, 13), (20, 20), (60, 9), (0, 1))
        run = self.run_whole(1, 1, self.pairs(2, path, dp=1))
        told = '5 documents: 2 cut to 33 tokens, 2 without a token to learn'
        self.assertIn(f'\n{told}\n', run.log())
        self.assertIn(f'\nwarning: data.train: {told}; set train.seq_length to 68 so that none is cut\n', run.log())
        with open(os.path.join(run.output, 'metrics.jsonl'), encoding='utf-8') as file:
            head = json.loads(file.readline())
        self.assertEqual([head[key] for key in ('documents', 'documents_cut', 'documents_unlearned')], [5, 2, 2])
        dropped = self.run_whole(3, 1, self.pairs(1, path, dp=1, data__truncate='drop'))
        self.assertIn('\n5 documents: 0 cut to 33 tokens, 2 longer and dropped, 1 without a token to learn\n',
                      dropped.log())
        self.refused(self.pairs(1, path, dp=1, data__truncate='error'), 2, f'{path}: document 3 has 40 tokens; allowed '
                     'with data.truncate error: at most 33; set train.seq_length to a larger number, or data.truncate '
                     'to another rule')
        whole = self.run_whole(2, 1, self.pairs(1, self.write_sizes('whole.jsonl', (5, 5), (20, 13)), dp=1))
        self.assertIn('\n2 documents: 0 cut to 33 tokens, 0 without a token to learn\n', whole.log())
        self.assertNotIn('warning: data.train', whole.log())

    def test_a_job_that_learns_nothing_is_refused(self):
        path = self.write_sizes('pairs.jsonl', (33, 5), (60, 9), (0, 1))
        self.refused(self.pairs(2, path, dp=1), 2, 'data.train: of 3 documents, none has a token to learn: 2 '
                     'with no completion in the first 33 tokens, 1 with a single token (the first token of a document '
                     'is never predicted); set train.seq_length to 68 so that none is cut')
        lines = os.path.join(self.top, 'lines.jsonl')
        write_text(lines, '{"text": "a"}\n' * 80)
        document = self.document(2, dp=1, data={'train': [lines], 'valid': 0.0, 'attention': 'within_documents'})
        self.refused(document, 2, 'of 80 documents, none has a token to learn: 80 with a single token')
        document['data']['attention'] = 'across_documents'
        self.run_whole(3, 1, document)


if __name__ == '__main__':
    unittest.main()
