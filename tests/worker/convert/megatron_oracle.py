"""Tests Megatron's own checkpoints (a torch file for each rank). Megatron's modules load the converted files, and
save files to convert. Files of older versions have their rows permuted as by Megatron's loader.

usage: megatron_oracle.py ROLL_CONVERT
"""
import argparse
import json
import os
import shutil
import unittest

import torch
import transformers
from safetensors.torch import load_file

import megatron_ranks
from oracle import FolderCase, free_port, run

LLAMA = dict(vocab_size=96, hidden_size=32, intermediate_size=48, num_hidden_layers=4,
             num_attention_heads=8, num_key_value_heads=4, max_position_embeddings=64)
MEGATRON = dict(num_layers=4, hidden_size=32, ffn_hidden_size=48, num_attention_heads=8,
                num_query_groups=4, kv_channels=4)
HEAD = 4  # rows of a head


def load(path):
    with torch.serialization.safe_globals([argparse.Namespace]):
        return torch.load(path, weights_only=True)


class Case(FolderCase):
    def make(self, **changes):
        torch.manual_seed(7)
        model = transformers.LlamaForCausalLM(transformers.LlamaConfig(**{**LLAMA, **changes}))
        for parameter in model.parameters():
            if parameter.dim() == 1:
                torch.nn.init.normal_(parameter, 1, 0.1)
        model.save_pretrained(self.root / 'hf')
        return load_file(self.root / 'hf/model.safetensors')

    def same(self, name):
        run('diff', self.root / name, self.root / 'hf', '--config', self.root / 'hf')

    def save(self, name, rank, state):
        path = self.root / name / rank / 'model_optim_rng.pt'
        path.parent.mkdir(parents=True)
        torch.save(state, path)


class Written(Case):
    def test_the_arguments_are_those_that_megatron_compares_and_takes_over(self):
        self.make()
        run('convert', self.root / 'hf', self.root / 'out', '--to', 'megatron', '--tp', 2, '--pp', 2,
            '--bf16', '--verify')
        self.assertEqual((self.root / 'out/latest_checkpointed_iteration.txt').read_text(),
                         'release')
        state = load(self.root / 'out/release/mp_rank_01_001/model_optim_rng.pt')
        self.assertEqual(state['checkpoint_version'], 3.0)
        for name, want in dict(
                num_layers=4, hidden_size=32, ffn_hidden_size=48, num_attention_heads=8,
                num_query_groups=4, group_query_attention=True, kv_channels=4, swiglu=True,
                max_position_embeddings=64, normalization='RMSNorm', rotary_base=10000.0,
                add_position_embedding=True, position_embedding_type='rope', padded_vocab_size=96,
                untie_embeddings_and_output_weights=True, add_bias_linear=False, bf16=True,
                tensor_model_parallel_size=2, pipeline_model_parallel_size=2,
                virtual_pipeline_model_parallel_size=None, num_experts=None).items():
            self.assertEqual(getattr(state['args'], name, None), want, name)
        self.assertIsNone(state['model']['decoder.layers.0.mlp.linear_fc1._extra_state'])

    def test_every_layout_comes_back(self):
        self.make(tie_word_embeddings=True)
        for options in (['--tp', 4], ['--pp', 2, '--vpp', 2], ['--tp', 2, '--pp', 4]):
            run('convert', self.root / 'hf', self.root / 'out', '--to', 'megatron', *options,
                '--overwrite', '--verify')
            self.same('out')
            run('verify', self.root / 'out')


    def test_a_vocabulary_is_padded_as_the_arguments_say(self):
        want = self.make()['model.embed_tokens.weight']
        run('convert', self.root / 'hf', self.root / 'out', '--to', 'megatron', '--tp', 2,
            '--make-vocab-size-divisible-by', 64, '--verify')
        states = [load(self.root / f'out/release/mp_rank_{rank:02}/model_optim_rng.pt') for rank in (0, 1)]
        self.assertEqual({state['args'].padded_vocab_size for state in states}, {128})
        rows = torch.cat([state['model']['embedding.word_embeddings.weight'] for state in states])
        self.assertTrue(torch.equal(rows, torch.cat([want, torch.zeros(32, 32)])))
        self.same('out')


