"""Converts tiny seeded models of every family of schemas/families, made with transformers' own classes.

usage: families_oracle.py ROLL_CONVERT

For each: HuggingFace -> MCA -> HuggingFace bit for bit, and the same
logits from the exported directory.
"""
import itertools
import json
import os
import pathlib
import re
import shutil
import unittest
from unittest import mock

import torch
import transformers
from safetensors.torch import load_file, save_file

from family_models import MODELS, WITH_EXPERTS, copy_to_mtp, logits, make, make_with_mtp, pack_experts
from oracle import FolderCase, run

# A few layouts for tests of one family; layouts_oracle.py covers all layouts.
LAYOUTS = [['--tp', '2'], ['--pp', '2', '--vpp', '2'], ['--tp', '4', '--pp', '4'],
           ['--tp', '2', '--pp', '2', '--transformer-impl', 'local'],
           ['--tp', '4', '--pp', '2', '--vpp', '2'], ['--pp', '4', '--transformer-impl', 'local']]
EXPERT_LAYOUTS = [['--ep', '2'], ['--ep', '4', '--tp', '2', '--moe_grouped_gemm', 'true'],
                  ['--ep', '2', '--pp', '2', '--vpp', '2', '--tp', '2'],
                  ['--ep', '4', '--pp', '4', '--tp', '4']]


def legacy_grouped(state):
    """Returns a rank's tensors with the experts in GroupedMLP's form: each transposed, one after another in
    memory."""
    kept = {name: tensor for name, tensor in state.items() if '.experts.linear_fc' not in name}
    for layer, number, rows in itertools.product(range(4), (1, 2), ('weight1', 'weight2')):
        prefix = f'decoder.layers.{layer}.mlp.experts.'
        each = [state[f'{prefix}linear_fc{number}.weight{expert}'] for expert in range(8)
                if f'{prefix}linear_fc{number}.weight{expert}' in state]
        if each and rows == f'weight{number}':
            # GroupedMLP's sharded_state_dict() merges them in the same way
            turned = torch.stack(each).transpose(-1, -2)
            kept[prefix + rows] = turned.reshape(*((32, -1) if number == 1 else (-1, 32)))
    return kept


def tensors_of(directory):
    """Returns type, shape and bytes of each tensor of a HuggingFace directory."""
    return {name: (tensor.dtype, tensor.shape, tensor.view(torch.uint8).numpy().tobytes())
            for name, tensor in load_file(directory / 'model.safetensors').items()}


