"""Converts Megatron's checkpoints without a config, for which a config is made from the arguments of the run.

usage: arguments_oracle.py ROLL_CONVERT
"""
import argparse
import json
import shutil
import unittest

import torch
from safetensors.torch import load_file

from family_models import MODELS, logits, make
from oracle import FolderCase, run

# Model types whose configs Megatron's arguments can express, and layouts for them.
TRIED = {'llama': ['--tp', 2], 'qwen2': ['--tp', 2, '--pp', 2], 'qwen3': ['--pp', 2, '--vpp', 2],
         'mixtral': ['--ep', 2], 'qwen2_moe': ['--tp', 2], 'qwen3_moe': ['--ep', 4],
         'glm4_moe': ['--tp', 2], 'deepseek_v3': ['--tp', 2, '--ep', 2]}

# The defaults of Megatron's parser (megatron/training/arguments.py).
DEFAULTS = dict(
    hidden_dropout=0.1, attention_dropout=0.1, init_method_std=0.02, norm_epsilon=1e-5, vocab_size=None,
    make_vocab_size_divisible_by=128, add_bias_linear=False, add_qkv_bias=False, qk_layernorm=False,
    apply_layernorm_1p=False, swiglu=True, normalization='RMSNorm', position_embedding_type='rope',
    rotary_base=10000, rotary_percent=1.0, rotary_interleaved=False, use_rope_scaling=False,
    rope_scaling_factor=8.0, group_query_attention=True, untie_embeddings_and_output_weights=True,
    num_experts=None, moe_layer_freq=1, moe_ffn_hidden_size=None, moe_router_topk=2,
    moe_router_pre_softmax=False, moe_shared_expert_intermediate_size=None, moe_aux_loss_coeff=0.0,
    moe_router_load_balancing_type='aux_loss', moe_router_score_function='softmax',
    moe_router_enable_expert_bias=False, multi_latent_attention=False, q_lora_rank=None, kv_lora_rank=32,
    qk_head_dim=128, qk_pos_emb_head_dim=64, v_head_dim=128, mtp_num_layers=None, window_size=None,
    no_rope_freq=None, tensor_model_parallel_size=1, pipeline_model_parallel_size=1,
    expert_model_parallel_size=1, virtual_pipeline_model_parallel_size=None)


class Arguments(FolderCase):
    def without_config(self, model_type, to, *options, sizes=None):
        hf = make(model_type, sizes or MODELS[model_type][0], self.root / 'hf')
        shutil.rmtree(self.root / 'native', ignore_errors=True)
        run('convert', hf, self.root / 'native', '--to', to, *options)
        for name in ('config.json', 'mca_config.json'):
            (self.root / 'native' / name).unlink(missing_ok=True)
        return hf

    def same(self, hf, *options):
        run('convert', self.root / 'native', self.root / 'out', '--to', 'hf', '--overwrite', '--verify', *options)
        want, got = load_file(hf / 'model.safetensors'), load_file(self.root / 'out/model.safetensors')
        self.assertEqual(sorted(want), sorted(got))
        for name in want:
            self.assertTrue(torch.equal(want[name], got[name]), name)
        self.assertTrue(torch.equal(logits(hf), logits(self.root / 'out')))

    def test_each_familys_config_comes_back(self):
        for model_type, layout in TRIED.items():
            for to, options in (('megatron', layout), ('torch_dist', [])):
                with self.subTest(model_type=model_type, to=to):
                    hf = self.without_config(model_type, to, *options)
                    self.same(hf, '--config', model_type)

    def rewrite(self, **args):
        """Replaces the rank's arguments by those that Megatron's own parser would save."""
        path = next((self.root / 'native').rglob('model_optim_rng.pt'))
        state = torch.load(path, weights_only=False)
        kept = {name: getattr(state['args'], name) for name in (
            'num_layers', 'hidden_size', 'ffn_hidden_size', 'num_attention_heads', 'num_query_groups',
            'kv_channels', 'padded_vocab_size', 'max_position_embeddings')}
        state['args'] = argparse.Namespace(**{**DEFAULTS, 'norm_epsilon': state['args'].norm_epsilon,
                                              **kept, **args})
        torch.save(state, path)

    def test_the_only_family_that_fits_is_taken(self):
        hf = self.without_config('qwen3', 'megatron')
        self.rewrite(qk_layernorm=True)
        self.same(hf)
        config = json.loads((self.root / 'out/config.json').read_text())
        self.assertEqual(config['model_type'], 'qwen3')

    def test_several_families_that_fit_are_named(self):
        hf = self.without_config('llama', 'megatron')
        self.rewrite()
        done = run('convert', self.root / 'native', self.root / 'out', code=2)
        self.assertRegex(done.stderr, 'the arguments of its training run fit several families: .*llama, mistral')
        self.same(hf, '--config', 'llama')

    def test_experts_of_each_second_layer_are_counted_as_megatron_does(self):
        sizes = dict(MODELS['qwen3_moe'][0], mlp_only_layers=[1, 3])
        hf = self.without_config('qwen3_moe', 'megatron', sizes=sizes)
        self.rewrite(qk_layernorm=True, num_experts=8, moe_layer_freq=2, moe_ffn_hidden_size=24,
                     moe_router_pre_softmax=True)
        self.same(hf)

    def test_a_padded_vocabulary_whose_tokens_are_told_is_stripped(self):
        hf = self.without_config('qwen3', 'megatron', '--make-vocab-size-divisible-by', 64)
        self.rewrite(qk_layernorm=True, vocab_size=96, padded_vocab_size=128)
        self.same(hf)

    def test_arguments_that_no_config_of_the_family_says_are_refused(self):
        self.without_config('qwen3', 'megatron')
        for args, says in ((dict(rotary_interleaved=True), 'rotary_interleaved is true'),
                           (dict(window_size=[128, 0]), 'window_size is [128,0]'),
                           (dict(use_rope_scaling=True), 'rotary_scaling is true'),
                           (dict(normalization='LayerNorm'), 'normalization is "LayerNorm"')):
            with self.subTest(**args):
                self.rewrite(**{'qk_layernorm': True, **args})
                done = run('convert', self.root / 'native', self.root / 'out', '--config', 'qwen3', code=2)
                self.assertIn(says, done.stderr)

    def test_without_arguments_a_config_is_asked_for(self):
        hf = self.without_config('qwen3', 'dcp')
        for given in ([], ['--config', 'qwen3']):
            done = run('convert', self.root / 'native', self.root / 'out', *given, code=None)
            self.assertRegex(done.stderr, 'no config.json|no arguments of its training run')
        self.same(hf, '--config', hf)


if __name__ == '__main__':
    unittest.main(verbosity=2)