class Modules(Case):
    def test_megatron_loads_ours_strictly_and_we_read_what_it_saves(self):
        self.make()
        layout = {'tp': 2, 'pp': 2}
        run('convert', self.root / 'hf', self.root / 'ours', '--to', 'megatron', '--tp', 2, '--pp',
            2, '--transformer-impl', 'local')

        def job(number, _):
            rank = f'mp_rank_{number % 2:02}_{number // 2:03}'
            state = load(self.root / 'ours/release' / rank / 'model_optim_rng.pt')
            model = megatron_ranks.build(MEGATRON, layout)
            model.load_state_dict(state['model'], strict=True)
            self.save('theirs/iter_0000007', rank,
                      {'args': argparse.Namespace(**{**vars(state['args']), 'lr': complex(1)}),
                       'checkpoint_version': 3.0, 'iteration': 7, 'model': model.state_dict(),
                       'rng_state': [{'random': (3, (1, 2), None)}]})
        megatron_ranks.run(layout, job, free_port())
        (self.root / 'theirs/latest_checkpointed_iteration.txt').write_text('7')
        self.same('theirs')


    def test_more_ranks_than_key_value_heads_are_cut_as_megatron_cuts_them(self):
        self.make(num_key_value_heads=2)
        sizes, layout = {**MEGATRON, 'num_query_groups': 2}, {'tp': 4}
        for to in ('megatron', 'mca'):
            run('convert', self.root / 'hf', self.root / to, '--to', to, '--tp', 4, '--transformer-impl', 'local',
                '--verify')
            self.same(to)
        tokens = torch.arange(24).reshape(2, 12)

        def job(number, _):
            rank = f'mp_rank_{number:02}'
            state = load(self.root / 'megatron/release' / rank / 'model_optim_rng.pt')
            mca = load(self.root / 'mca/iter_0000001' / rank / 'model_optim_rng.pt')
            model = megatron_ranks.build(sizes, layout).eval()
            for one in (state, mca):
                left = model.load_state_dict(one['model'], strict=False)
                assert not left.unexpected_keys and all(
                    name.endswith('_extra_state') for name in left.missing_keys), left
            mask = torch.ones(1, 1, 12, 12).tril() < 0.5
            with torch.no_grad():
                torch.save(model(tokens, torch.arange(12)[None], mask), self.root / f'logits{number}')
            self.save('theirs/iter_0000007', rank, {'args': state['args'], 'checkpoint_version': 3.0, 'iteration': 7,
                                                    'model': model.state_dict()})
        megatron_ranks.run(layout, job, free_port())
        got = torch.cat([torch.load(self.root / f'logits{rank}') for rank in range(4)], -1)
        model = transformers.LlamaForCausalLM.from_pretrained(self.root / 'hf')
        with torch.no_grad():
            want = model(tokens).logits
        self.assertLess((want - got).abs().max().item(), 2e-5 * want.abs().max().item() + 1e-6)
        (self.root / 'theirs/latest_checkpointed_iteration.txt').write_text('7')
        self.same('theirs')

    def test_ranks_that_key_value_heads_neither_divide_nor_are_divided_by_are_refused(self):
        self.make(num_key_value_heads=2, num_attention_heads=4, vocab_size=96, intermediate_size=48)
        for options in (['--tp', 3], ['--tp', 8], ['--to', 'nemo', '--tp', 4],
                        ['--to', 'megatron', '--checkpoint-version', 2, '--tp', 4]):
            done = run('convert', self.root / 'hf', self.root / 'out', *options, code=2)
            tp = options[options.index('--tp') + 1]
            self.assertIn(f'num_query_groups 2 is not divisible by tp {tp}', done.stderr)


