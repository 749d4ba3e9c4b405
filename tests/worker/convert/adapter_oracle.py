"""Compares LoRA adapters, converted between PEFT and native (Megatron) checkpoints, with peft itself.

usage: adapter_oracle.py ROLL_CONVERT
"""
import json
import os
import re
import shutil
import unittest

import peft
import torch
import transformers
from megatron.core import dist_checkpointing
from safetensors.torch import load_file, save_file

from oracle import FolderCase, bits, free_port, run

ALL = ['q_proj', 'k_proj', 'v_proj', 'o_proj', 'gate_proj', 'up_proj', 'down_proj']
KINDS = {
    'all': dict(target_modules=ALL, r=4, lora_alpha=8),
    'some': dict(target_modules=['q_proj', 'v_proj', 'down_proj'], r=4, lora_alpha=8),
    'rslora': dict(target_modules=['q_proj', 'v_proj', 'up_proj'], r=4, lora_alpha=6,
                   use_rslora=True),
    'patterns': dict(target_modules=ALL, r=4, lora_alpha=8,
                     rank_pattern={'q_proj': 2, 'down_proj': 8},
                     alpha_pattern={'q_proj': 4, 'down_proj': 16, 'o_proj': 5}),
    'dora': dict(target_modules=ALL, r=4, lora_alpha=8, use_dora=True),
    'whole': dict(target_modules=['q_proj'], r=4, lora_alpha=8, modules_to_save=['lm_head']),
    'layers': dict(target_modules=['q_proj', 'o_proj'], r=4, lora_alpha=8,
                   layers_to_transform=[1]),
}
LAYOUTS = [[], ['--tp', 2], ['--tp', 4, '--pp', 2], ['--pp', 2, '--vpp', 2]]


def loaded_by_megatron(directory, like, rank):
    """Returns what a rank of tp 2 loads from a distributed checkpoint, by Megatron's rules for its modules."""
    if not torch.distributed.is_initialized():
        os.environ.update(MASTER_ADDR='127.0.0.1', MASTER_PORT=str(free_port()))
        torch.distributed.init_process_group('gloo', rank=0, world_size=1)
    wholes = dist_checkpointing.load_plain_tensors(str(directory))
    got = {}
    for name, tensor in like.items():
        layer = re.search(r'\.layers\.(\d+)\.', name)
        stacked = re.sub(r'\.layers\.\d+\.', '.layers.', name)
        whole = wholes[stacked][int(layer[1])] if layer and stacked in wholes else wholes[name]
        fused = 'linear_fc1.lora_B' in name or 'linear_fc1.lora_magnitude' in name  # the rows of gate, then of up
        cut = [dim for dim in range(tensor.dim()) if whole.shape[dim] != tensor.shape[dim]]
        for dim in cut:
            whole = torch.cat([part.chunk(2, dim)[rank] for part in whole.chunk(1 + fused, dim)], dim)
        got[name] = whole
    return got


