"""Converts checkpoints of Megatron's optimizers and of its FSDP: the optimizer states, and the keys that Megatron
requires.

usage: states_oracle.py ROLL_CONVERT
"""
import argparse
import io
import itertools
import pickle
import random
import re
import unittest
import warnings

import torch
import torch.distributed.checkpoint as dcp
from safetensors.torch import load_file
from torch.distributed.checkpoint.filesystem import _StorageInfo
from torch.distributed.checkpoint.metadata import (ChunkStorageMetadata, Metadata, MetadataIndex,
                                                   TensorProperties, TensorStorageMetadata)

from family_models import MODELS, make
from oracle import FolderCase, bits, run

warnings.filterwarnings('ignore')


def plain(directory):
    """Returns every tensor of a distributed checkpoint, whole."""
    found = dcp.FileSystemReader(directory).read_metadata().state_dict_metadata
    state = {key: torch.empty(one.size, dtype=one.properties.dtype) for key, one in found.items()
             if isinstance(one, TensorStorageMetadata)}
    dcp.load(state, checkpoint_id=directory)
    return state


def write_chunks(directory, tensors, more):
    """Writes a checkpoint of {key: (shape, [(offsets, tensor)])}. `more` is Megatron's own data for the keys."""
    directory.mkdir()
    content, listed, stored = b'', {}, {}
    for key, (shape, chunks) in tensors.items():
        places = []
        for offsets, tensor in chunks:
            item = io.BytesIO()
            torch.save(tensor.clone(), item)
            stored[MetadataIndex(key, torch.Size(offsets))] = _StorageInfo(
                '__0_0.distcp', len(content), len(item.getvalue()))
            content += item.getvalue()
            places.append(ChunkStorageMetadata(torch.Size(offsets), tensor.shape))
        listed[key] = TensorStorageMetadata(TensorProperties(dtype=chunks[0][1].dtype),
                                            torch.Size(shape), places)
    metadata = Metadata(listed, {}, stored)
    metadata.mcore_data = more
    (directory / '__0_0.distcp').write_bytes(content)
    (directory / '.metadata').write_bytes(pickle.dumps(metadata))


