#!/usr/bin/env python3
"""The record of a run: its settings in the output and in checkpoints, and bitwise reproduction."""
import json
import math
import os
import unittest

from ranks import RankCase, json_of, write_text

FROZEN = ['decoder.layers.0.*', 'embedding.*']


def files_of(folder):
    """Returns {path: bytes} of all files below a directory."""
    found = {}
    for place, _, names in os.walk(folder):
        for name in names:
            path = os.path.join(place, name)
            with open(path, 'rb') as file:
                found[os.path.relpath(path, folder)] = file.read()
    return found


def moments_of(checkpoint):
    with open(os.path.join(checkpoint, 'roll/optimizer/rank-00000.safetensors'), 'rb') as file:
        header = json.loads(file.read(int.from_bytes(file.read(8), 'little')))
    return {name.rsplit('.', 1)[0] for name in header if name != '__metadata__'}


class Record(RankCase):

    def test_the_job_beside_the_run_gives_the_same_losses_again(self):
        run = self.run_whole(1, 1, self.document(10, train__seed=5))
        record = json_of(run.output, 'job.json')
        self.assertEqual(record['parallel'], {'dp': 2, 'tp': 1, 'pp': 1, 'vpp': 1, 'cp': 1, 'ep': 1})
        again = self.run_whole(2, 1, record)
        self.assertEqual([row['loss'] for row in again.metrics() if 'loss' in row],
                         [row['loss'] for row in run.metrics() if 'loss' in row])

    def test_two_runs_are_bitwise_the_same_checkpoint_files_too(self):
        document = self.document(6, train__deterministic=True)
        first, second = self.run_whole(1, 1, document), self.run_whole(2, 1, document)
        self.assertIn('deterministic: true changes nothing on CPUs', first.log())
        ours, theirs = files_of(first.published[-1][1]), files_of(second.published[-1][1])
        self.assertGreater(len(ours), 6)
        self.assertEqual(ours, theirs)

    def test_a_resumed_run_says_what_is_different_now(self):
        first = self.run_whole(1, 1, self.document(4, dp=1))
        document = self.document(6, dp=1, kind='resume', train__optimizer__lr=1e-3)
        del document['train']['optimizer']['min_lr']
        more = self.run_whole(2, 1, document, first.published, kind='resume')
        told = [line for line in more.log().splitlines() if line.startswith('another setting: ')]
        self.assertEqual(told, [
            'another setting: train.optimizer.lr was 0.003 and is 0.001',
            'another setting: train.optimizer.min_lr was 0.0003 and is not set',
            'another setting: train.steps was 4 and is 6'])
        self.assertIn('\nlearning rate: starting at step 4, the rate differs from the rate of the job that '
                      'wrote the checkpoint (train.steps or train.optimizer changed):\n', more.log())
        table = [line.split() for line in more.log().splitlines() if line.startswith('  ')][:3]
        rates = [row['lr'] for row in first.metrics() + more.metrics() if row['step'] in (4, 5, 6) and 'lr' in row]
        self.assertEqual(table[0], ['step', '4', '5', '6'])
        self.assertEqual(table[1], ['job', 'before', f'{first.metrics()[3]["lr"]:.4g}', 'ended', 'ended'])
        self.assertEqual(table[2][-2:], [f'{rate:.4g}' for rate in rates[-2:]])
        self.assertIn('learning rate: the warm-up lasts until step 5\n', more.log())
        wider = self.document(6, dp=1, kind='resume', model__hidden_size=64, model__intermediate_size=96)
        self.refused(wider, 2, 'is a checkpoint of another model: ', kind='resume', checkpoints=first.published)
        self.refused(wider, 2, 'model.hidden_size is 64 in the job and 32 in the checkpoint; ', kind='resume',
                     checkpoints=first.published)

    def test_a_resumed_run_of_the_same_horizon_says_nothing_of_the_learning_rate(self):
        first = self.run_whole(1, 1, self.document(4, dp=1, checkpoint__every=2))
        again = self.run_whole(2, 1, self.document(4, dp=1, kind='resume', train__seed=2), first.published[:1],
                               kind='resume')
        self.assertIn('another setting: train.seed was 1 and is 2', again.log())
        self.assertNotIn('learning rate', again.log())

    def test_fewer_steps_than_the_checkpoint_has_are_refused(self):
        first = self.run_whole(1, 1, self.document(4, dp=1))
        self.refused(self.document(3, dp=1, kind='resume'), 2,
                     f'train.steps: 3 is less than step 4 of the checkpoint {first.published[-1][1]} from '
                     'which the job continues; set more steps', kind='resume', checkpoints=first.published)
        same = self.run_whole(3, 1, self.document(4, dp=1, kind='resume'), first.published, kind='resume')
        self.assertIn('\nall 4 steps of train.steps are done: nothing is left to train\n', same.log())

    def test_another_corpus_of_as_many_tokens_is_noticed(self):
        first = self.run_whole(1, 1, self.document(2, dp=1))
        resume = self.document(3, dp=1, kind='resume')
        same = self.run_whole(2, 1, resume, first.published, kind='resume')
        self.assertNotIn('data.train', same.log())
        with open(self.corpus, 'r+b') as file:
            file.seek(5000)
            letter = file.read(1)
            file.seek(5000)
            file.write(b'q' if letter == b'z' else b'z')
        other = self.run_whole(3, 1, resume, first.published, kind='resume')
        self.assertIn('training continues on other data', other.log())
        self.assertIn('\nwarning: the content of data.train[0] has changed since '
                      f'{first.published[-1][1]} was written\n',
                      other.log())
        # If the hash of all bytes is known, it is compared too.
        verified = self.run_whole(4, 1, self.document(2, dp=1, data__verify=True))
        self.assertEqual(len(json.loads(verified.weights(2)['roll/state.json'])['data'][0].split()), 2)

    def test_rows_say_what_was_clipped_and_how_many_gradients_are_zero(self):
        run = self.run_whole(1, 1, self.document(12, dp=1, train__optimizer__clip_grad=1.5, checkpoint__every=5,
                                                 train__metrics={'grad_zeros': True}))
        rows = [row for row in run.metrics() if 'loss' in row]
        clipped = 0
        for row in rows:
            self.assertAlmostEqual(row['clip_factor'], min(1, 1.5 / (row['grad_norm'] + 1e-6)), places=12)
            clipped += row['clip_factor'] < 1
            self.assertAlmostEqual(row['clipped_share'], clipped / row['step'], places=12)
            # The embedding of a byte that does not occur in the text gets no gradient.
            self.assertTrue(32 * 150 < row['grad_zeros'] < 32 * 256, row)
        self.assertTrue(0 < clipped < len(rows), clipped)
        self.assertNotIn('grad_zeros', self.run_whole(2, 1, self.document(1)).metrics()[0])
        resumed = self.run_whole(1, 2, self.document(12, dp=1, train__optimizer__clip_grad=1.5,
                                                     train__metrics={'grad_zeros': True}), run.published[1:2])
        self.assertEqual(resumed.metrics(), run.metrics())

    def test_a_baseline_is_measured_before_the_first_step(self):
        run = self.run_whole(1, 1, self.document(4, train__valid_at_start=True, train__valid_every=2,
                                                 checkpoint__keep_best=True))
        valid = [row for row in run.metrics() if 'valid_loss' in row]
        self.assertEqual([row['step'] for row in valid], [0, 2, 4])
        self.assertEqual(run.metrics()[0], valid[0])
        self.assertAlmostEqual(valid[0]['valid_loss'], math.log(256), delta=0.1)
        for row in valid:
            self.assertAlmostEqual(row['valid_perplexity'], math.exp(row['valid_loss']), places=9)
        resumed = self.run_whole(1, 2, self.document(4, train__valid_at_start=True, train__valid_every=2),
                                 run.published[:1])
        self.assertEqual(resumed.metrics(), run.metrics())

    def test_sets_have_intervals_of_their_own(self):
        news = os.path.join(self.top, 'news.txt')
        write_text(news, 'the news of today are the news of yesterday ' * 9)
        run = self.run_whole(1, 1, self.document(
            12, dp=1, train__valid_every=6, train__valid_every_of={'news': 4}, train__valid_tokens_of={'more': 1000},
            data__track='tail', data__valid={'tail': 0.02, 'news': news, 'more': [news]}))
        told = {}
        for row in run.metrics():
            for key in row:
                if key.startswith('valid_loss'):
                    told.setdefault(key, []).append(row['step'])
        # A step is 256 tokens. The fourth crosses 1000, the eighth 2000; the twelfth crosses 3000 and is the last.
        self.assertEqual(told, {'valid_loss': [6, 12], 'valid_loss/tail': [6, 12], 'valid_loss/news': [4, 8, 12],
                                'valid_loss/more': [4, 8, 12]})

    def test_files_too_short_for_a_sequence_are_counted_in_the_log(self):
        small = []
        for size in (10, 32, 33, 5, 7):  # 33 bytes are enough: 32 inputs and one more to predict
            small.append(os.path.join(self.top, f'{size}.txt'))
            write_text(small[-1], 'x' * size)
        data = {'data__train': [self.corpus, *small], 'data__valid': 0}
        run = self.run_whole(1, 1, self.document(1, dp=1, **data))
        self.assertIn('warning: 4 of 6 files of data.train (54 tokens) are shorter than a sequence of 32 and '
                      'are not used: '
                      f'{small[0]}, {small[1]}, {small[3]}, ...; join them', run.log())
        self.assertNotIn('data.train', self.run_whole(2, 1, self.document(1, dp=1)).log())

    def test_decay_follows_patterns_over_names(self):
        rates = {'train__optimizer__lr': 1e-3, 'train__optimizer__warmup_steps': 0,
                 'train__optimizer__weight_decay': 100.0}
        plain = self.run_whole(1, 1, self.document(1, dp=1, train__precision='fp64', **rates)).doubles(1)
        none = self.run_whole(2, 1, self.document(1, dp=1, train__precision='fp64', **rates,
                                                  train__optimizer__decays={'*': False})).doubles(1)
        some = self.run_whole(3, 1, self.document(1, dp=1, train__precision='fp64', **rates, train__optimizer__decays={
            '*.linear_fc1.weight': False, 'decoder.final_layernorm.weight': True})).doubles(1)
        fewer = [name for name in plain if '.exp_avg' not in name and some[name] != plain[name]]
        # The gate and up matrices of two layers do not decay, and the last norm does; all others follow the rule.
        self.assertEqual(sorted(len(plain[name]) for name in fewer), [32] + 4 * [64 * 32])
        for name in fewer:
            if len(plain[name]) > 32:
                self.assertEqual(some[name], none[name])
            else:
                worst = max(abs(a - (b - 0.1)) for a, b in zip(some[name], plain[name]))
                self.assertLess(worst, 1e-12)

    def test_frozen_parameters_have_no_moments_and_may_thaw(self):
        document = self.document(3, dp=1, model__freeze=FROZEN, train__optimizer__schedule='constant')
        flops = [json.loads(self.plan(one, '--json').stdout)['flops_per_token']['causal']
                 for one in (self.document(3, dp=1), document)]
        # Backward ends above the first layer, which is frozen as a whole. Neither the weights nor the inputs of its
        # products (q, k, v and o; gate, up and down) have gradients, nor has its attention (two products of width 32
        # over 16.5 tokens on average). The embedding is not a product.
        self.assertEqual(flops[0] - flops[1], 2 * 2 * (4 * 32 * 32 + 3 * 32 * 64) + 2 * 2 * 2 * 32 * 16.5)
        first = self.run_whole(1, 1, document)
        have = moments_of(first.published[-1][1])
        self.assertNotIn('embedding.word_embeddings.weight', have)
        self.assertEqual([name for name in have if name.startswith('decoder.layers.0.')], [])
        self.assertIn('decoder.layers.1.mlp.linear_fc1.weight', have)
        thawed = self.run_whole(2, 1, self.document(5, dp=1, kind='resume', train__optimizer__schedule='constant'),
                                first.published, kind='resume')
        self.assertIn('embedding.word_embeddings.weight', moments_of(thawed.published[-1][1]))
        self.assertIn('another setting: model.freeze.0 was "decoder.layers.0.*" and is not set', thawed.log())


if __name__ == '__main__':
    unittest.main()
