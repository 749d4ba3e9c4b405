"""Compares roll-convert merge with peft's merge_and_unload.

usage: merge_oracle.py ROLL_CONVERT
"""
import json
import unittest

import peft
import torch
import transformers
from safetensors.torch import load_file, save_file

from family_models import MODELS, as_published, auto_class, make, pack_experts
from oracle import FolderCase, run

ALL = ['q_proj', 'k_proj', 'v_proj', 'o_proj', 'gate_proj', 'up_proj', 'down_proj']
KINDS = {
    'plain': dict(target_modules=ALL, r=4, lora_alpha=8),
    'rslora': dict(target_modules=['q_proj', 'down_proj'], r=4, lora_alpha=6, use_rslora=True),
    'patterns': dict(target_modules=ALL, r=4, lora_alpha=8, rank_pattern={'q_proj': 2},
                     alpha_pattern={r'layers\.1\.mlp\..*': 32}),
    'dora': dict(target_modules=['v_proj', 'up_proj'], r=4, lora_alpha=8, use_dora=True),
    'embedding': dict(target_modules=['embed_tokens', 'o_proj'], r=4, lora_alpha=8),
    'whole': dict(target_modules=['q_proj'], r=4, lora_alpha=8, modules_to_save=['lm_head']),
}


class Merge(FolderCase):
    def setUp(self):
        super().setUp()
        torch.manual_seed(3)
        config = transformers.LlamaConfig(
            vocab_size=96, hidden_size=64, intermediate_size=96, num_hidden_layers=2,
            num_attention_heads=8, num_key_value_heads=4, max_position_embeddings=64)
        transformers.LlamaForCausalLM(config).save_pretrained(self.root / 'fp32')
        transformers.LlamaForCausalLM.from_pretrained(
            self.root / 'fp32', dtype=torch.bfloat16).save_pretrained(self.root / 'bf16')

    def adapter(self, kind):
        """Writes an adapter with random weights, in fp32."""
        base = transformers.LlamaForCausalLM.from_pretrained(self.root / 'fp32')
        model = peft.get_peft_model(base, peft.LoraConfig(task_type='CAUSAL_LM', **KINDS[kind]))
        with torch.no_grad():
            for name, parameter in model.named_parameters():
                if 'lora_' in name or 'modules_to_save' in name:
                    parameter.add_(torch.randn_like(parameter) * 0.05)
        model.save_pretrained(self.root / kind)
        return self.root / kind

    def merged_by_peft(self, base, adapter, dtype):
        model = transformers.LlamaForCausalLM.from_pretrained(base, dtype=dtype)
        model = peft.PeftModel.from_pretrained(model, adapter, autocast_adapter_dtype=True)
        return model.merge_and_unload().state_dict()

    def test_taken_out_again_as_peft_unmerges(self):
        for kind in ('plain', 'rslora', 'patterns'):
            with self.subTest(kind=kind):
                adapter = self.adapter(kind)
                model = transformers.LlamaForCausalLM.from_pretrained(self.root / 'fp32')
                model = peft.PeftModel.from_pretrained(model, adapter)
                model.merge_adapter(safe_merge=True)
                model.unmerge_adapter()
                want = model.unload().state_dict()
                run('merge', self.root / 'fp32', adapter, self.root / 'merged', '--overwrite')
                run('merge', self.root / 'merged', adapter, self.root / 'out', '--unmerge',
                    '--overwrite', '--verify')
                got = load_file(self.root / 'out/model.safetensors')
                base = load_file(self.root / 'fp32/model.safetensors')
                for name in base:
                    scale = base[name].abs().max()
                    self.assertLess((got[name] - base[name]).abs().max() / scale, 1e-6, name)
                    self.assertLess((got[name] - want[name]).abs().max() / scale, 1e-6, name)

    def test_what_forgets_its_base_is_not_taken_out(self):
        for kind, what in (('dora', 'has DoRA'), ('whole', 'replaced lm_head.weight')):
            adapter = self.adapter(kind)
            done = run('merge', self.root / 'fp32', adapter, self.root / 'out', '--unmerge', code=2)
            self.assertIn(what, done.stderr)

    def test_a_sum_that_its_type_cannot_hold_is_refused_as_by_peft(self):
        adapter = self.adapter('plain')
        path = adapter / 'adapter_model.safetensors'
        save_file({name: tensor * 3e3 for name, tensor in load_file(path).items()}, path,
                  {'format': 'pt'})
        with self.assertRaises(ValueError):
            model = transformers.LlamaForCausalLM.from_pretrained(self.root / 'fp32',
                                                                  dtype=torch.float16)
            peft.PeftModel.from_pretrained(model, adapter).merge_and_unload(safe_merge=True)
        done = run('merge', self.root / 'fp32', adapter, self.root / 'out', '--fp16', code=1)
        self.assertIn('non-finite values in F16', done.stderr)
        self.assertFalse((self.root / 'out').exists())

    def test_is_what_peft_gives_in_fp32(self):
        for kind in KINDS:
            with self.subTest(kind=kind):
                adapter = self.adapter(kind)
                want = self.merged_by_peft(self.root / 'fp32', adapter, torch.float32)
                run('merge', self.root / 'fp32', adapter, self.root / 'out', '--overwrite')
                got = load_file(self.root / 'out/model.safetensors')
                self.assertEqual(sorted(got), sorted(want))
                changed = 0
                base = load_file(self.root / 'fp32/model.safetensors')
                for name in want:
                    error = (got[name] - want[name]).abs().max() / want[name].abs().max()
                    self.assertLess(error, 1e-6, name)
                    changed += not torch.equal(got[name], base[name])
                self.assertGreater(changed, 0)

    def test_rounds_once_in_bf16(self):
        for kind in KINDS:
            with self.subTest(kind=kind):
                adapter = self.adapter(kind)
                # Computes embeddings in fp32, because PEFT otherwise rounds their change before it adds it, which
                # Roll does not.
                compute = torch.float32 if kind == 'embedding' else torch.bfloat16
                want = {name: tensor.to(torch.bfloat16) for name, tensor in
                        self.merged_by_peft(self.root / 'bf16', adapter, compute).items()}
                run('merge', self.root / 'bf16', adapter, self.root / 'out', '--overwrite')
                got = load_file(self.root / 'out/model.safetensors')
                different = total = 0
                for name in want:
                    self.assertEqual(got[name].dtype, torch.bfloat16)
                    a = got[name].view(torch.int16).int()
                    b = want[name].view(torch.int16).int()
                    # Excludes elements in which weight and change cancel, because fp32's own rounding is many ulps of
                    # what remains.
                    tiny = want[name].abs() < 1e-4 * want[name].abs().max()
                    self.assertLessEqual((a - b)[~tiny].abs().max(), 1, name)
                    different += (a != b).sum().item()
                    total += a.numel()
                self.assertLessEqual(different, 1e-4 * total)

    def test_merges_into_any_layout(self):
        adapter = self.adapter('plain')
        dora = self.adapter('dora')
        for adapter in (adapter, dora):
            run('merge', self.root / 'bf16', adapter, self.root / 'hf', '--overwrite')
            run('convert', self.root / 'bf16', self.root / 'mca', '--tp', 2, '--overwrite')
            run('merge', self.root / 'mca', adapter, self.root / 'mca4', '--to', 'mca', '--tp', 4,
                '--pp', 2, '--overwrite')
            run('diff', self.root / 'hf', self.root / 'mca4')

    def test_no_part_of_an_adapter_is_lost_silently(self):
        adapter = self.adapter('plain')
        path = adapter / 'adapter_model.safetensors'
        tensors = load_file(path)

        def refused(says, code, **changed):
            save_file({**tensors, **changed}, path)
            done = run('merge', self.root / 'fp32', adapter, self.root / 'out', code=code)
            self.assertIn(says, done.stderr)
            self.assertFalse((self.root / 'out').exists())

        prefix = 'base_model.model.model.layers.0.'
        refused('model.layers.0.mlp.other.weight', 2,
                **{prefix + 'mlp.other.lora_A.weight': torch.zeros(4, 64),
                   prefix + 'mlp.other.lora_B.weight': torch.zeros(96, 4)})
        refused('lacks its matrix A or B', 1,
                **{prefix + 'mlp.other.lora_A.weight': torch.zeros(4, 64)})
        refused('has rank 3', 1,
                **{prefix + 'self_attn.q_proj.lora_A.weight': torch.zeros(3, 64),
                   prefix + 'self_attn.q_proj.lora_B.weight': torch.zeros(64, 3)})
        refused('self_attn.q_proj has non-finite values', 1,
                **{prefix + 'self_attn.q_proj.lora_A.weight': torch.full((4, 64), torch.nan)})
        refused('has shape', 2,
                **{prefix + 'self_attn.q_proj.lora_A.weight': torch.zeros(4, 65)})
        save_file(tensors, path)
        config = json.loads((adapter / 'adapter_config.json').read_text())
        for key, value in (('peft_type', 'IA3'), ('lora_bias', True), ('bias', 'all')):
            (adapter / 'adapter_config.json').write_text(json.dumps({**config, key: value}))
            done = run('merge', self.root / 'fp32', adapter, self.root / 'out', code=2)
            self.assertIn(key, done.stderr)

    def test_what_changed_its_base_at_the_start_is_refused_unless_peft_took_that_out(self):
        for start in ('pissa', 'pissa_niter_4', 'olora'):
            base = transformers.LlamaForCausalLM.from_pretrained(self.root / 'fp32')
            model = peft.get_peft_model(base, peft.LoraConfig(
                task_type='CAUSAL_LM', target_modules=ALL, r=4, lora_alpha=8, init_lora_weights=start))
            initial, asked = self.root / start / 'initial', model.peft_config['default']
            asked.init_lora_weights = True
            model.save_pretrained(initial)
            asked.init_lora_weights = start
            with torch.no_grad():
                for name, parameter in model.named_parameters():
                    if 'lora_' in name:
                        parameter.add_(torch.randn_like(parameter) * 0.05)
            model.save_pretrained(self.root / start / 'own')
            model.save_pretrained(self.root / start / 'plain', path_initial_model_for_weight_conversion=str(initial))
            want = model.merge_and_unload().state_dict()
            done = run('merge', self.root / 'fp32', self.root / start / 'own', self.root / 'no', code=2)
            self.assertIn(f'init_lora_weights is "{start}"', done.stderr)
            self.assertIn('path_initial_model_for_weight_conversion', done.stderr)
            self.assertFalse((self.root / 'no').exists())
            run('merge', self.root / 'fp32', self.root / start / 'plain', self.root / 'out', '--overwrite')
            got = load_file(self.root / 'out/model.safetensors')
            for name, tensor in got.items():
                self.assertLess((tensor - want[name]).abs().max() / want[name].abs().max(), 1e-5, name)

    def test_each_start_that_changes_the_base_is_named(self):
        adapter = self.adapter('plain')
        path = adapter / 'adapter_config.json'
        config = json.loads(path.read_text())
        for start, code in (('corda', 2), ('loftq', 2), ('lora_ga', 2), ('PiSSA', 2), ('new_way', 2),
                            ('gaussian', 0), ('eva', 0), (False, 0), (None, 0)):
            path.write_text(json.dumps({**config, 'init_lora_weights': start}))
            done = run('merge', self.root / 'fp32', adapter, self.root / 'out', '--overwrite', code=code)
            self.assertEqual(str(start) in done.stderr, code == 2, start)

    def experts_adapter(self, model_type, **changes):
        """Makes a model with experts, and an adapter of all its linear layers in PEFT's present form."""
        hf, adapter = self.root / model_type, self.root / f'{model_type}-adapter'
        make(model_type, MODELS[model_type][0], hf)
        model = auto_class(transformers.AutoConfig.from_pretrained(hf)).from_pretrained(hf)
        settings = dict(task_type='CAUSAL_LM', target_modules=['q_proj', 'o_proj'], r=3, lora_alpha=6,
                        target_parameters=['mlp.experts.gate_up_proj', 'mlp.experts.down_proj'])
        model = peft.get_peft_model(model, peft.LoraConfig(**{**settings, **changes}))
        with torch.no_grad():
            for name, parameter in model.named_parameters():
                if 'lora_' in name:
                    parameter.add_(torch.randn_like(parameter) * 0.05)
        model.save_pretrained(adapter)
        self.assertTrue(any('experts' in name for name in load_file(adapter / 'adapter_model.safetensors')))
        model.merge_and_unload().save_pretrained(self.root / f'{model_type}-want')
        as_published(model_type, self.root / f'{model_type}-want/model.safetensors')
        return hf, adapter, self.root / f'{model_type}-want'

    def test_parameters_of_all_experts_merge_as_peft_merges_them(self):
        cases = {'qwen3_moe': {}, 'mixtral': dict(use_rslora=True), 'gpt_oss': {},
                 'glm4_moe': dict(rank_pattern={'gate_up_proj': 2}, alpha_pattern={r'experts\.down_proj': 9}),
                 'qwen3_5_moe': dict(target_parameters=['experts.down_proj']), 'qwen3_vl_moe': {}}
        for model_type, changes in cases.items():
            with self.subTest(model_type=model_type):
                hf, adapter, want = self.experts_adapter(model_type, **changes)
                run('merge', hf, adapter, self.root / 'out', '--overwrite', '--verify')
                got, base = (load_file(path / 'model.safetensors') for path in (self.root / 'out', hf))
                changed = set()
                for name, tensor in load_file(want / 'model.safetensors').items():
                    self.assertLess((tensor - got[name]).abs().max().item(), 1e-5, name)
                    if not torch.equal(got[name], base[name]):
                        changed.add(name.split('.')[-2 if name.endswith('.weight') else -1])
                self.assertIn('q_proj', changed)
                self.assertTrue(any('down' in name or name == 'w2' for name in changed), changed)

    def test_parameters_of_all_experts_travel_into_any_layout_and_back(self):
        for model_type in ('qwen3_moe', 'gpt_oss'):
            hf, adapter, _ = self.experts_adapter(model_type)
            run('convert', hf, self.root / 'mca', '--adapter', adapter, '--ep', 2, '--tp', 2, '--overwrite',
                '--verify')
            run('convert', self.root / 'mca', self.root / 'peft', '--config', hf, '--overwrite', '--verify')
            want, got = (load_file(path / 'adapter_model.safetensors') for path in (adapter, self.root / 'peft'))
            self.assertEqual(sorted(want), sorted(got))
            for name, tensor in want.items():
                self.assertTrue(torch.equal(tensor, got[name]), name)
            config = json.loads((self.root / 'peft/adapter_config.json').read_text())
            self.assertEqual(sorted(config['target_parameters']),
                             ['mlp.experts.down_proj', 'mlp.experts.gate_up_proj'])
            self.assertEqual(sorted(config['target_modules']), ['o_proj', 'q_proj'])
            self.assertIn('rank 3 ', run('inspect', adapter, '--config', hf).stdout)
            run('merge', hf, self.root / 'mca', self.root / 'one', '--overwrite')
            run('merge', hf, self.root / 'peft', self.root / 'two', '--overwrite')
            run('diff', self.root / 'one', self.root / 'two')

    def test_parameters_of_other_sizes_are_refused(self):
        hf, adapter, _ = self.experts_adapter('qwen3_moe')
        path = adapter / 'adapter_config.json'
        config = json.loads(path.read_text())
        path.write_text(json.dumps({**config, 'rank_pattern': {'gate_up_proj': 2}}))
        done = run('merge', hf, adapter, self.root / 'out', code=1)
        self.assertIn('its config says rank 2', done.stderr)
        path.write_text(json.dumps(config))
        llama = make('llama', MODELS['llama'][0], self.root / 'llama')
        done = run('merge', llama, adapter, self.root / 'out', code=2)
        self.assertIn("no tensor of stacked experts in the model has these sizes", done.stderr)

    def test_into_experts_packed_as_they_are_published(self):
        for model_type, turned in (('qwen3_vl_moe', True), ('qwen3_5_moe', False)):
            hf, prefix = self.root / model_type, 'model.language_model.layers.'
            source, wanted = hf / 'model.safetensors', self.root / 'want.safetensors'
            make(model_type, MODELS[model_type][0], hf)
            pack_experts(source, prefix, False)
            tensors = load_file(source)
            gate_up, down = (tensors[f'{prefix}0.mlp.experts.{name}'][1] for name in ('gate_up_proj', 'down_proj'))
            lora = {}
            for name, part in zip(('gate', 'up', 'down'), (*gate_up.chunk(2), down)):
                stem = f'base_model.model.{prefix}0.mlp.experts.1.{name}_proj.lora_'
                a, b = torch.randn(4, part.shape[1]), torch.randn(part.shape[0], 4)
                lora |= {stem + 'A.weight': a, stem + 'B.weight': b}
                part += 2 * (b @ a)
            save_file(tensors, wanted)
            if turned:
                pack_experts(source, prefix, True)
                pack_experts(wanted, prefix, True)
            adapter = self.root / (model_type + '-adapter')
            adapter.mkdir()
            save_file(lora, adapter / 'adapter_model.safetensors')
            (adapter / 'adapter_config.json').write_text(json.dumps(dict(
                peft_type='LORA', r=4, lora_alpha=8, target_modules=['gate_proj', 'up_proj', 'down_proj'])))
            run('merge', hf, adapter, self.root / 'merged', '--overwrite')
            want, got = load_file(wanted), load_file(self.root / 'merged/model.safetensors')
            self.assertEqual(sorted(want), sorted(got))
            for name, tensor in want.items():
                self.assertLess((tensor - got[name]).abs().max().item(), 1e-5, name)


if __name__ == '__main__':
    unittest.main(verbosity=2)