def flat(tensor, dice):
    """Returns a tensor as Megatron before 0.14 saved it: each rank has a box, stored flat in two runs."""
    counts = [dice.choice([n for n in (1, 2, 4) if dim % n == 0]) for dim in tensor.shape]
    local = [dim // count for dim, count in zip(tensor.shape, counts)]
    size, chunks = torch.Size(local).numel(), []
    for place in itertools.product(*map(range, counts)):
        box = tensor[tuple(slice(at * n, at * n + n) for at, n in zip(place, local))].reshape(-1)
        middle = dice.randrange(1, size)
        for begin, end in ((0, middle), (middle, size)):
            chunks.append(((*place, begin), box[begin:end].view(*[1] * len(place), -1)))
    return (*counts, size), chunks


class Optimizer(FolderCase):
    """Optimizer states of a model whose weights are those of `hf`; the main weights are twice as large."""

    def setUp(self):
        super().setUp()
        self.hf = make('qwen3_moe', MODELS['qwen3_moe'][0], self.root / 'hf')
        run('convert', self.hf, self.root / 'dist', '--to', 'torch_dist')
        self.weights = plain(self.root / 'dist/iter_0000001/dist_model')
        self.want = {name: 2 * t for name, t in load_file(self.hf / 'model.safetensors').items()}

    def states(self):
        for key, tensor in self.weights.items():
            for state, factor in (('exp_avg', -1), ('fp32_param', 2)):
                yield f'optimizer.state.{state}.{key}', factor * tensor

    def check(self, source, factor, *options):
        own = (source / 'mca_config.json').exists()
        run('convert', source, self.root / 'out', '--overwrite', '--to', 'hf', *options,
            *([] if own else ['--config', self.hf]))
        got = load_file(self.root / 'out/model.safetensors')
        self.assertEqual(sorted(got), sorted(self.want))
        for name, tensor in self.want.items():
            self.assertTrue(torch.equal(got[name], tensor / 2 * factor), name)

    def test_states_of_the_models_shapes_are_read(self):
        dcp.save({**self.weights, **dict(self.states())}, checkpoint_id=self.root / 'all')
        self.check(self.root / 'all', 1)
        self.check(self.root / 'all', 2, '--state', 'fp32_param')
        self.check(self.root / 'all', -1, '--state', 'exp_avg')
        run('diff', self.root / 'all', self.root / 'out', '--config', self.hf, '--state', 'exp_avg')
        run('convert', self.root / 'all', self.root / 'mca', '--config', self.hf, '--to', 'mca',
            '--tp', 2, '--ep', 2, '--state', 'fp32_param')
        self.check(self.root / 'mca', 2)

    def test_states_that_were_kept_flat_are_read(self):
        """Megatron before 0.14 stored them so (nd_reformulated_orig_global_shape)."""
        for seed in range(5):
            dice = random.Random(seed)
            tensors = {key: (t.shape, [((0,) * t.dim(), t)]) for key, t in self.weights.items()}
            more = {key: {} for key in tensors}
            for key, tensor in self.states():
                tensors[key] = flat(tensor, dice)
                more[key] = {'nd_reformulated_orig_global_shape': tuple(tensor.shape)}
            source = self.root / f'flat{seed}'
            write_chunks(source, tensors, more)
            self.check(source, 2, '--state', 'fp32_param')
            self.check(source, -1, '--state', 'exp_avg')
            self.check(source, 1)
        run('rename', source, self.root / 'new', '*.exp_avg.*=*.exp_avg_sq.*')
        self.check(self.root / 'new', -1, '--state', 'exp_avg_sq')

    def test_a_flat_state_of_other_sizes_is_refused(self):
        key = 'optimizer.state.exp_avg.output_layer.weight'
        shape, chunks = flat(self.weights['output_layer.weight'], random.Random(3))
        write_chunks(self.root / 'flat', {key: (shape, chunks)},
                     {key: {'nd_reformulated_orig_global_shape': (95, 32)}})
        done = run('inspect', self.root / 'flat', '--config', self.hf, code=1)
        self.assertIn('cannot be the flattened form of its original shape', done.stderr)

    def test_what_has_no_state_comes_from_the_weights_or_is_missing(self):
        states = dict(self.states())
        states.pop('optimizer.state.fp32_param.decoder.final_layernorm.weight')
        states.pop('optimizer.state.exp_avg.decoder.final_layernorm.weight')
        dcp.save({**self.weights, **states}, checkpoint_id=self.root / 'all')
        run('convert', self.root / 'all', self.root / 'out', '--config', self.hf, '--to', 'hf',
            '--state', 'fp32_param')
        got = load_file(self.root / 'out/model.safetensors')
        self.assertTrue(torch.equal(got['model.norm.weight'], self.want['model.norm.weight'] / 2))
        done = run('verify', self.root / 'all', '--config', self.hf, '--state', 'exp_avg', code=1)
        self.assertIn('model.norm.weight is missing', done.stderr)
        done = run('verify', self.root / 'all', '--config', self.hf, '--state', 'momentum', code=2)
        self.assertIn('has no tensor optimizer.state.momentum', done.stderr)
        self.assertIn('--state is only for', run('inspect', self.hf, '--state', 'exp_avg', code=2).stderr)


class Fsdp(FolderCase):
    def keys_of(self, torch_dist, gated=True):
        """Returns torch_dist's keys as Megatron's checkpoint_inspector converts them, with --swiglu."""
        made = {}
        for key, tensor in torch_dist.items():
            parts = {f'model.module.{key}': tensor}
            if '.layers.' in key and not re.search(r'layers\.\d', key):
                parts = {f'model.module.{key}'.replace('.layers.', f'.layers.{i}.'): t
                         for i, t in enumerate(tensor)}
            for name, part in parts.items():
                experts = {name: part}
                if '.experts.experts.' in name:
                    experts = {name.replace('.experts.experts.', '.experts.') + str(i): t
                               for i, t in enumerate(part)}
                for one, value in experts.items():
                    one = one.replace('.transformer_layer.', '.mtp_model_layer.')
                    if gated and '.linear_fc1.weight' in one:
                        made[one + '_w'], made[one + '_v'] = value.chunk(2)
                    else:
                        made[one] = value
        return made

    def test_keys_and_tensors_are_those_of_megatrons_tool(self):
        for model_type in ('llama', 'qwen3_moe', 'deepseek_v3'):
            with self.subTest(model_type=model_type):
                hf = make(model_type, MODELS[model_type][0], self.root / model_type)
                run('convert', hf, self.root / 'dist', '--to', 'torch_dist', '--overwrite')
                run('convert', hf, self.root / 'fsdp', '--to', 'fsdp_dtensor', '--overwrite',
                    '--verify')
                want = self.keys_of(plain(self.root / 'dist/iter_0000001/dist_model'))
                got = plain(self.root / 'fsdp/iter_0000001')
                self.assertEqual(sorted(got), sorted(want))
                for key, tensor in want.items():
                    self.assertTrue(torch.equal(bits(got[key]), bits(tensor)), key)
                run('diff', hf, self.root / 'fsdp')
                run('convert', self.root / 'fsdp', self.root / 'mca', '--to', 'torch_dist',
                    '--overwrite')
                run('diff', self.root / 'mca', self.root / 'dist')

    def test_what_megatron_loads_first_is_there(self):
        hf = make('llama', MODELS['llama'][0], self.root / 'hf')
        run('convert', hf, self.root / 'fsdp', '--to', 'fsdp_dtensor')
        state = {'args': None, 'iteration': None, 'checkpoint_version': None}
        dcp.load(state, checkpoint_id=self.root / 'fsdp/iter_0000001')
        self.assertIsInstance(state['args'], argparse.Namespace)
        self.assertEqual((state['checkpoint_version'], state['args'].num_layers), (3.0, 4))
        self.assertEqual((self.root / 'fsdp/latest_checkpointed_iteration.txt').read_text(), '1')

    def test_experts_apart_and_states_behind_their_names(self):
        hf = make('qwen3_moe', MODELS['qwen3_moe'][0], self.root / 'hf')
        run('convert', hf, self.root / 'fsdp', '--to', 'fsdp_dtensor', '--moe-grouped-gemm', 'false')
        keys = plain(self.root / 'fsdp/iter_0000001')
        self.assertIn('model.module.decoder.layers.1.mlp.experts.local_experts.3.linear_fc1.weight_v',
                      keys)
        run('diff', hf, self.root / 'fsdp')
        states = {key.replace('model.module.', 'optimizer.state.module.module.module.') + '.exp_avg':
                  3 * tensor for key, tensor in keys.items()}
        dcp.save({**keys, **states}, checkpoint_id=self.root / 'run')
        run('convert', self.root / 'run', self.root / 'out', '--config', hf, '--to', 'hf', '--state',
            'exp_avg')
        got, want = (load_file(one / 'model.safetensors') for one in (self.root / 'out', hf))
        for name, tensor in want.items():
            self.assertTrue(torch.equal(got[name], 3 * tensor), name)


if __name__ == '__main__':
    unittest.main(verbosity=2)
