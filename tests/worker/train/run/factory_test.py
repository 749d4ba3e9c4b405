#!/usr/bin/env python3
"""The source of a job's weights, frozen weights, and errors for unusable directories."""
import array
import json
import os
import shutil
import statistics
import subprocess
import sys
import unittest

import invented_family_test as made
from ranks import CONVERT, RankCase, json_of, write_text

SIZES = {**made.SIZES, 'num_hidden_layers': 2}


class Factory(RankCase):

    def setUp(self):
        super().setUp()
        self.start = os.path.join(self.top, 'start')
        made.write_model(self.start, {'model_type': 'qwen3', 'rope_theta': 500.0, **SIZES}, self.tensors())

    def tensors(self):
        return {name: tensor for name, tensor in made.make_tensors().items()
                if not name.startswith(('model.layers.2.', 'model.layers.3.'))}

    def trained(self, run):
        """Returns the tensors of a run's last checkpoint by HuggingFace name."""
        out = os.path.join(self.top, f'hf-{len(os.listdir(self.top))}')
        subprocess.run([CONVERT, 'convert', run.published[-1][1], out, '--to', 'hf'], check=True,
                       capture_output=True)
        return made.read_model(out)

    def test_the_same_weights_from_every_kind_of_directory(self):
        whole = self.run_whole(1, 1, self.document(2, dp=1, model={'from': self.start}))
        self.assertIn('(HuggingFace)', whole.log())
        made_of = [('(HuggingFace)', 'bin'), ('(MCA)', 'mca'), ('(MCA of tp 2 pp 2)', 'mca', '--tp', '2', '--pp', '2'),
                   ('(torch_dist)', 'torch_dist'), ('(dcp)', 'dcp'), ('(megatron of tp 2)', 'megatron', '--tp', '2')]
        for job, (text, *to) in enumerate(made_of, start=2):
            start = os.path.join(self.top, f'start-{job}')
            subprocess.run([CONVERT, 'convert', self.start, start, '--to', *to], check=True, capture_output=True)
            run = self.run_whole(job, 1, self.document(2, dp=1, model={'from': start}))
            self.assertIn(text, run.log())
            self.assertEqual(run.metrics(), whole.metrics(), to)
            self.assertEqual(run.weights(2), whole.weights(2), to)
        self.refused(self.document(2, dp=1, model={'from': self.top}), 2, 'is not a known checkpoint format')

    def test_frozen_weights_keep_every_bit_and_the_others_train(self):
        frozen = {'embedding.word_embeddings.weight': ['model.embed_tokens.weight'],
                  'decoder.layers.0.*': [name for name in self.tensors() if name.startswith('model.layers.0.')],
                  '*q_layernorm.weight': ['model.layers.1.self_attn.q_norm.weight'], 'output_layer.weight':
                  ['lm_head.weight']}
        model = {'from': self.start, 'freeze': list(frozen)}
        run = self.run_whole(1, 1, self.document(100, dp=1, model=model))
        before, after = self.tensors(), self.trained(run)
        self.assertIn(' parameters are frozen', run.log())
        kept = {name for names in frozen.values() for name in names}
        self.assertEqual({name for name in before if before[name] == after[name]}, kept)
        self.assertEqual(before.keys(), after.keys())
        loose = self.run_whole(2, 1, self.document(100, dp=1, model={'from': self.start}))
        self.assertLess(run.metrics()[0]['grad_norm'], loose.metrics()[0]['grad_norm'])
        self.assertEqual(run.metrics()[0]['loss'], loose.metrics()[0]['loss'])
        self.assertRegex(self.plan(self.document(3, model=model)).stdout, r'^tiny: .*, [1-9][0-9,]* of them frozen\n')
        told = json.loads(self.plan(self.document(3, model=model), '--json').stdout)
        trained = told['parameters'] - told['frozen_parameters']
        self.assertEqual(told['communication_bytes_per_step']['gradients'], trained * 4)  # dp 2 sends them once
        model['freeze'] = ['decoder.layers.7.*']
        self.refused(self.document(3, dp=1, model=model), 2,
                     "model.freeze: no parameter's name matches decoder.layers.7.*")
        self.assertEqual(self.plan(self.document(3, model=model)).returncode, 2)
        model['freeze'] = ['*']
        self.refused(self.document(3, dp=1, model=model), 2, 'there is nothing to train')

    def test_new_rows_of_vocabulary_are_the_mean_and_noise(self):
        changes = {'train__optimizer__lr': 0.0, 'train__optimizer__min_lr': 0.0}
        run = self.run_whole(1, 1, self.document(1, dp=1, model={'from': self.start, 'vocab_size': 1280}, **changes))
        self.assertIn('1024 vocabulary rows added', run.log())
        before, after = self.tensors(), self.trained(run)
        for name in ('model.embed_tokens.weight', 'lm_head.weight'):
            shape, data = after[name]
            self.assertEqual(shape, [1280, 32])
            old = len(before[name][1])
            self.assertEqual(data[:old], before[name][1])
            rows, new = array.array('f', data[:old]), array.array('f', data[old:])
            means = [statistics.fmean(rows[i::32]) for i in range(32)]
            noise = [value - means[i % 32] for i, value in enumerate(new)]
            self.assertAlmostEqual(statistics.fmean(noise), 0, delta=4 / len(noise) ** 0.5 / 32 ** 0.5)
            self.assertAlmostEqual(statistics.pstdev(noise), 32 ** -0.5, delta=0.02 * 32 ** -0.5)
        again = self.run_whole(2, 1, self.document(1, dp=1, model={'from': self.start, 'vocab_size': 1280}, **changes))
        self.assertEqual(again.weights(1), run.weights(1))
        self.refused(self.document(1, dp=1, model={'from': self.start, 'vocab_size': 64}), 2, 'model.vocab_size: 64')

    def damaged(self, change, text):
        folder = os.path.join(self.top, 'damaged')
        shutil.copytree(self.start, folder)
        change(folder)
        self.refused(self.document(1, dp=1, model={'from': folder}), 2, text)
        shutil.rmtree(folder)

    def test_a_directory_that_is_no_good_is_refused_in_one_sentence(self):
        def cut(folder):
            with open(os.path.join(folder, 'model.safetensors'), 'r+b') as file:
                file.truncate(os.path.getsize(file.name) - 1)

        def lose(folder):
            os.rename(os.path.join(folder, 'model.safetensors'), os.path.join(folder, 'model-1.safetensors'))
            index = {'weight_map': {name: 'model-1.safetensors' for name in self.tensors()}}
            index['weight_map']['lm_head.weight'] = 'model-2.safetensors'
            write_text(os.path.join(folder, 'model.safetensors.index.json'), json.dumps(index))

        def say(**changes):
            def change(folder):
                config = json_of(folder, 'config.json')
                write_text(os.path.join(folder, 'config.json'), json.dumps({**config, **changes}))
            return change

        def write(**changes):
            def change(folder):
                shutil.rmtree(folder)
                tensors = {name: tensor for name, tensor in {**self.tensors(), **changes}.items() if tensor}
                made.write_model(folder, {'model_type': 'qwen3', 'rope_theta': 500.0, **SIZES}, tensors)
            return change
        self.damaged(cut, 'model.safetensors')
        self.damaged(lose, 'names model-2.safetensors, which does not exist')
        self.damaged(say(intermediate_size=64), 'the config says')
        self.damaged(say(num_hidden_layers=3), 'are missing')
        self.damaged(say(max_position_embeddings=16), 'train.seq_length: 32 is more than')
        self.damaged(say(model_type='quince'), 'no family file covers quince')
        self.damaged(write(**{'lm_head.weight': None}), 'lm_head.weight is missing')
        self.damaged(write(**{'model.extra.weight': ([1], bytes(4))}), 'no rule of family qwen3 names model.extra')


if __name__ == '__main__':
    unittest.main(argv=sys.argv[:1])
