#!/usr/bin/env python3
"""Megatron-core 0.16.1 as the peer: it computes with Roll's checkpoints, and Roll continues its training runs."""
import json
import os
import random
import shutil
import subprocess
import unittest

from ranks import CONVERT, RankCase, write_text

LENGTH, ROWS, MICRO_BATCHES = 32, 2, 4
CONFIG = {'model_type': 'llama', 'hidden_size': 32, 'intermediate_size': 64, 'num_hidden_layers': 4,
          'num_attention_heads': 4, 'num_key_value_heads': 2, 'vocab_size': 256, 'max_position_embeddings': 64,
          'rms_norm_eps': 1e-6, 'rope_theta': 10000.0, 'tie_word_embeddings': False}
SIZES = {'num_layers': 4, 'hidden_size': 32, 'ffn_hidden_size': 64, 'num_attention_heads': 4, 'num_query_groups': 2,
         'kv_channels': 8}
OPTIMIZER = {'lr': 3e-3, 'betas': [0.9, 0.95], 'eps': 1e-8, 'weight_decay': 0.1, 'clip_grad': 1.0}
CLOSE = 1e-6  # of losses in fp32, relative


class Megatron(RankCase):

    def setUp(self):
        super().setUp()
        count = ROWS * MICRO_BATCHES
        text = ''.join(random.Random(3).choices('etaoin shrdlu', k=count * LENGTH + 1))
        write_text(self.corpus, text)
        windows = [list(text[i * LENGTH:(i + 1) * LENGTH + 1].encode()) for i in range(count)]
        self.windows = [windows[i:i + ROWS] for i in range(0, count, ROWS)]

    def job(self, steps, dp=1, tp=1, pp=1, **changes):
        """Returns a document whose every step trains on all windows."""
        sizes = {key: value for key, value in CONFIG.items() if key != 'model_type'}
        rates = {'lr': OPTIMIZER['lr'], 'schedule': 'constant', 'warmup_steps': 0, 'weight_decay': 0.1,
                 'clip_grad': 1.0, 'beta1': 0.9, 'beta2': 0.95, 'eps': 1e-8}
        return self.document(steps, dp=dp, **{
            'model': {'family': 'llama', **sizes}, 'data': {'train': [self.corpus], 'valid': 0}, 'parallel__tp': tp,
            'parallel__pp': pp, 'resources__slots_per_node': dp * tp * pp, 'train__optimizer': rates,
            'train__seq_length': LENGTH, 'train__global_batch_size': ROWS * MICRO_BATCHES,
            'train__micro_batch_size': ROWS // min(dp, 2), 'checkpoint__every': 3, 'checkpoint__keep': 9, **changes})

    def megatron(self, phases, **changes):
        """Returns the losses of Megatron's phases."""
        path = os.path.join(self.top, 'task.json')
        with open(path, 'w', encoding='utf-8') as file:
            json.dump({'sizes': SIZES, 'vocabulary': CONFIG['vocab_size'], 'optimizer': OPTIMIZER,
                       'windows': self.windows, 'phases': phases, **changes}, file)
        return json.loads(self.oracle('megatron_steps.py', path).splitlines()[-1])

    def with_config(self, directory):
        write_text(os.path.join(directory, 'config.json'), json.dumps(CONFIG))
        return directory

    def losses(self, run, after=0):
        return [row['loss'] for row in run.metrics() if 'loss' in row and row['step'] > after]

    def same(self, ours, theirs):
        self.assertEqual(len(ours), len(theirs))
        for mine, other in zip(ours, theirs):
            self.assertLess(abs(mine - other), CLOSE * abs(other), (ours, theirs))

    def test_each_continues_the_runs_of_the_other(self):
        run = self.run_whole(1, 1, self.job(5, tp=2, pp=2))
        at_3 = dict(run.published)[3]
        ours = os.path.join(self.top, 'ours')
        subprocess.run([CONVERT, 'convert', at_3, ours, '--to', 'torch_dist', '--optimizer', '--transformer-impl',
                        'local', '--verify'], check=True, capture_output=True)
        layout = {'tp': 2, 'pp': 2}
        rank_files = os.path.join(self.top, 'rank-files')
        subprocess.run([CONVERT, 'convert', at_3, rank_files, '--to', 'mca', '--tp', '2', '--optimizer'], check=True,
                       capture_output=True)
        buckets = os.path.join(self.top, 'buckets')
        subprocess.run([CONVERT, 'convert', at_3, buckets, '--to', 'torch_dist', '--optimizer', '--optimizer-kind',
                        'dp_reshardable', '--tp', '2', '--transformer-impl', 'local', '--verify'], check=True,
                       capture_output=True)
        # Megatron also loads the files that the ranks of a job have written in its own format.
        dist = self.run_whole(4, 1, self.job(3, tp=2, pp=2, checkpoint__format='torch_dist'))
        kinds = {os.path.join(self.top, kind): kind for kind in ('fully_reshardable', 'dp_reshardable')}
        forward, continued, of_buckets, of_ranks, beside, whole = self.megatron([
            {'layout': layout, 'mca': at_3, 'forward': True},
            {'layout': {'dp': 2}, 'load': os.path.join(ours, 'iter_0000001'), 'steps': 2},
            {'layout': {'tp': 2}, 'load': os.path.join(buckets, 'iter_0000001'), 'kind': 'dp_reshardable', 'steps': 2},
            {'layout': {'tp': 2}, 'load': os.path.join(dist.published[-1][1], 'iter_0000001'), 'steps': 2},
            {'layout': {'tp': 2}, 'mca': rank_files, 'steps': 2,
             'dist_optimizer': os.path.join(rank_files, 'iter_0000001/dist_optimizer')},
            {'layout': layout, 'mca': at_3, 'steps': 5, 'save_after': 3, 'save': kinds}])
        later = self.losses(run, after=3)
        self.same(forward, later[:1])
        self.same(continued, later)
        self.same(of_buckets, later)
        self.same(of_ranks, later)
        self.same(beside, later)
        for number, (kind, layout) in enumerate((('fully_reshardable', {'dp': 2}),
                                                 ('dp_reshardable', {'tp': 2, 'parallel__sequence': True})), 2):
            with self.subTest(kind=kind):
                source = self.with_config(os.path.join(self.top, kind))
                document = self.job(5, **layout, model={'from': source, 'optimizer': True}, tokenizer='bytes')
                again = self.run_whole(number, 1, document)
                self.assertIn('continuing the optimizer at step 3 ', again.log())
                self.same(self.losses(again), whole[3:])

    def test_state_that_cannot_be_continued_is_refused_by_name(self):
        run = self.run_whole(1, 1, self.job(3))
        source = run.published[-1][1]
        model = {'from': source, 'optimizer': True}
        self.refused(self.job(2, model=model), 2, 'train.steps: 2 is less than step 3 of the optimizer')
        sgd = {'kind': 'sgd', 'lr': 0.1, 'momentum': 0.9}
        self.refused(self.job(5, model=model, train__optimizer=sgd), 2,
                     'has no optimizer state momentum_buffer; it has exp_avg, exp_avg_sq, fp32_param')
        shutil.rmtree(os.path.join(source, 'roll/optimizer'))
        self.refused(self.job(5, model=model), 2, 'has no optimizer state of Roll or of a distributed optimizer')
        with open(os.path.join(source, 'iter_0000001/mp_rank_00/optimizer.pt'), 'wb'):
            pass
        self.refused(self.job(5, model=model), 2,
                     'mp_rank_00/optimizer.pt has optimizer state in one file for each rank, which Roll cannot read; '
                     'allowed: the state of a distributed optimizer of kind fully_reshardable or dp_reshardable; save '
                     'the checkpoint with use_distributed_optimizer in the format torch_dist')


if __name__ == '__main__':
    unittest.main()