class Families(FolderCase):
    def test_every_built_in_family_is_tried_here(self):
        known = json.loads(run('families', '--json').stdout)['families']
        self.assertEqual(sorted(known), sorted([*MODELS, 'kimi_k2']))  # kimi_k2 is tested as deepseek_v3

    def round_trips(self, hf, layouts):
        want = load_file(hf / 'model.safetensors')
        for layout in layouts:
            with self.subTest(layout=layout):
                run('convert', hf, self.root / 'mca', *layout, '--overwrite')
                run('convert', self.root / 'mca', self.root / 'back', '--overwrite')
                got = load_file(self.root / 'back/model.safetensors')
                self.assertEqual(sorted(got), sorted(want))
                for name, tensor in want.items():
                    self.assertTrue(torch.equal(tensor, got[name]), name)

    def test_round_trips_and_logits(self):
        for model_type, variants in MODELS.items():
            for number, sizes in enumerate(variants):
                with self.subTest(model_type=model_type, variant=number):
                    hf = make(model_type, sizes, self.root / f'{model_type}-{number}')
                    self.round_trips(hf, LAYOUTS[:2])
                    if model_type in WITH_EXPERTS:
                        self.round_trips(hf, EXPERT_LAYOUTS[:2])
                    self.assertTrue(torch.equal(logits(hf), logits(self.root / 'back')))

    def test_multi_token_prediction_travels(self):
        for model_type in ('deepseek_v3', 'glm4_moe'):
            hf = make(model_type, {**MODELS[model_type][0], 'num_nextn_predict_layers': 1},
                      self.root / model_type)
            self.round_trips(hf, LAYOUTS[:1])  # the config has such a layer, the files do not
            hf = make_with_mtp(model_type, MODELS[model_type][0], self.root / f'{model_type}-mtp')
            self.round_trips(hf, LAYOUTS[:3] + EXPERT_LAYOUTS[:3])
        state = torch.load(self.root / 'mca/iter_0000001/mp_rank_01_001_001/model_optim_rng.pt')
        self.assertIn('mtp.layers.0.transformer_layer.mlp.experts.local_experts.1.linear_fc2.weight',
                      state['model1'])
        self.assertIn('embedding.word_embeddings.weight', state['model1'])

    def test_copies_that_further_tokens_share_are_written_back(self):
        for model_type in ('deepseek_v3', 'glm4_moe'):
            hf = make_with_mtp(model_type, MODELS[model_type][0], self.root / model_type)
            copy_to_mtp(hf)
            self.round_trips(hf, LAYOUTS[:1])
            path = self.root / 'mca/mca_config.json'  # a published config does not have this key
            path.write_text(path.read_text().replace('"hf_mtp_copies"', '"of_others"'))
            run('convert', self.root / 'mca', self.root / 'again', '--overwrite')
            run('diff', hf, self.root / 'again')
            got = load_file(self.root / 'again/model.safetensors')
            self.assertEqual(sorted(got), sorted(load_file(hf / 'model.safetensors')))

    def test_a_head_of_its_own_for_further_tokens_is_kept_beside_megatrons_files(self):
        for model_type, part in (('deepseek_v3', 'shared_head.head'), ('glm4_moe', 'embed_tokens')):
            hf = make_with_mtp(model_type, MODELS[model_type][0], self.root / model_type)
            copy_to_mtp(hf)
            copies = shutil.copytree(hf, self.root / f'{model_type}-copies')
            path, name = hf / 'model.safetensors', f'model.layers.4.{part}.weight'
            tensors = load_file(path)
            tensors[name][2, 3] += 1
            save_file(tensors, path, {'format': 'pt'})
            mca, again, back = (self.root / f'{model_type}-{step}' for step in ('mca', 'tp2', 'back'))
            told = run('convert', hf, mca, '--verify').stderr
            self.assertIn(f'kept in roll/kept.safetensors: {name}; ', told)
            self.assertEqual(list(load_file(mca / 'roll/kept.safetensors')), [name])
            run('convert', mca, again, '--to', 'mca', '--tp', 2, '--verify')
            run('convert', again, back, '--verify')
            self.assertEqual(tensors_of(back), tensors_of(hf))
            for one, other in ((hf, mca), (mca, hf), (hf, back), (hf, hf)):
                run('diff', one, other)
            for directory in (hf, mca):
                run('verify', directory)
            for one, other in ((hf, copies), (copies, hf), (mca, copies)):
                self.assertIn(f'{name}: 1 element differs', run('diff', one, other, code=1).stdout)
            for target in ('megatron', 'torch_dist', 'nemo', 'dcp'):
                done = run('convert', mca, self.root / 'out', '--to', target, code=2)
                self.assertIn(f'{name} differs from', done.stderr)
            # Another tool finds Megatron's tensors, and no others, in the rank's file.
            state = torch.load(mca / 'iter_0000001/mp_rank_00/model_optim_rng.pt', weights_only=False)
            self.assertFalse([key for key in state['model'] if 'shared_head' in key or 'embed_tokens' in key])
            (mca / 'roll/kept.safetensors').unlink()
            self.assertIn('roll/kept.safetensors does not exist',
                          run('convert', mca, self.root / 'out', code=1).stderr)

    def test_inspect_counts_the_experts_that_a_token_uses(self):
        sizes = MODELS['mixtral'][0]
        hf = make('mixtral', sizes, self.root / 'mixtral')
        count = {name: tensor.numel() for name, tensor in load_file(hf / 'model.safetensors').items()}
        routed = sum(size for name, size in count.items() if '.experts.' in name)
        experts, top = sizes['num_local_experts'], sizes.get('num_experts_per_tok', 2)
        active = sum(count.values()) - routed + routed // experts * top
        told = json.loads(run('inspect', hf, '--json').stdout)
        self.assertEqual((told['parameters'], told['active_parameters']), (sum(count.values()), active))
        self.assertIn(f'a token uses {active} of {sum(count.values())} parameters (top {top} of {experts} experts)',
                      run('inspect', hf).stdout)

    def test_a_routers_bias_stays_fp32(self):
        for model_type in ('deepseek_v3', 'glm4_moe'):
            hf = make(model_type, MODELS[model_type][0], self.root / model_type)
            run('convert', hf, self.root / 'mca', '--dtype', 'bf16', '--verify', '--overwrite')
            run('convert', self.root / 'mca', self.root / 'back', '--dtype', 'fp16', '--overwrite')
            got = load_file(self.root / 'back/model.safetensors')
            for name, tensor in load_file(hf / 'model.safetensors').items():
                if name.endswith('e_score_correction_bias'):
                    self.assertTrue(torch.equal(tensor, got.pop(name)), name)
            self.assertEqual({tensor.dtype for tensor in got.values()}, {torch.float16})

    def test_expert_weights_that_are_not_normalized_have_no_native_form(self):
        for model_type in ('deepseek_v3', 'glm4_moe'):
            hf = make(model_type, dict(MODELS[model_type][0], norm_topk_prob=False),
                      self.root / model_type)
            done = run('convert', hf, self.root / 'out', code=2)
            self.assertIn('norm_topk_prob is false', done.stderr)

    def test_kimi_is_deepseek_by_another_name(self):
        hf = make('deepseek_v3', MODELS['deepseek_v3'][0], self.root / 'hf')
        path = hf / 'config.json'
        path.write_text(json.dumps({**json.loads(path.read_text()), 'model_type': 'kimi_k2'}))
        self.round_trips(hf, LAYOUTS[:1])
        exported = json.loads((self.root / 'back/config.json').read_text())
        self.assertEqual(exported['model_type'], 'kimi_k2')

    def test_no_token_of_omni_is_null(self):
        hf = make('qwen3_omni_moe', MODELS['qwen3_omni_moe'][0], self.root / 'hf')
        path = hf / 'config.json'
        config = json.loads(path.read_text())
        config['thinker_config'].pop('vision_start_token_id', None)
        path.write_text(json.dumps(config))
        run('convert', hf, self.root / 'mca')
        native = json.loads((self.root / 'mca/mca_config.json').read_text())
        self.assertEqual(native['vision_start_token_id'], 151652)  # the default of transformers

    def test_the_documents_example_converts_what_transformers_saves(self):
        text = (pathlib.Path(__file__).parents[3] / 'docs/families.md').read_text()
        example = re.search(r'```json\n(\{\n  "family": "mini".*?\n)```', text, re.S)[1]
        (self.root / 'families').mkdir()
        (self.root / 'families/mini.json').write_text(example)
        run('families', 'check', self.root / 'families/mini.json')
        scaling = {'rope_type': 'linear', 'factor': 2.0, 'rope_theta': 77000.0}
        hf = make('llama', dict(MODELS['llama'][0], rope_parameters=scaling), self.root / 'hf')
        path = hf / 'config.json'
        path.write_text(json.dumps({**json.loads(path.read_text()), 'model_type': 'mini'}))
        with mock.patch.dict(os.environ, ROLL_FAMILIES=str(self.root / 'families')):
            self.round_trips(hf, LAYOUTS[:1])
        native = json.loads((self.root / 'mca/mca_config.json').read_text())
        self.assertEqual(native['rotary_base'], 77000.0)
        self.assertEqual(native['rope_parameters']['rope_type'], 'linear')

    def test_experts_packed_as_in_published_files(self):
        for model_type, turned in (('qwen3_vl_moe', True), ('qwen3_5_moe', False)):
            hf = make(model_type, MODELS[model_type][0], self.root / model_type)
            pack_experts(hf / 'model.safetensors', 'model.language_model.layers.', turned)
            self.round_trips(hf, LAYOUTS[:1] + EXPERT_LAYOUTS)
            self.assertTrue(torch.equal(logits(hf), logits(self.root / 'back')))

    def test_a_packing_that_one_shape_does_not_tell_is_told_by_the_others(self):
        for width in (16, 32):  # with 16 gate_up_proj is square, with 32 down_proj
            text = dict(MODELS['qwen3_vl_moe'][0]['text_config'], moe_intermediate_size=width)
            hf = make('qwen3_vl_moe', dict(MODELS['qwen3_vl_moe'][0], text_config=text), self.root / f'hf{width}')
            saved, as_saved = load_file(hf / 'model.safetensors'), self.root / f'as-saved{width}'
            run('convert', hf, as_saved, '--to', 'mca')
            self.round_trips(hf, LAYOUTS[:1] + EXPERT_LAYOUTS[:2])
            self.assertTrue(torch.equal(logits(hf), logits(self.root / 'back')))
            # the form of published files
            pack_experts(hf / 'model.safetensors', 'model.language_model.layers.', True)
            self.round_trips(hf, LAYOUTS[:1])
            run('diff', hf, as_saved)
            turned = load_file(hf / 'model.safetensors')
            names = [name for name in saved if not torch.equal(saved[name].flatten(), turned[name].flatten())]
            self.assertEqual(len(names), 2 * text['num_hidden_layers'])

    def test_gemma3_as_transformers_5_saves_it(self):
        published = make('gemma3', MODELS['gemma3'][0], self.root / 'published')
        hf = self.root / 'hf'
        loaded = transformers.AutoModelForImageTextToText.from_pretrained(published)
        # a new instance, because a loaded model is saved under the names that it was loaded with
        fresh = type(loaded)(loaded.config)
        fresh.load_state_dict(loaded.state_dict())
        fresh.save_pretrained(hf)
        names = load_file(hf / 'model.safetensors')
        self.assertIn('vision_tower.embeddings.position_embedding.weight', names)
        run('diff', published, hf)
        for to, layout in (('mca', ['--tp', 2, '--pp', 2]), ('torch_dist', []), ('dcp', []), ('bin', ['--bf16'])):
            run('convert', hf, self.root / to, '--to', to, *layout, '--verify')
            run('diff', published, self.root / to, *(['--cast'] if to == 'bin' else []))
        run('convert', self.root / 'mca', self.root / 'back')
        self.assertEqual((published / 'model.safetensors').read_bytes(),
                         (self.root / 'back/model.safetensors').read_bytes())
        self.assertTrue(torch.equal(logits(hf), logits(self.root / 'back')))
        names['vision_tower.vision_model.post_layernorm.bias'] = names['vision_tower.post_layernorm.bias'] + 1
        save_file(names, hf / 'model.safetensors', {'format': 'pt'})
        self.assertIn('no rule of family gemma3 names vision_tower.',
                      run('convert', hf, self.root / 'out', code=2).stderr)

    def test_qwen2_moe_without_biases_of_query_key_and_value(self):
        hf = make('qwen2_moe', dict(MODELS['qwen2_moe'][0], qkv_bias=False), self.root / 'hf')
        self.assertNotIn('model.layers.0.self_attn.q_proj.bias', load_file(hf / 'model.safetensors'))
        self.round_trips(hf, LAYOUTS[:2] + EXPERT_LAYOUTS[:2])
        self.assertFalse(json.loads((self.root / 'mca/mca_config.json').read_text())['add_qkv_bias'])
        self.assertTrue(torch.equal(logits(hf), logits(self.root / 'back')))

    def test_experts_of_megatrons_legacy_grouped_module_are_read(self):
        hf = make('qwen3_moe', MODELS['qwen3_moe'][0], self.root / 'hf')
        for to, folder in (('mca', 'iter_0000001'), ('megatron', 'release')):
            for options in (['--ep', 2], ['--tp', 2, '--ep', 2, '--etp', 2], ['--tp', 2, '--pp', 2]):
                run('convert', hf, self.root / to, '--to', to, '--moe_grouped_gemm', 'true', '--transformer-impl',
                    'local', *options, '--overwrite')
                for path in (self.root / to / folder).glob('*/model_optim_rng.pt'):
                    state = torch.load(path, weights_only=False)
                    state['model'] = legacy_grouped(state['model'])
                    torch.save(state, path)
                self.assertIn('decoder.layers.0.mlp.experts.weight1', state['model'])
                run('convert', self.root / to, self.root / 'back', '--to', 'hf', '--overwrite', '--verify')
                self.assertEqual((hf / 'model.safetensors').read_bytes(),
                                 (self.root / 'back/model.safetensors').read_bytes())
                run('diff', hf, self.root / to)
        state['model']['decoder.layers.3.mlp.experts.weight2'] = torch.zeros(15, 32)
        torch.save(state, path)
        done = run('verify', self.root / 'megatron', code=None)
        self.assertIn('decoder.layers.3.mlp.experts.weight2', done.stderr)

    def test_the_layer_of_a_multi_token_prediction_as_either_megatron_names_it(self):
        hf = make_with_mtp('qwen3_5_moe', MODELS['qwen3_5_moe'][0], self.root / 'hf')
        for to in ('mca', 'megatron', 'torch_dist'):
            for word, other in (('mtp_model_layer', 'transformer_layer'), ('transformer_layer', 'mtp_model_layer')):
                run('convert', hf, self.root / to, '--to', to, '--mtp-layer-name', word, '--overwrite', '--verify')
                names = run('inspect', self.root / to, '--json').stdout
                raw = b''.join(path.read_bytes() for path in sorted((self.root / to).rglob('*'))
                               if path.suffix == '.pt' or path.name == '.metadata')
                self.assertEqual((f'mtp.layers.0.{word}.'.encode() in raw, f'.{other}.'.encode() in raw),
                                 (True, False), (to, word))
                self.assertIn('mtp.layers.0.', names)
                run('convert', self.root / to, self.root / 'back', '--to', 'hf', '--overwrite')
                run('diff', hf, self.root / 'back')
        for options, says in ((['--mtp-layer-name', 'x'], 'x not in {transformer_layer,mtp_model_layer}'),
                              (['--to', 'hf', '--mtp-layer-name', 'mtp_model_layer'], 'not hf')):
            self.assertIn(says, run('convert', hf, self.root / 'out', *options, code=2).stderr)

    def test_norms_held_with_one_subtracted(self):
        hf = make('qwen3_next', MODELS['qwen3_next'][0], self.root / 'hf')
        for dtype in (torch.float32, torch.bfloat16):
            path, name = hf / 'model.safetensors', 'model.layers.1.linear_attn.norm.weight'
            tensors = {key: value.to(dtype) for key, value in load_file(path).items()}
            # with 1 subtracted, some of these values are not exact
            tensors[name] = torch.tensor([0.3, 1.7, -0.01, 2.9]).to(dtype)
            save_file(tensors, path, {'format': 'pt'})
            run('convert', hf, self.root / 'mca', '--verify', '--overwrite')
            state = torch.load(self.root / 'mca/iter_0000001/mp_rank_00/model_optim_rng.pt')['model']
            stored = state['decoder.layers.1.self_attention.out_norm.weight']
            self.assertTrue(torch.equal(stored, tensors[name] - 1))
            run('convert', self.root / 'mca', self.root / 'back', '--verify', '--overwrite')
            back = load_file(self.root / 'back/model.safetensors')[name]
            self.assertTrue(torch.equal(back, stored + 1))

    def test_fused_projections_are_as_the_native_modules_have_them(self):
        hf = make('qwen3_next', MODELS['qwen3_next'][0], self.root / 'hf')
        tensors = load_file(hf / 'model.safetensors')
        run('convert', hf, self.root / 'mca', '--tp', 2)
        rank1 = torch.load(self.root / 'mca/iter_0000001/mp_rank_01/model_optim_rng.pt')['model']
        # for each of 4 key heads q, k, v, z (6, 6, 8, 8 rows), then b, a (2, 2); rank 1 has heads 2, 3
        mixed = tensors['model.layers.0.linear_attn.in_proj_qkvz.weight'].view(4, 28, 32)[2:]
        gates = tensors['model.layers.0.linear_attn.in_proj_ba.weight'].view(4, 4, 32)[2:]
        parts = [*mixed.split([6, 6, 8, 8], dim=1), *gates.split(2, dim=1)]
        self.assertTrue(torch.equal(rank1['decoder.layers.0.self_attention.in_proj.weight'],
                                    torch.cat([part.reshape(-1, 32) for part in parts])))
        conv = tensors['model.layers.0.linear_attn.conv1d.weight'].split([24, 24, 32])
        self.assertTrue(torch.equal(rank1['decoder.layers.0.self_attention.conv1d.weight'],
                                    torch.cat([part.chunk(2)[1] for part in conv])))
        # for each group: its query heads, their gates, the key head, the value head
        q, k, v = (tensors[f'model.layers.3.self_attn.{x}_proj.weight'] for x in 'qkv')
        q = q.view(4, 2, 2, 8, 32).transpose(1, 2).reshape(4, 4, 8, 32)
        want = torch.cat([q, k.view(4, 1, 8, 32), v.view(4, 1, 8, 32)], 1)[2:].reshape(-1, 32)
        self.assertTrue(torch.equal(
            rank1['decoder.layers.3.self_attention.linear_qkv.weight'], want))

    def test_the_further_token_of_a_hybrid_model_travels(self):
        hf = make_with_mtp('qwen3_5_moe', MODELS['qwen3_5_moe'][0], self.root / 'hf')
        self.round_trips(hf, LAYOUTS[:3] + EXPERT_LAYOUTS[:3])
        config = json.loads((self.root / 'mca/mca_config.json').read_text())
        self.assertEqual(config['mtp_num_layers'], 1)

    def test_grouped_experts_are_spelled_as_transformer_engine_does(self):
        hf = make('qwen3_moe', MODELS['qwen3_moe'][0], self.root / 'hf')
        run('convert', hf, self.root / 'mca', '--ep', 2, '--moe_grouped_gemm')
        state = torch.load(
            self.root / 'mca/iter_0000001/mp_rank_00_001/model_optim_rng.pt')['model']
        tensors = load_file(hf / 'model.safetensors')
        expert = 'model.layers.2.mlp.experts.5.'  # rank 1 has four experts; this is the second
        self.assertTrue(torch.equal(
            state['decoder.layers.2.mlp.experts.linear_fc1.weight1'],
            torch.cat([tensors[expert + 'gate_proj.weight'], tensors[expert + 'up_proj.weight']])))

    def test_experts_that_do_not_divide_are_refused(self):
        hf = make('qwen3_moe', MODELS['qwen3_moe'][0], self.root / 'hf')
        done = run('convert', hf, self.root / 'out', '--ep', 3, code=2)
        self.assertIn('num_moe_experts 8 is not divisible by ep 3', done.stderr)


if __name__ == '__main__':
    unittest.main(verbosity=2)
