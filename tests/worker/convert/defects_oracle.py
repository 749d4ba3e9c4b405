"""Tests each known defect of the converters that this one replaces, by name: the checkpoint converts, or the error
says why not.

usage: defects_oracle.py ROLL_CONVERT
"""
import argparse
import collections
import json
import os
import pathlib
import re
import shutil
import subprocess
import time
import unittest

import peft
import torch
import transformers
from safetensors.torch import load_file, save_file

from family_models import DENSE, MODELS, TEXT, logits, make
from oracle import PROGRAM, FolderCase, run


class Defects(FolderCase):
    def setUp(self):
        super().setUp()
        self.mca, self.back, self.out = (self.root / name for name in ('mca', 'back', 'out'))

    def model(self, model_type='llama', **changes):
        return make(model_type, dict(MODELS[model_type][0], **changes), self.root / 'hf')

    def there_and_back(self, hf, *layout):
        run('convert', hf, self.mca, *layout, '--overwrite', '--verify')
        run('convert', self.mca, self.back, '--overwrite', '--verify')
        want, got = load_file(hf / 'model.safetensors'), load_file(self.back / 'model.safetensors')
        self.assertEqual(sorted(want), sorted(got))
        for name in want:
            self.assertTrue(torch.equal(want[name], got[name]), name)

    def rank(self, name, chunk='model'):
        return torch.load(self.mca / f'iter_0000001/{name}/model_optim_rng.pt')[chunk]

    def refused(self, *args, says, code=2):
        self.assertIn(says, run(*args, code=code).stderr)
        self.assertFalse(self.out.exists())
        self.assertEqual([path for path in self.root.iterdir() if 'staging' in path.name], [])

    # mcore_adapter: names, shapes and numbers

    def test_latent_attention_down_projections_are_cut_though_the_modules_are_whole(self):
        self.there_and_back(self.model('deepseek_v3'), '--tp', 2)
        prefix = 'decoder.layers.1.self_attention.'
        for name, rows in (('linear_q_down_proj', 20), ('linear_kv_down_proj', 20)):
            for rank in ('mp_rank_00', 'mp_rank_01'):
                self.assertEqual(self.rank(rank)[f'{prefix}{name}.weight'].shape, (rows, 32))

    def test_head_dim_apart_from_hidden_size_by_heads_is_ignored(self):
        self.there_and_back(self.model(head_dim=6), '--tp', 2)
        config = json.loads((self.mca / 'mca_config.json').read_text())
        self.assertEqual(config['kv_channels'], 6)
        qkv = self.rank('mp_rank_00')['decoder.layers.0.self_attention.linear_qkv.weight']
        self.assertEqual(qkv.shape, (2 * 4 * 6, 32))

    def test_key_value_heads_fewer_than_ranks_are_cut_through(self):
        self.there_and_back(self.model(num_key_value_heads=2), '--tp', 4)
        self.refused('convert', self.model(num_key_value_heads=2), self.out, '--tp', 3,
                     says='num_query_groups 2 is not divisible by tp 3')

    def test_a_vocabulary_that_ranks_do_not_divide_is_cut_unevenly_or_loses_rows(self):
        self.refused('convert', self.model(vocab_size=97), self.out, '--tp', 2,
                     says='97 is not divisible by tp 2')

    def test_a_padded_vocabulary_is_stripped_again(self):
        hf = self.model(vocab_size=97, tie_word_embeddings=False)
        pad = ('--make-vocab-size-divisible-by', 4)
        self.there_and_back(hf, '--tp', 2, '--pp', 2, *pad)
        rows = [self.rank(f'mp_rank_{tp:02}_000')['embedding.word_embeddings.weight'] for tp in (0, 1)]
        self.assertEqual([tuple(one.shape) for one in rows], [(52, 32)] * 2)
        want = load_file(hf / 'model.safetensors')['model.embed_tokens.weight']
        self.assertTrue(torch.equal(torch.cat(rows), torch.cat([want, torch.zeros(7, 32)])))
        config = json.loads((self.mca / 'mca_config.json').read_text())
        self.assertEqual((config['vocab_size'], config['padded_vocab_size']), (97, 104))
        run('convert', self.mca, self.out, '--to', 'mca', '--tp', 4, *pad)  # one rank has 5 tokens
        run('diff', hf, self.out)
        shutil.rmtree(self.out)
        self.refused('convert', self.mca, self.out, '--to', 'mca', '--tp', 4,
                     says='--make-vocab-size-divisible-by')

    def test_an_enlarged_vocabulary_is_exported_under_the_old_size(self):
        run('convert', self.model(), self.mca)
        file, path = self.mca / 'iter_0000001/mp_rank_00/model_optim_rng.pt', self.mca / 'mca_config.json'
        state = torch.load(file)
        for name in ('embedding.word_embeddings.weight', 'output_layer.weight'):
            state['model'][name] = torch.cat([state['model'][name], torch.randn(32, 32)])
        torch.save(state, file)
        path.write_text(json.dumps({**json.loads(path.read_text()), 'padded_vocab_size': 128}))
        run('convert', self.mca, self.back)
        self.assertEqual(json.loads((self.back / 'config.json').read_text())['vocab_size'], 128)
        self.assertEqual(logits(self.back).shape[-1], 128)

    def test_softmax_before_or_after_the_choice_of_experts_is_always_the_same(self):
        for kind, normal, before in (('qwen3_moe', True, False), ('qwen3_moe', False, True),
                                     ('qwen2_moe', True, False)):
            hf = make(kind, dict(MODELS[kind][0], norm_topk_prob=normal), self.root / f'{kind}{normal}')
            run('convert', hf, self.mca, '--overwrite')
            config = json.loads((self.mca / 'mca_config.json').read_text())
            self.assertIs(config['moe_router_pre_softmax'], before)

    def test_attention_biases_raise(self):
        self.there_and_back(self.model(attention_bias=True), '--tp', 2, '--pp', 2)
        self.assertTrue(torch.equal(logits(self.root / 'hf'), logits(self.back)))

    def test_dense_layers_between_experts_raise(self):
        self.there_and_back(self.model('qwen3_moe', mlp_only_layers=[1]), '--ep', 2)
        config = json.loads((self.mca / 'mca_config.json').read_text())
        self.assertEqual(config['moe_layer_freq'], [1, 0, 1, 1])

    def test_query_and_key_norms_of_a_mixture_raise(self):
        self.there_and_back(self.model('glm4_moe', use_qk_norm=True), '--tp', 2)

    def test_the_shared_experts_gate_is_lost_to_the_trainer(self):
        self.there_and_back(self.model('qwen2_moe'), '--tp', 2)
        config = json.loads((self.mca / 'mca_config.json').read_text())
        self.assertTrue(config['moe_shared_expert_gate'] and config['moe_use_shared_expert_gate'])
        self.assertIn('decoder.layers.0.mlp.shared_experts.gate_weight', self.rank('mp_rank_01'))

    def test_a_rope_scaling_factor_becomes_eight(self):
        scaling = {'rope_type': 'llama3', 'factor': 32.0, 'low_freq_factor': 1.0,
                   'high_freq_factor': 4.0, 'original_max_position_embeddings': 32,
                   'rope_theta': 500000.0}
        self.there_and_back(self.model(rope_parameters=scaling), '--tp', 2)
        exported = json.loads((self.back / 'config.json').read_text())
        self.assertEqual(exported['rope_parameters']['factor'], 32.0)
        native = json.loads((self.mca / 'mca_config.json').read_text())
        self.assertEqual((native['rotary_scaling'], native['rotary_scaling_factor']), (True, 32.0))
        self.assertTrue(torch.equal(logits(self.root / 'hf'), logits(self.back)))

    def test_rope_parameters_without_scaling_turn_scaling_on(self):
        self.there_and_back(self.model())
        native = json.loads((self.mca / 'mca_config.json').read_text())
        self.assertEqual(native['rope_parameters']['rope_type'], 'default')
        self.assertFalse(native['rotary_scaling'])

    def test_sliding_windows_are_ignored(self):
        self.there_and_back(self.model('mistral', sliding_window=8))
        for path in (self.mca / 'mca_config.json', self.back / 'config.json'):
            self.assertEqual(json.loads(path.read_text())['sliding_window'], 8)

    def test_which_layers_have_experts_must_be_a_list(self):
        for model_type, want in (('glm4_moe', [0, 1, 1, 1]), ('mixtral', 1)):
            hf = make(model_type, MODELS[model_type][0], self.root / model_type)
            self.there_and_back(hf)
            native = json.loads((self.mca / 'mca_config.json').read_text())
            self.assertEqual(native['moe_layer_freq'], want)

    def test_multi_token_prediction_raises(self):
        hf = self.model('deepseek_v3', num_nextn_predict_layers=1)
        path = hf / 'model.safetensors'
        tensors = load_file(path)
        for name in [name for name in tensors if name.startswith('model.layers.3.')]:
            tensors[name.replace('.3.', '.4.', 1)] = torch.randn_like(tensors[name])
        for name, shape in (('enorm', [32]), ('hnorm', [32]), ('shared_head.norm', [32]), ('eh_proj', [32, 64])):
            tensors[f'model.layers.4.{name}.weight'] = torch.randn(shape)
        save_file(tensors, path, {'format': 'pt'})
        self.there_and_back(hf, '--tp', 2)
        self.assertIn('mtp.layers.0.eh_proj.weight', self.rank('mp_rank_01'))

    def test_an_optimizer_beside_the_weights_is_dropped_without_a_word(self):
        run('convert', self.model(), self.mca)
        path = self.mca / 'iter_0000001/mp_rank_00/model_optim_rng.pt'
        torch.save({**torch.load(path), 'optimizer': {'step': 3, 'm': torch.ones(2)}, 'rng_state': [1]}, path)
        report = json.loads(run('convert', self.mca, self.back, '--json').stdout)
        self.assertEqual([(one['tensor'], one['rule']) for one in report['dropped']],
                         [('optimizer', 'training state, not a weight'),
                          ('rng_state', 'training state, not a weight')])

    def test_norm_epsilons_that_no_key_maps_back_become_the_classes_default(self):
        self.there_and_back(self.model(rms_norm_eps=1e-3))
        exported = json.loads((self.back / 'config.json').read_text())
        self.assertEqual(exported['rms_norm_eps'], 1e-3)

    def test_fp8_scales_raise_after_half_the_work(self):
        hf = self.model('deepseek_v3')
        path, name = hf / 'model.safetensors', 'model.layers.0.mlp.down_proj.weight'
        tensors, scale = load_file(path), {name + '_scale_inv': torch.full((1, 1), 0.3)}
        save_file({**tensors, **scale}, path, {'format': 'pt'})
        self.refused('convert', hf, self.out, says=f'no rule of family deepseek_v3 names {name}_scale')
        save_file({**tensors, **scale, name: tensors[name].to(torch.float8_e4m3fn)}, path, {'format': 'pt'})
        run('convert', hf, self.mca, '--tp', 2, '--verify')
        run('convert', self.mca, self.back, '--verify')
        want = (tensors[name].to(torch.float8_e4m3fn).float() * 0.3).bfloat16()
        self.assertTrue(torch.equal(load_file(self.back / 'model.safetensors')[name], want))

    # mcore_adapter: files

    def test_one_virtual_stage_by_number_is_written_as_model0_and_read_as_model(self):
        hf = self.model()
        run('convert', hf, self.mca)
        file = self.mca / 'iter_0000001/mp_rank_00/model_optim_rng.pt'
        torch.save({'model0': torch.load(file)['model']}, file)
        for vpp in (1, None):
            path = self.mca / 'mca_config.json'
            config = json.loads(path.read_text())
            config['virtual_pipeline_model_parallel_size'] = vpp
            path.write_text(json.dumps(config))
            run('convert', self.mca, self.back, '--overwrite')
            run('diff', hf, self.back)

    def test_a_rank_file_holds_whole_tensors_behind_its_views(self):
        hf = self.model()
        run('convert', hf, self.mca, '--tp', 4)
        size = sum(path.stat().st_size for path in self.mca.rglob('*.pt'))
        self.assertLess(size, 1.5 * (hf / 'model.safetensors').stat().st_size + 4 * 40_000)

    def test_expert_ranks_of_other_width_leave_half_an_output(self):
        self.there_and_back(self.model('qwen3_moe'), '--tp', 2, '--etp', 1)

    def test_a_missing_tokenizer_fails_after_all_weights_are_written(self):
        hf = self.model()
        self.assertEqual([path.name for path in hf.iterdir() if 'token' in path.name], [])
        self.there_and_back(hf)

    def test_type_flags_change_the_config_alone(self):
        hf = self.model()
        run('--checkpoint_path', hf, '--output_path', self.mca, '--bf16')
        self.assertEqual({tensor.dtype for tensor in self.rank('mp_rank_00').values()},
                         {torch.bfloat16})
        run('--checkpoint_path', self.mca, '--output_path', self.back, '--fp16')
        self.assertEqual({tensor.dtype for tensor in load_file(
            self.back / 'model.safetensors').values()}, {torch.float16})

    def test_replicas_are_compared_only_within_a_shard(self):
        run('convert', self.model('qwen3_moe'), self.mca, '--ep', 2)
        file = self.mca / 'iter_0000001/mp_rank_00_001/model_optim_rng.pt'
        state = torch.load(file)
        state['model']['embedding.word_embeddings.weight'][5, 5] += 1
        torch.save(state, file)
        self.refused('convert', self.mca, self.out, '--max-shard-size', '4KB', code=1, says='differs')

    def test_norms_that_drifted_apart_cannot_be_converted_unless_asked(self):
        run('convert', self.model(), self.mca, '--tp', 2)
        file, name = self.mca / 'iter_0000001/mp_rank_01/model_optim_rng.pt', 'decoder.final_layernorm.weight'
        state = torch.load(file)
        state['model'][name][3] += 1
        torch.save(state, file)
        self.refused('convert', self.mca, self.out, code=1, says='differs')
        done = subprocess.run([PROGRAM, 'convert', self.mca, self.out, '--verify'], capture_output=True, text=True,
                              env={**os.environ, 'ASSERT_SP_CONSISTENCY': '0'}, check=True)
        self.assertIn(f'warning: iter_0000001/mp_rank_01/model_optim_rng.pt: {name} differs', done.stderr)
        self.assertTrue(torch.equal(load_file(self.out / 'model.safetensors')['model.norm.weight'],
                                    self.rank('mp_rank_00')[name]))

    def test_generation_config_is_not_written(self):
        hf = self.model()
        self.assertTrue((hf / 'generation_config.json').exists())
        self.there_and_back(hf)
        self.assertEqual((hf / 'generation_config.json').read_text(),
                         (self.back / 'generation_config.json').read_text())

    def test_directories_of_stages_and_of_expert_ranks_have_the_same_names(self):
        for layout in (['--pp', 2], ['--ep', 2]):
            self.there_and_back(self.model('qwen3_moe'), *layout)
            names = sorted(path.name for path in (self.mca / 'iter_0000001').iterdir())
            self.assertEqual(names, ['mp_rank_00_000', 'mp_rank_00_001'])

    def test_shards_named_without_a_total_are_read_and_not_written(self):
        hf = self.model()
        run('convert', hf, self.mca, '--to', 'hf', '--max-shard-size', '20KB')
        index = json.loads((self.mca / 'model.safetensors.index.json').read_text())
        for name in {*index['weight_map'].values()}:
            self.assertRegex(name, r'^model-\d{5}-of-\d{5}\.safetensors$')
            (self.mca / name).rename(self.mca / (name.split('-of-')[0] + '.safetensors'))
        index['weight_map'] = {key: name.split('-of-')[0] + '.safetensors'
                               for key, name in index['weight_map'].items()}
        (self.mca / 'model.safetensors.index.json').write_text(json.dumps(index))
        run('diff', hf, self.mca)

    def test_exporting_an_adapter_from_the_command_line_always_raises(self):
        hf = self.model()
        lora = peft.LoraConfig(task_type='CAUSAL_LM', target_modules=['q_proj', 'down_proj'], r=4,
                               init_lora_weights=False)
        peft.get_peft_model(transformers.LlamaForCausalLM.from_pretrained(hf), lora).save_pretrained(self.root / 'peft')
        run('convert', hf, self.mca, '--adapter', self.root / 'peft', '--tp', 2)
        run('--checkpoint_path', hf, '--adapter_path', self.mca, '--output_path', self.out)
        got, want = (load_file(path / 'adapter_model.safetensors') for path in (self.out, self.root / 'peft'))
        self.assertEqual(sorted(got), sorted(want))
        for name in want:
            self.assertTrue(torch.equal(got[name], want[name]), name)

    def test_a_config_of_another_version_has_other_keys(self):
        hf = self.model()
        run('convert', hf, self.mca, '--tp', 2)
        path = self.mca / 'mca_config.json'
        config = json.loads(path.read_text())
        for unknown in ({'mup_scale': 2.0, 'moe_paged_stash': None}, {'rotary_base': None}):
            path.write_text(json.dumps({**config, **unknown}))
            run('diff', hf, self.mca)
        needed = ('hf_model_type', 'hf_config_json', 'tensor_model_parallel_size')
        path.write_text(json.dumps({key: config[key] for key in needed}))
        run('diff', hf, self.mca)

    def test_additional_configs_are_an_unexpected_argument(self):
        done = run('--checkpoint_path', self.model(), '--output_path', self.mca, '--additional_configs', '{"a": 1}')
        self.assertIn('--additional-configs has no effect on a conversion', done.stderr)

    def test_residual_dropout_is_mapped_the_wrong_way_round(self):
        self.there_and_back(self.model('seed_oss', residual_dropout=0.25))
        self.assertEqual(json.loads((self.mca / 'mca_config.json').read_text())['hidden_dropout'], 0.25)
        self.assertEqual(json.loads((self.back / 'config.json').read_text())['residual_dropout'], 0.25)

    # trlX, and programs that read torch's files without Python

    def test_a_model_is_in_memory_twice(self):
        hf = self.model(num_hidden_layers=1)
        sizes = dict(hidden_size=2048, intermediate_size=8192, num_hidden_layers=4, num_attention_heads=16,
                     num_key_value_heads=16, vocab_size=96, head_dim=128)
        config = json.loads((hf / 'config.json').read_text())
        (hf / 'config.json').write_text(json.dumps({**config, **sizes, 'torch_dtype': 'bfloat16'}))
        with torch.device('meta'):
            model = transformers.LlamaForCausalLM(transformers.LlamaConfig(**{**config, **sizes}))
        save_file({name: torch.ones(tensor.shape, dtype=torch.bfloat16) for name, tensor
                   in model.state_dict().items()}, hf / 'model.safetensors', {'format': 'pt'})
        peak = 0
        with subprocess.Popen([PROGRAM, 'convert', hf, self.mca, '--tp', '2', '--threads', '2'],
                              stderr=subprocess.DEVNULL) as process:
            while process.poll() is None:  # mapped pages count too
                status = pathlib.Path(f'/proc/{process.pid}/status').read_text()
                found = re.search(r'Name:\s+roll-convert\n[^\0]*VmHWM:\s+(\d+) kB', status)
                peak = max(peak, int(found[1]) * 1024 if found else 0)
                time.sleep(0.002)
        self.assertEqual(process.returncode, 0)
        size = (hf / 'model.safetensors').stat().st_size
        self.assertGreater(size, 500e6)
        self.assertGreater(peak, 1e6)
        self.assertLess(peak, size / 3)  # two tensors of 34 MB, two windows, and the program itself

    def test_dicts_of_one_entry_ordered_ones_and_namespaces_are_not_read(self):
        hf = self.model()
        run('convert', hf, self.mca, '--tp', 2)
        for file in self.mca.rglob('*.pt'):
            inner = collections.OrderedDict(torch.load(file)['model'])
            inner._metadata = collections.OrderedDict(version=2)
            torch.save({'model': inner}, file)
        run('diff', hf, self.mca)
        for file in self.mca.rglob('*.pt'):
            args = argparse.Namespace(one={'a': 1}, nested=argparse.Namespace(path=file))
            torch.save({'model': torch.load(file, weights_only=False)['model'], 'args': args}, file)
        run('diff', hf, self.mca)

    def test_every_defect_of_the_table_has_its_test(self):
        folder = pathlib.Path(__file__).parent
        for line in (folder / 'README.md').read_text().splitlines():
            if not line.startswith('| ') or line.startswith(('| defect', '| report')):
                continue
            for file, name in re.findall(r'`(?:(\w+): )?(test_\w+)`', line.rsplit('|', 2)[1]) or [('', line)]:
                scripts = [folder / f'{file or "defects"}_{kind}.py' for kind in ('oracle', 'test')]
                texts = [path.read_text() for path in scripts if path.exists()]
                self.assertTrue(any(f'def {name}(' in text for text in texts), f'{file} {name}')

    # reports of users of other converters

    def test_a_tied_model_gets_an_output_layer_or_loses_its_last_stage(self):
        hf = self.model('qwen2', tie_word_embeddings=True)
        self.there_and_back(hf, '--pp', 2, '--tp', 2)
        self.assertNotIn('lm_head.weight', load_file(self.back / 'model.safetensors'))
        self.assertTrue(torch.equal(self.rank('mp_rank_01_001')['output_layer.weight'],
                                    self.rank('mp_rank_01_000')['embedding.word_embeddings.weight']))

    def test_a_config_nested_under_text_config_is_not_found(self):
        hf = self.model('qwen3_vl')
        self.there_and_back(hf, '--tp', 2)
        path = self.mca / 'mca_config.json'
        config = json.loads(path.read_text())
        inner = json.loads(config['hf_config_json'])
        inner['text_config']['dtype'] = 'float32'  # published configs have this key
        path.write_text(json.dumps({**config, 'hf_config_json': json.dumps(inner)}))
        run('convert', self.mca, self.out, '--bf16')
        config = transformers.AutoConfig.from_pretrained(self.out)
        self.assertEqual({config.dtype, config.text_config.dtype}, {torch.bfloat16})

    def test_expert_names_of_grouped_layers_are_left_in_the_export(self):
        self.there_and_back(self.model('qwen3_moe'), '--ep', 4, '--moe_grouped_gemm', '--tp', 2)

    def test_norms_in_fp32_beside_bf16_weights_are_one_type_afterwards(self):
        hf = make('llama', DENSE, self.root / 'hf')
        path = hf / 'model.safetensors'
        save_file({name: tensor if 'norm' in name else tensor.bfloat16()
                   for name, tensor in load_file(path).items()}, path, {'format': 'pt'})
        self.there_and_back(hf, '--tp', 2, '--transformer-impl', 'local')
        kinds = {name: tensor.dtype for name, tensor in load_file(
            self.back / 'model.safetensors').items()}
        self.assertEqual(kinds['model.norm.weight'], torch.float32)
        self.assertEqual(kinds['lm_head.weight'], torch.bfloat16)

    def test_a_shard_that_is_missing_is_noticed_by_the_reader_of_the_export(self):
        hf = make('qwen2', TEXT, self.root / 'hf')
        run('convert', hf, self.mca, '--to', 'hf', '--max-shard-size', '20KB')
        first = sorted(self.mca.glob('model-*.safetensors'))[1]
        first.unlink()
        self.refused('convert', self.mca, self.out, code=1, says=first.name)

    def turn_a_byte(self, place, tensor):
        """Flips a bit in the one file that has the tensor's bytes. Returns the file's path."""
        wanted = tensor.contiguous().view(torch.uint8).numpy().tobytes()
        for path in [place] if place.is_file() else sorted(place.rglob('*')):
            if path.is_symlink() or not path.is_file():
                continue
            raw = bytearray(path.read_bytes())
            at = raw.find(wanted)
            if at >= 0:
                raw[at + len(wanted) // 2] ^= 1
                path.write_bytes(raw)
                return path
        raise AssertionError(f'{place} does not hold it')

    def test_a_byte_that_turned_in_a_torch_file_is_named_by_verify(self):
        hf = self.model()
        row = load_file(hf / 'model.safetensors')['model.embed_tokens.weight'][3]
        for to, target in (('mca', 'mca'), ('megatron', 'megatron'), ('torch_dist', 'dist'), ('fsdp_dtensor', 'fsdp'),
                           ('bin', 'bin'), ('nemo', 'nemo'), ('nemo', 'model.nemo')):
            with self.subTest(to=to, target=target):
                place = self.root / target
                run('convert', hf, place, '--to', to)
                run('verify', place)
                path = self.turn_a_byte(place, row)
                self.refused('verify', place, code=1, says='do not match their CRC-32')
                self.refused('convert', place, self.out, '--to', 'hf', '--verify', code=1, says=path.name)

    def test_a_byte_that_turned_in_an_adapter_of_torch_files_is_named_by_verify(self):
        hf = self.model()
        model = peft.get_peft_model(transformers.LlamaForCausalLM.from_pretrained(hf),
                                    peft.LoraConfig(task_type='CAUSAL_LM', target_modules=['o_proj'], r=4))
        model.save_pretrained(self.root / 'bin', safe_serialization=False)
        name, row = next((name, tensor[1]) for name, tensor in torch.load(
            self.root / 'bin/adapter_model.bin', weights_only=True).items() if 'lora_A' in name)
        for to in ('mca', 'torch_dist'):
            run('convert', hf, self.root / to, '--adapter', self.root / 'bin', '--to', to)
        for place in ('bin', 'mca', 'torch_dist'):
            with self.subTest(place=place):
                run('verify', self.root / place)
                self.turn_a_byte(self.root / place, row)
                self.refused('verify', self.root / place, code=1, says='do not match their CRC-32')
                self.refused('convert', hf, self.out, '--adapter', self.root / place, '--to', 'peft', '--verify',
                             code=1, says='do not match their CRC-32')
                self.refused('merge', hf, self.root / place, self.out, '--verify', code=1,
                             says='do not match their CRC-32')


if __name__ == '__main__':
    unittest.main(verbosity=2)