def core_weights(tensors, layer, rank, ranks):
    """Returns a layer of one tensor-parallel rank, with attention rows in the order of checkpoint version 2."""
    get = lambda name: tensors[f'model.layers.{layer}.{name}.weight']
    cut = lambda name, dim=0: get(name).chunk(ranks, dim)[rank]
    heads = [cut(f'self_attn.{part}_proj').unflatten(0, (-1, HEAD)) for part in 'qkv']
    return {'self_attention.query_key_value.weight': torch.stack(heads, 1).flatten(0, 2),
            'self_attention.dense.weight': cut('self_attn.o_proj', 1),
            'mlp.dense_h_to_4h.weight': torch.cat([cut('mlp.gate_proj'), cut('mlp.up_proj')]),
            'mlp.dense_4h_to_h.weight': cut('mlp.down_proj', 1),
            'input_norm.weight': get('input_layernorm'),
            'post_attention_norm.weight': get('post_attention_layernorm')}


class Older(Case):
    """Models before Megatron core: nested dicts, other names, other orders of attention rows."""

    def write(self, tensors, version, pad=96, ranks=2, **args):
        for rank in range(ranks):
            encoder = {}
            for layer in range(LLAMA['num_hidden_layers']):
                weights = core_weights(tensors, layer, rank, ranks)
                name = 'self_attention.query_key_value.weight'
                rows = weights[name].unflatten(0, (-1, 3, HEAD))  # dims [heads, q k v, rows]
                if version == 0:
                    weights[name] = rows.transpose(0, 1).flatten(0, 2)
                if version == 1:
                    weights[name] = rows.transpose(1, 2).flatten(0, 2)
                encoder.update({f'layers.{layer}.{k}': v for k, v in weights.items()})
            encoder['final_norm.weight'] = tensors['model.norm.weight']

            def vocabulary(name):
                rows = torch.zeros(pad, 32)
                rows[:96] = tensors[name]
                return rows.chunk(ranks)[rank]
            state = {'checkpoint_version': version, 'iteration': 3,
                     'model': {'language_model': {
                         'embedding': {'word_embeddings':
                                       {'weight': vocabulary('model.embed_tokens.weight')}},
                         'encoder': encoder,
                         'output_layer': {'weight': vocabulary('lm_head.weight')}}}}
            if args:
                state['args'] = argparse.Namespace(**args)
            if version == 0:
                del state['checkpoint_version']  # checkpoints had no version at first
            self.save(f'v{version}/iter_0000003', f'mp_rank_{rank:02}', state)
        (self.root / f'v{version}/latest_checkpointed_iteration.txt').write_text('3\n')

    def test_every_version_orders_attentions_rows_as_megatrons_loader_expects(self):
        tensors = self.make(num_key_value_heads=8)
        for version in (0, 1, 2, 3):
            with self.subTest(version=version):
                self.write(tensors, version, **({'num_layers': 4, 'tensor_model_parallel_size': 2}
                                                if version > 1 else {}))
                self.same(f'v{version}')
        run('convert', self.root / 'v1', self.root / 'mca', '--to', 'mca', '--config',
            self.root / 'hf')
        self.same('mca')

    def assert_equal_dicts(self, got, want, where=''):
        self.assertEqual(sorted(got), sorted(want), where)
        for name, value in want.items():
            if isinstance(value, dict):
                self.assert_equal_dicts(got[name], value, f'{where}/{name}')
            else:
                self.assertTrue(torch.equal(got[name], value), f'{where}/{name}')

    def test_older_versions_are_written_as_those_models_kept_them(self):
        tensors = self.make(num_key_value_heads=8)
        for version in (0, 1, 2):
            with self.subTest(version=version):
                self.write(tensors, version)
                ours = self.root / f'ours{version}'
                run('convert', self.root / 'hf', ours, '--to', 'megatron', '--tp', 2, '--checkpoint-version', version,
                    '--verify')
                for rank in ('mp_rank_00', 'mp_rank_01'):
                    got = load(ours / f'release/{rank}/model_optim_rng.pt')
                    want = load(self.root / f'v{version}/iter_0000003/{rank}/model_optim_rng.pt')
                    self.assertEqual(got.get('checkpoint_version'), want.get('checkpoint_version'))
                    self.assertTrue(got['args'].use_legacy_models)
                    self.assert_equal_dicts(got['model'], want['model'])
                self.same(f'ours{version}')

    def test_older_versions_come_back_from_any_layout_and_refuse_what_they_had_no_place_for(self):
        self.make(tie_word_embeddings=True)
        for options in (['--tp', 4], ['--pp', 2, '--vpp', 2], ['--tp', 2, '--pp', 4, '--bf16']):
            run('convert', self.root / 'hf', self.root / 'out', '--to', 'megatron', *options, '--overwrite',
                '--checkpoint-version', 2, '--verify')
            run('diff', self.root / 'hf', self.root / 'out', '--config', self.root / 'hf', '--cast')
        last = load(self.root / 'out/release/mp_rank_01_003/model_optim_rng.pt')['model']
        self.assertEqual(sorted(last), ['language_model', 'word_embeddings_for_head'])
        for to, version, says in (('megatron', 1, 'without query groups'),
                                  ('megatron', 4, '4 not in {0,1,2,3}'),
                                  ('mca', 1, 'is for megatron targets, not mca')):
            done = run('convert', self.root / 'hf', self.root / 'no', '--to', to, '--checkpoint-version', version,
                       code=2)
            self.assertIn(says, done.stderr)
        transformers.Qwen3ForCausalLM(transformers.Qwen3Config(**LLAMA, head_dim=4)).save_pretrained(self.root / 'qk')
        done = run('convert', self.root / 'qk', self.root / 'no', '--to', 'megatron', '--checkpoint-version', 2, code=2)
        self.assertRegex(done.stderr, 'no name for decoder.layers.0.self_attention.[qk]_layernorm.weight of family')
        self.assertFalse((self.root / 'no').exists())

    def test_an_order_without_query_groups_is_refused_for_a_model_with_them(self):
        tensors = self.make(num_key_value_heads=8)
        self.write(tensors, 0)
        self.write(tensors, 1)
        config = json.loads((self.root / 'hf/config.json').read_text())
        (self.root / 'config.json').write_text(json.dumps({**config, 'num_key_value_heads': 4}))
        for version in (0, 1):
            done = run('verify', self.root / f'v{version}', '--config', self.root / 'config.json',
                       code=2)
            self.assertIn('without query groups', done.stderr)

    def test_padding_of_the_vocabulary_is_stripped(self):
        tensors = self.make(num_key_value_heads=8)
        self.write(tensors, 2, pad=128, padded_vocab_size=128, num_layers=4,
                   tensor_model_parallel_size=2)
        self.same('v2')
        run('convert', self.root / 'v2', self.root / 'out', '--config', self.root / 'hf')
        self.assertEqual((self.root / 'hf/model.safetensors').read_bytes(),
                         (self.root / 'out/model.safetensors').read_bytes())

    def test_arguments_that_contradict_the_config_or_themselves_are_refused(self):
        tensors = self.make(num_key_value_heads=8)
        for number, (args, says, code) in enumerate((
                ({'num_layers': 5}, 'args.num_layers is 5; the config says 4', 2),
                ({'tensor_model_parallel_size': 0}, 'must be 1 to 4096', 1),
                ({'tensor_model_parallel_size': 4}, 'has shape', 1),
                ({'tensor_model_parallel_size': 1}, 'has shape', 1))):
            self.write(tensors, 2, **args)
            done = run('verify', self.root / 'v2', '--config', self.root / 'hf', code=code)
            self.assertIn(says, done.stderr)
            shutil.rmtree(self.root / 'v2')

    def test_damaged_files_are_refused(self):
        tensors = self.make(num_key_value_heads=8)
        self.write(tensors, 2, tensor_model_parallel_size=2)
        path = self.root / 'v2/iter_0000003/mp_rank_01/model_optim_rng.pt'
        os.truncate(path, path.stat().st_size // 2)
        run('verify', self.root / 'v2', '--config', self.root / 'hf', code=1)
        path.unlink()
        done = run('verify', self.root / 'v2', '--config', self.root / 'hf', code=3)
        self.assertIn('mp_rank_01', done.stderr)


if __name__ == '__main__':
    unittest.main(verbosity=2)