class Adapters(FolderCase):
    def setUp(self):
        super().setUp()
        torch.manual_seed(3)
        config = transformers.LlamaConfig(
            vocab_size=96, hidden_size=64, intermediate_size=96, num_hidden_layers=4,
            num_attention_heads=8, num_key_value_heads=4, max_position_embeddings=64)
        transformers.LlamaForCausalLM(config).save_pretrained(self.root / 'base')

    def adapter(self, kind, path=None):
        base = transformers.LlamaForCausalLM.from_pretrained(self.root / 'base')
        model = peft.get_peft_model(base, peft.LoraConfig(task_type='CAUSAL_LM', **KINDS[kind]))
        with torch.no_grad():
            for name, parameter in model.named_parameters():
                if 'lora_' in name or 'modules_to_save' in name:
                    parameter.add_(torch.randn_like(parameter) * 0.05)
        model.save_pretrained(path or self.root / kind)
        return model.merge_and_unload().state_dict()

    def merged(self, directory):
        base = transformers.LlamaForCausalLM.from_pretrained(self.root / 'base')
        return peft.PeftModel.from_pretrained(base, directory).merge_and_unload().state_dict()

    def assert_close(self, got, want):
        self.assertEqual(sorted(got), sorted(want))
        for name, tensor in want.items():
            gap = (got[name] - tensor).abs().max() / tensor.abs().max()
            self.assertLess(gap, 1e-6, name)

    def test_peft_to_native_and_back_is_exact_at_any_layout(self):
        for kind in KINDS:
            self.adapter(kind)
            want = load_file(self.root / kind / 'adapter_model.safetensors')
            for layout in LAYOUTS[:2] if kind == 'layers' else LAYOUTS:
                with self.subTest(kind=kind, layout=layout):
                    run('convert', self.root / 'base', self.root / 'mca', '--adapter',
                        self.root / kind, *layout, '--overwrite', '--verify')
                    run('convert', self.root / 'mca', self.root / 'back', '--overwrite', '--verify')
                    for one in ('mca', 'back'):
                        done = run('diff', self.root / kind, self.root / one)
                        self.assertIn('equal', done.stdout.replace('default: ', ''))
                    got = load_file(self.root / 'back/adapter_model.safetensors')
                    self.assertEqual(sorted(got), sorted(want))
                    for name, tensor in want.items():
                        self.assertTrue(torch.equal(bits(tensor), bits(got[name])), name)

    def test_adapters_differ_by_tensor_and_by_scale(self):
        self.adapter('all')
        shutil.copytree(self.root / 'all', self.root / 'changed')
        tensors = load_file(self.root / 'all/adapter_model.safetensors')
        name = 'base_model.model.model.layers.2.self_attn.v_proj.lora_A.weight'
        tensors[name] = tensors[name].clone()
        tensors[name][1, 2] += 1
        save_file(tensors, self.root / 'changed/adapter_model.safetensors', {'format': 'pt'})
        run('convert', self.root / 'base', self.root / 'mca', '--adapter', self.root / 'changed')
        for one in ('changed', 'mca'):
            found = json.loads(run('diff', self.root / 'all', self.root / one, '--json', code=1).stdout)
            self.assertEqual([(one['name'], one['elements']) for one in found['differences']],
                             [(f'default: {name}', 1)])
        config = json.loads((self.root / 'all/adapter_config.json').read_text())
        (self.root / 'changed/adapter_config.json').write_text(json.dumps(config | {'lora_alpha': 16}))
        found = json.loads(run('diff', self.root / 'all', self.root / 'changed', '--json', code=1).stdout)
        self.assertEqual(len(found['differences']), 1 + 4 * len(ALL))
        self.assertIn('default: model.layers.0.mlp.up_proj scale', [one['name'] for one in found['differences']])

    def test_a_distributed_checkpoint_holds_them_for_any_layout(self):
        """At tp 2, Megatron loads from it the same tensors as from rank files of tp 2."""
        for kind in KINDS:
            with self.subTest(kind=kind):
                self.adapter(kind)
                run('convert', self.root / 'base', self.root / 'dist', '--adapter', self.root / kind,
                    '--to', 'torch_dist', '--overwrite')
                run('convert', self.root / 'base', self.root / 'mca', '--adapter', self.root / kind,
                    '--tp', 2, '--overwrite')
                for rank in range(2):
                    path = f'mca/default/iter_0000001/mp_rank_{rank:02}/model_optim_rng.pt'
                    want = torch.load(self.root / path, weights_only=True)['model']
                    got = loaded_by_megatron(self.root / 'dist/default/iter_0000001', want, rank)
                    for name, tensor in want.items():
                        self.assertTrue(torch.equal(bits(tensor), bits(got[name])), name)
                run('convert', self.root / 'dist', self.root / 'back', '--overwrite', '--to', 'peft')
                want = load_file(self.root / kind / 'adapter_model.safetensors')
                got = load_file(self.root / 'back/adapter_model.safetensors')
                self.assertEqual(sorted(got), sorted(want))
                for name, tensor in want.items():
                    self.assertTrue(torch.equal(bits(tensor), bits(got[name])), name)

    def test_what_adapters_hold_is_said_of_any_format(self):
        self.adapter('patterns')
        run('convert', self.root / 'base', self.root / 'mca', '--adapter', self.root / 'patterns',
            '--tp', 2, '--pp', 1)
        run('convert', self.root / 'base', self.root / 'dist', '--adapter', self.root / 'patterns',
            '--to', 'torch_dist')
        want = load_file(self.root / 'patterns/adapter_model.safetensors')
        ranks = {name.removeprefix('base_model.model.').removesuffix('.lora_A.weight'): len(tensor)
                 for name, tensor in want.items() if 'lora_A' in name}
        for place in ('patterns', 'mca', 'dist'):
            one, = json.loads(run('inspect', self.root / place, '--json').stdout)['adapters']
            self.assertEqual({module['name']: module['rank'] for module in one['modules']}, ranks)
            scales = {module['name'].split('.')[-1]: module['scale'] for module in one['modules']}
            self.assertEqual((scales['q_proj'], scales['o_proj'], scales['up_proj']), (2, 1.25, 2))
            self.assertIn('adapters: 1', run('verify', self.root / place).stdout)
            self.assertIn('rank 8', run('inspect', self.root / place).stdout)
        path = self.root / 'mca/default/iter_0000001/mp_rank_01/model_optim_rng.pt'
        path.write_bytes(path.read_bytes()[:-1])
        run('verify', self.root / 'mca', code=1)

    def test_modules_that_all_linear_means_are_pefts(self):
        base = transformers.LlamaForCausalLM.from_pretrained(self.root / 'base')
        model = peft.get_peft_model(base, peft.LoraConfig(target_modules='all-linear'))
        said = json.loads(run('inspect', self.root / 'base', '--json').stdout)['lora_targets']
        self.assertEqual(said['hf']['all-linear'],
                         sorted({name.split('.')[-1] for name in model.targeted_module_names}))
        self.assertEqual(said['hf']['all-embedding'], ['embed_tokens'])
        self.assertEqual(said['native'],
                         {'all-linear': ['linear_fc1', 'linear_fc2', 'linear_proj', 'linear_qkv'],
                          'all-embedding': ['word_embeddings'], 'all-router': []})

    def test_peft_merges_what_comes_back_as_it_merges_its_own(self):
        for kind in KINDS:
            with self.subTest(kind=kind):
                want = self.adapter(kind)
                run('convert', self.root / 'base', self.root / 'mca', '--adapter',
                    self.root / kind, '--tp', 2, '--overwrite')
                run('convert', self.root / 'base', self.root / 'back', '--adapter',
                    self.root / 'mca', '--to', 'peft', '--overwrite')
                self.assert_close(self.merged(self.root / 'back'), want)
                run('merge', self.root / 'base', self.root / 'mca', self.root / 'merged',
                    '--overwrite')
                self.assert_close(load_file(self.root / 'merged/model.safetensors'), want)

    def test_native_tensors_are_those_that_rolls_layers_have(self):
        self.adapter('all')
        run('convert', self.root / 'base', self.root / 'mca', '--adapter', self.root / 'all',
            '--tp', 2, '--pp', 2)
        tensors = load_file(self.root / 'all/adapter_model.safetensors')
        front = 'base_model.model.model.layers.2.'
        place = self.root / 'mca/default/iter_0000001'
        states = [torch.load(place / f'mp_rank_{rank:02}_001/model_optim_rng.pt')['model']
                  for rank in range(2)]
        layer = 'decoder.layers.0.'
        for rank, state in enumerate(states):
            # A row-parallel module splits A by columns and keeps B whole; a column-parallel module does the reverse.
            a = tensors[front + 'self_attn.o_proj.lora_A.weight']
            self.assertTrue(torch.equal(state[layer + 'self_attention.linear_proj.lora_A.weight'],
                                        a.chunk(2, 1)[rank]))
            self.assertTrue(torch.equal(state[layer + 'self_attention.linear_proj.lora_B.weight'],
                                        tensors[front + 'self_attn.o_proj.lora_B.weight']))
            fc1 = state[layer + 'mlp.linear_fc1.lora_B.weight'] @ \
                state[layer + 'mlp.linear_fc1.lora_A.weight']
            want = [(tensors[front + f'mlp.{part}_proj.lora_B.weight']
                     @ tensors[front + f'mlp.{part}_proj.lora_A.weight']).chunk(2)[rank]
                    for part in ('gate', 'up')]
            self.assertLess((fc1 - torch.cat(want)).abs().max(), 1e-6)
        config = json.loads((self.root / 'mca/default/adapter_config.json').read_text())
        self.assertEqual(config['target_modules'],
                         ['linear_fc1', 'linear_fc2', 'linear_proj', 'linear_qkv'])
        ranks = {**dict.fromkeys(config['target_modules'], config['r']), **config['rank_pattern']}
        self.assertEqual(ranks, dict(linear_fc1=8, linear_fc2=4, linear_proj=4, linear_qkv=12))
        for module in ranks:
            alpha = config['alpha_pattern'].get(module, config['lora_alpha'])
            self.assertEqual(alpha / ranks[module], 2)

    def test_one_a_for_all_of_a_fused_module_stays_one(self):
        """ROLL trains and exports adapters in this form."""
        self.adapter('all')
        path = self.root / 'all/adapter_model.safetensors'
        tensors = load_file(path)
        for name in tensors:
            for own, others in (('q_proj', ('k_proj', 'v_proj')), ('gate_proj', ('up_proj',))):
                if f'{own}.lora_A' in name:
                    for other in others:
                        tensors[name.replace(own, other)] = tensors[name].clone()
        save_file(tensors, path, {'format': 'pt'})
        run('convert', self.root / 'base', self.root / 'mca', '--adapter', self.root / 'all')
        config = json.loads((self.root / 'mca/default/adapter_config.json').read_text())
        self.assertEqual((config['r'], config['rank_pattern']), (4, {}))
        run('convert', self.root / 'mca', self.root / 'back')
        got = load_file(self.root / 'back/adapter_model.safetensors')
        self.assertTrue(all(torch.equal(got[name], tensors[name]) for name in tensors))

    def test_several_adapters_travel_in_folders(self):
        (self.root / 'many').mkdir()
        for kind in ('some', 'rslora'):
            self.adapter(kind, self.root / 'many' / kind)
        run('convert', self.root / 'many', self.root / 'mca', '--config', self.root / 'base',
            '--tp', 2)
        self.assertTrue((self.root / 'mca/mca_config.json').exists())
        done = run('convert', self.root / 'mca', self.root / 'back')
        count = 0
        for kind in ('some', 'rslora'):
            want = load_file(self.root / 'many' / kind / 'adapter_model.safetensors')
            got = load_file(self.root / 'back' / kind / 'adapter_model.safetensors')
            self.assertEqual(sorted(got), sorted(want))
            count += sum(tensor.numel() for tensor in got.values())
        self.assertIn(f': {count} parameters, ', done.stderr)
        done = run('merge', self.root / 'base', self.root / 'mca', self.root / 'out', code=2)
        self.assertIn('holds 2 adapters', done.stderr)
        run('merge', self.root / 'base', self.root / 'mca/some', self.root / 'out')

    def test_experts_have_their_own(self):
        config = transformers.AutoConfig.for_model(
            'mixtral', vocab_size=96, hidden_size=32, intermediate_size=48, num_hidden_layers=2,
            num_attention_heads=8, num_key_value_heads=4, num_local_experts=4)
        base = transformers.AutoModelForCausalLM.from_config(config)
        base.save_pretrained(self.root / 'moe')
        tensors, (inner, hidden) = {}, (48, 32)
        for expert in range(4):
            front = f'base_model.model.model.layers.1.block_sparse_moe.experts.{expert}.'
            for part, out, width in (('w1', inner, hidden), ('w3', inner, hidden),
                                     ('w2', hidden, inner)):
                tensors[f'{front}{part}.lora_A.weight'] = torch.randn(2, width)
                tensors[f'{front}{part}.lora_B.weight'] = torch.randn(out, 2)
        (self.root / 'lora').mkdir()
        save_file(tensors, self.root / 'lora/adapter_model.safetensors', {'format': 'pt'})
        (self.root / 'lora/adapter_config.json').write_text(json.dumps(
            {'peft_type': 'LORA', 'r': 2, 'lora_alpha': 4, 'target_modules': ['w1', 'w2', 'w3']}))
        for options in ([], ['--moe-grouped-gemm']):
            run('convert', self.root / 'moe', self.root / 'mca', '--adapter', self.root / 'lora',
                '--ep', 2, '--overwrite', *options)
            run('convert', self.root / 'mca', self.root / 'back', '--overwrite')
            got = load_file(self.root / 'back/adapter_model.safetensors')
            self.assertEqual(sorted(got), sorted(tensors))
            self.assertTrue(all(torch.equal(got[name], tensors[name]) for name in tensors))

    def test_what_has_no_native_form_is_refused(self):
        def refused(kind, says, **changes):
            KINDS['odd'] = {**KINDS[kind], **changes}
            self.adapter('odd')
            done = run('convert', self.root / 'base', self.root / 'out', '--adapter',
                       self.root / 'odd', '--pp', 2, code=2)
            self.assertIn(says, done.stderr)
            shutil.rmtree(self.root / 'odd')
        refused('some', 'differ in LoRA scale', alpha_pattern={'q_proj': 32})
        refused('dora', 'magnitudes', target_modules=['q_proj'])
        refused('layers', 'different settings for different layers')
        refused('some', 'LoRA of an embedding', target_modules=['embed_tokens'])
        done = run('convert', self.root / 'base', self.root / 'out', '--to', 'peft', code=2)
        self.assertIn('--adapter', done.stderr)
        self.adapter('some')
        done = run('convert', self.root / 'base', self.root / 'out', '--adapter',
                   self.root / 'some', '--to', 'hf', code=2)
        done = run('diff', self.root / 'some', self.root / 'base', code=2)
        self.assertIn('is a LoRA adapter', done.stderr)

    def test_damaged_native_adapters_are_refused(self):
        self.adapter('all')
        run('convert', self.root / 'base', self.root / 'mca', '--adapter', self.root / 'all',
            '--tp', 2)
        path = self.root / 'mca/default/iter_0000001/mp_rank_01/model_optim_rng.pt'
        state = torch.load(path)
        name = 'decoder.layers.1.self_attention.linear_proj.lora_B.weight'
        torch.save({'model': {k: v for k, v in state['model'].items() if k != name}}, path)
        done = run('convert', self.root / 'mca', self.root / 'back', code=1)
        self.assertIn(name + ' is missing', done.stderr)
        state['model'][name] += 1  # B is replicated, so it now differs from the other rank's
        torch.save(state, path)
        done = run('convert', self.root / 'mca', self.root / 'back', code=1)
        self.assertIn('differs', done.stderr)
        os.truncate(path, 100)
        run('convert', self.root / 'mca', self.root / 'back', code=1)
        self.assertFalse((self.root / 'back').exists())


if __name__ == '__main__':
    unittest.main(verbosity=2)
