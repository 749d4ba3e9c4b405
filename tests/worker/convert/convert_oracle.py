"""Compares roll-convert with the real tools: torch, transformers and safetensors, on tiny seeded models.

usage: convert_oracle.py ROLL_CONVERT
"""
import json
import os
import pathlib
import pty
import shutil
import subprocess
import unittest

import torch
import transformers
from safetensors.torch import load_file, save_file

from oracle import PROGRAM, FolderCase, bits, run


def tiny_llama(path, dtype=torch.float32, **changes):
    sizes = dict(vocab_size=96, hidden_size=32, intermediate_size=48, num_hidden_layers=4,
                 num_attention_heads=8, num_key_value_heads=4, max_position_embeddings=64)
    sizes.update(changes)
    torch.manual_seed(7)
    model = transformers.LlamaForCausalLM(transformers.LlamaConfig(**sizes)).to(dtype)
    for name, parameter in model.named_parameters():  # all weights of norms are 1 otherwise
        if parameter.dim() == 1:
            torch.nn.init.normal_(parameter)
    model.save_pretrained(path)
    return model


def weights(directory):
    tensors = {}
    for path in sorted(directory.glob('*.safetensors')):
        tensors.update(load_file(path))
    return tensors


class Case(FolderCase):
    def assert_same(self, a, b):
        self.assertEqual(sorted(a), sorted(b))
        for name in a:
            self.assertEqual(a[name].dtype, b[name].dtype, name)
            self.assertTrue(torch.equal(bits(a[name]), bits(b[name])), name)


class Formats(Case):
    def test_files_are_those_of_the_reference_writer_byte_for_byte(self):
        tiny_llama(self.root / 'hf', torch.bfloat16)
        run('convert', self.root / 'hf', self.root / 'mca')
        run('convert', self.root / 'mca', self.root / 'back')
        self.assertEqual((self.root / 'hf/model.safetensors').read_bytes(),
                         (self.root / 'back/model.safetensors').read_bytes())

    def test_mixed_types_are_laid_out_as_the_reference_writer_does(self):
        tiny_llama(self.root / 'hf')
        path = self.root / 'hf/model.safetensors'
        kinds = [torch.float32, torch.bfloat16, torch.float16, torch.float64, torch.int64,
                 torch.int32, torch.int16, torch.float8_e4m3fn, torch.bool]
        tensors = {name: tensor.to(kinds[i % len(kinds)])
                   for i, (name, tensor) in enumerate(load_file(path).items())}
        save_file(tensors, path, {'format': 'pt'})
        run('convert', self.root / 'hf', self.root / 'out', '--to', 'hf')
        self.assertEqual(path.read_bytes(), (self.root / 'out/model.safetensors').read_bytes())

    def test_reads_sharded_pytorch_bin(self):
        model = tiny_llama(self.root / 'hf')
        os.remove(self.root / 'hf/model.safetensors')
        state, names = model.state_dict(), list(model.state_dict())
        weight_map = {}
        for part, chosen in enumerate((names[::2], names[1::2]), 1):
            file = f'pytorch_model-{part:05}-of-00002.bin'
            torch.save({name: state[name] for name in chosen}, self.root / 'hf' / file)
            weight_map.update({name: file for name in chosen})
        index = self.root / 'hf/pytorch_model.bin.index.json'
        index.write_text(json.dumps({'metadata': {}, 'weight_map': weight_map}))
        run('convert', self.root / 'hf', self.root / 'mca', '--tp', 2)
        run('convert', self.root / 'mca', self.root / 'back')
        self.assert_same(dict(state), weights(self.root / 'back'))
        for wrong in ('../pytorch_model.bin', 'nowhere.bin'):
            index.write_text(json.dumps(
                {'metadata': {}, 'weight_map': {**weight_map, 'lm_head.weight': wrong}}))
            run('convert', self.root / 'hf', self.root / 'out', code=1)

    def test_torch_loads_what_we_write_with_weights_only_and_mapped(self):
        model = tiny_llama(self.root / 'hf')
        run('convert', self.root / 'hf', self.root / 'mca')
        file = self.root / 'mca/iter_0000001/mp_rank_00/model_optim_rng.pt'
        for mmap in (False, True):
            state = torch.load(file, weights_only=True, mmap=mmap)
            self.assertEqual(type(state), dict)
            self.assertEqual(list(state), ['model'])
        state = state['model']
        layer = model.model.layers[1]
        self.assertTrue(torch.equal(
            state['decoder.layers.1.mlp.linear_fc1.weight'],
            torch.cat([layer.mlp.gate_proj.weight, layer.mlp.up_proj.weight])))
        attention, rows = layer.self_attn, []
        for group in range(4):  # for each group, two query heads, a key head and a value head, of 4 rows each
            rows += [attention.q_proj.weight[group * 8:group * 8 + 8],
                     attention.k_proj.weight[group * 4:group * 4 + 4],
                     attention.v_proj.weight[group * 4:group * 4 + 4]]
        self.assertTrue(torch.equal(
            state['decoder.layers.1.self_attention.linear_qkv.weight'], torch.cat(rows)))
        self.assertTrue(torch.equal(
            state['decoder.layers.1.self_attention.linear_qkv.layer_norm_weight'],
            layer.input_layernorm.weight))
        self.assertEqual((self.root / 'mca/latest_checkpointed_iteration.txt').read_text(), '1')

    def test_reads_what_torch_writes_strided_views_parameters_and_extra_state(self):
        tiny_llama(self.root / 'hf')
        run('convert', self.root / 'hf', self.root / 'mca')
        file = self.root / 'mca/iter_0000001/mp_rank_00/model_optim_rng.pt'
        state = torch.load(file)['model']
        from collections import OrderedDict
        changed = OrderedDict()
        for index, (name, tensor) in enumerate(state.items()):
            if tensor.dim() == 2 and index % 2:  # a slice of a larger tensor, as torch.chunk gives
                wide = torch.zeros(tensor.shape[0], 2 * tensor.shape[1])
                wide[:, tensor.shape[1]:] = tensor
                tensor = wide[:, tensor.shape[1]:]
            changed[name] = torch.nn.Parameter(tensor) if index % 3 == 0 else tensor
        changed['decoder.layers.0.mlp.linear_fc1._extra_state'] = None
        changed['decoder.layers.1.mlp.linear_fc1._extra_state'] = torch.empty(0, dtype=torch.uint8)
        torch.save({'model': changed}, file)
        run('convert', self.root / 'mca', self.root / 'back')
        self.assert_same(weights(self.root / 'hf'), weights(self.root / 'back'))

    def test_reads_norms_named_without_transformer_engine(self):
        tiny_llama(self.root / 'hf')
        run('convert', self.root / 'hf', self.root / 'mca', '--transformer-impl', 'local')
        state = torch.load(self.root / 'mca/iter_0000001/mp_rank_00/model_optim_rng.pt')['model']
        self.assertIn('decoder.layers.0.input_layernorm.weight', state)
        config = json.loads((self.root / 'mca/mca_config.json').read_text())
        self.assertEqual(config['transformer_impl'], 'local')
        run('convert', self.root / 'mca', self.root / 'back')
        self.assert_same(weights(self.root / 'hf'), weights(self.root / 'back'))

    def test_shards_with_an_index_that_transformers_loads(self):
        model = tiny_llama(self.root / 'hf')
        run('convert', self.root / 'hf', self.root / 'mca')
        run('convert', self.root / 'mca', self.root / 'back', '--max-shard-size', '20KB')
        self.assertGreater(len(list((self.root / 'back').glob('model-*-of-*.safetensors'))), 3)
        self.assertFalse((self.root / 'back/model.safetensors').exists())
        again = transformers.AutoModelForCausalLM.from_pretrained(self.root / 'back')
        self.assert_same(dict(model.state_dict()), dict(again.state_dict()))
        run('convert', self.root / 'back', self.root / 'mca2')
        run('diff', self.root / 'mca', self.root / 'mca2')

    def test_transformers_loads_the_torch_files_that_we_write(self):
        model = tiny_llama(self.root / 'hf', torch.bfloat16)
        for size in ('5GB', '20KB'):
            run('convert', self.root / 'hf', self.root / 'bin', '--to', 'bin', '--max-shard-size', size,
                '--overwrite', '--verify')
            names = sorted(path.name for path in (self.root / 'bin').glob('*.bin*'))
            if size == '5GB':
                self.assertEqual(names, ['pytorch_model.bin'])
            else:
                self.assertRegex(names[0], r'pytorch_model-00001-of-\d{5}.bin')
                self.assertIn('pytorch_model.bin.index.json', names)
            loaded = transformers.LlamaForCausalLM.from_pretrained(self.root / 'bin', dtype=torch.bfloat16)
            self.assert_same(model.state_dict(), loaded.state_dict())
        run('convert', self.root / 'bin', self.root / 'back', '--to', 'hf')
        self.assertEqual((self.root / 'hf/model.safetensors').read_bytes(),
                         (self.root / 'back/model.safetensors').read_bytes())

    def test_torch_files_that_are_no_zip_are_refused_by_a_sentence(self):
        model = tiny_llama(self.root / 'hf')
        os.remove(self.root / 'hf/model.safetensors')
        torch.save(model.state_dict(), self.root / 'hf/pytorch_model.bin', _use_new_zipfile_serialization=False)
        done = run('convert', self.root / 'hf', self.root / 'out', code=1)
        self.assertIn('pytorch_model.bin: the file is not a zip archive; Roll does not read', done.stderr)
        self.assertIn('torch.save(torch.load(', done.stderr)
        self.assertFalse((self.root / 'out').exists())

class Casts(Case):
    def test_round_as_torch_does(self):
        tiny_llama(self.root / 'hf')
        tensors = load_file(self.root / 'hf/model.safetensors')
        torch.manual_seed(3)
        odd = torch.randint(-2**31, 2**31 - 1, tensors['lm_head.weight'].shape, dtype=torch.int32)
        tensors['lm_head.weight'] = odd.view(torch.float32)  # random bits give denormals, infinities and NaN
        small = torch.randn(tensors['model.embed_tokens.weight'].shape)
        tensors['model.embed_tokens.weight'] = small * 2.0 ** torch.randint(-30, 17, small.shape)
        save_file(tensors, self.root / 'hf/model.safetensors', {'format': 'pt'})
        for flag, dtype in (('bf16', torch.bfloat16), ('fp16', torch.float16)):
            run('convert', self.root / 'hf', self.root / flag, '--to', 'hf', '--dtype', flag)
            self.assertEqual(
                json.loads((self.root / flag / 'config.json').read_text())['dtype'],
                str(dtype).removeprefix('torch.'))
            for name, got in weights(self.root / flag).items():
                want = tensors[name].to(dtype)
                nan = torch.isnan(tensors[name])
                self.assertTrue(torch.isnan(got[nan]).all())
                self.assertTrue(torch.equal(bits(got[~nan]), bits(want[~nan])), name)

    def test_logits_are_those_of_the_weights_rounded(self):
        tiny_llama(self.root / 'hf')
        run('convert', self.root / 'hf', self.root / 'mca')
        run('convert', self.root / 'mca', self.root / 'out', '--bf16')
        tokens = torch.arange(32).reshape(2, 16)
        want = transformers.AutoModelForCausalLM.from_pretrained(
            self.root / 'hf', dtype=torch.bfloat16)(tokens).logits
        config = transformers.AutoConfig.from_pretrained(self.root / 'out')
        self.assertEqual(config.dtype, torch.bfloat16)
        got = transformers.AutoModelForCausalLM.from_pretrained(self.root / 'out')(tokens).logits
        self.assertTrue(torch.equal(got, want))


class Layouts(Case):
    def test_one_layout_to_another_directly(self):
        tiny_llama(self.root / 'hf')
        run('convert', self.root / 'hf', self.root / 'a', '--tp', 2, '--pp', 2)
        run('convert', self.root / 'a', self.root / 'b', '--to', 'mca', '--tp', 4, '--vpp', 2)
        run('convert', self.root / 'hf', self.root / 'c', '--tp', 4, '--vpp', 2)
        for rank in range(4):
            file = f'iter_0000001/mp_rank_{rank:02d}/model_optim_rng.pt'
            b, c = torch.load(self.root / 'b' / file), torch.load(self.root / 'c' / file)
            self.assertEqual(list(b), ['model0', 'model1'])
            for section in b:
                self.assert_same(b[section], c[section])

    def test_uneven_pipelines(self):
        tiny_llama(self.root / 'hf', num_hidden_layers=6)
        for flags in (['--pp', 2, '--layout', 'Ettt*1|t*3,L'],
                      ['--pp', 2, '--layout', 'Ett|tttt L'],
                      ['--pp', 2, '--layout', 'E,t|t*2|t*2|t,L'],
                      ['--pp', 2, '--account_for_embedding_in_pipeline_split', 'true',
                       '--account_for_loss_in_pipeline_split']):
            run('convert', self.root / 'hf', self.root / 'mca', *flags, '--overwrite')
            run('convert', self.root / 'mca', self.root / 'back', '--overwrite')
            self.assert_same(weights(self.root / 'hf'), weights(self.root / 'back'))

class Refusals(Case):
    def refused(self, *args, code, says):
        done = run(*args, code=code)
        self.assertIn(says, done.stderr)
        leftover = [p.name for p in self.root.iterdir() if 'staging' in p.name]
        self.assertEqual(leftover, [])
        self.assertFalse((self.root / 'out').exists())

    def test_sizes_that_do_not_divide_are_refused_with_key_and_numbers(self):
        tiny_llama(self.root / 'hf', num_key_value_heads=2, vocab_size=98)
        hf, out = self.root / 'hf', self.root / 'out'
        self.refused('convert', hf, out, '--tp', 4, code=2, says='98 is not divisible by tp 4')
        self.refused('convert', hf, out, '--pp', 3, code=2, says='num_layers 4 is not divisible')
        self.refused('convert', hf, out, '--pp', 2, '--layout', 'Et|tL', code=2, says='holds 2')
        tiny_llama(self.root / 'kv', num_key_value_heads=2)
        self.refused('convert', self.root / 'kv', out, '--tp', 3, code=2,
                     says='num_query_groups 2 is not divisible by tp 3')

    def test_no_tensor_is_lost_silently(self):
        tiny_llama(self.root / 'hf')
        path = self.root / 'hf/model.safetensors'
        tensors = load_file(path)

        def with_tensors(changed, says, code):
            save_file(changed, path, {'format': 'pt'})
            self.refused('convert', self.root / 'hf', self.root / 'out', code=code, says=says)

        name = 'model.layers.1.mlp.up_proj.weight'
        with_tensors({**tensors, 'model.layers.0.mlp.extra.weight': torch.zeros(3)},
                     'no rule of family llama names model.layers.0.mlp.extra.weight', 2)
        with_tensors({k: v for k, v in tensors.items() if k != name}, name + ' is missing', 1)
        with_tensors({**tensors, name: torch.zeros(47, 32)}, 'has shape [47, 32]', 1)
        dropped = 'model.layers.0.self_attn.rotary_emb.inv_freq'
        save_file({**tensors, dropped: torch.zeros(2)}, path, {'format': 'pt'})
        done = run('convert', self.root / 'hf', self.root / 'out', '--json')
        self.assertEqual(json.loads(done.stdout)['dropped'][0]['tensor'], dropped)

    def test_replicas_that_differ_are_refused(self):
        tiny_llama(self.root / 'hf')
        run('convert', self.root / 'hf', self.root / 'mca', '--tp', 2)
        file = self.root / 'mca/iter_0000001/mp_rank_01/model_optim_rng.pt'
        state = torch.load(file)
        state['model']['decoder.final_layernorm.weight'][3] += 1
        torch.save(state, file)
        self.refused('convert', self.root / 'mca', self.root / 'out', code=1, says='differs')
        self.refused('verify', self.root / 'mca', code=1, says='decoder.final_layernorm.weight')

    def test_a_manifest_that_cannot_be_opened_is_no_sound_one(self):
        tiny_llama(self.root / 'hf')
        run('convert', self.root / 'hf', self.root / 'mca')
        (self.root / 'mca/roll').mkdir()
        (self.root / 'mca/roll/manifest.json').symlink_to('manifest.json')
        self.refused('verify', self.root / 'mca', code=1, says='Too many levels of symbolic links')

    def test_an_existing_target_is_kept(self):
        tiny_llama(self.root / 'hf')
        precious = self.root / 'home'
        precious.mkdir()
        (precious / 'thesis.txt').write_text('mine')
        done = run('convert', self.root / 'hf', precious, code=4)
        self.assertIn('--overwrite', done.stderr)
        run('convert', self.root / 'hf', precious, '--overwrite', code=4)
        self.assertEqual((precious / 'thesis.txt').read_text(), 'mine')
        run('convert', self.root / 'hf', self.root / 'hf', '--overwrite', code=2)
        self.assertTrue((self.root / 'hf/model.safetensors').exists())
        (self.root / 'empty').mkdir()
        run('convert', self.root / 'hf', self.root / 'empty')

class Commands(Case):
    def test_the_command_lines_of_rolls_tool_work(self):
        tiny_llama(self.root / 'hf')
        run('--checkpoint_path', self.root / 'hf', '--output_path', self.root / 'mca',
            '--tensor_model_parallel_size', 2, '--bf16', 'True', '--sequence-parallel')
        config = json.loads((self.root / 'mca/mca_config.json').read_text())
        self.assertEqual(config['tensor_model_parallel_size'], 2)
        self.assertIs(config['bf16'], True)
        self.assertEqual(config['hf_model_type'], 'llama')
        run(f'--checkpoint_path={self.root}/mca', f'--output_path={self.root}/back',
            '--convert_model_max_length', 128)
        exported = json.loads((self.root / 'back/config.json').read_text())
        self.assertEqual((exported['max_position_embeddings'], exported['model_max_length']), (128, 128))

    def test_a_config_for_what_has_one_is_refused(self):
        tiny_llama(self.root / 'hf')
        run('convert', self.root / 'hf', self.root / 'mca')
        for place in ('hf', 'mca'):
            done = run('convert', self.root / place, self.root / 'out', '--config', self.root / 'hf', code=2)
            self.assertIn('has a config; --config is only for checkpoints without a config', done.stderr)

    def test_dry_run_writes_nothing(self):
        tiny_llama(self.root / 'hf')
        done = run('convert', self.root / 'hf', self.root / 'out', '--dry-run', '--tp', 2)
        self.assertIn('decoder.layers.3.mlp.linear_fc1.weight F32 [48, 32] <-', done.stdout)
        self.assertRegex(done.stderr, r'the conversion needs at most \d+ bytes of memory; \d+ bytes of disk are free')
        self.assertEqual([p.name for p in self.root.iterdir()], ['hf'])

    def test_families_check_says_where_a_file_is_wrong(self):
        path = pathlib.Path(__file__).resolve().parents[3] / 'schemas/families/qwen3.json'
        self.assertRegex(run('families', 'check', path).stdout, r': qwen3 with \d+ weight rules\n')
        family, file = json.loads(path.read_text()), self.root / 'mine.json'
        for change, says, code in ((lambda one: one.update(typo=1), 'typo', 2),
                                   (lambda one: one['weights'][0].update(split='diagonal'), 'weights[0].split', 2),
                                   (lambda one: one['weights'][1].pop('hf'), 'weights[1].hf', 2),
                                   (lambda one: one['config'].update(num_layers={'from': 3}), 'num_layers', 2)):
            broken = json.loads(path.read_text())
            change(broken)
            file.write_text(json.dumps(broken))
            done = run('families', 'check', file, code=code)
            self.assertIn('mine.json: ', done.stderr)
            self.assertIn(says, done.stderr)
        file.write_text('{')
        run('families', 'check', file, code=2)
        run('families', 'check', self.root / 'nowhere.json', code=3)
        family['hf']['model_type'] = family['family'] = 'mine'
        file.write_text(json.dumps(family))
        run('families', 'check', file)

    def test_a_terminal_shows_how_far_it_is(self):
        tiny_llama(self.root / 'hf')
        ours, theirs = pty.openpty()
        subprocess.run([PROGRAM, 'convert', self.root / 'hf', self.root / 'mca'], stderr=theirs,
                       check=True)
        said = ''
        while not said.endswith(' GB/s\r\n'):  # a read returns only what has arrived so far
            said += os.read(ours, 1 << 16).decode()
        self.assertRegex(said, r'\r[\d.]+ of 0\.00 GB, [\d.]+ GB/s.*\r\x1b\[Kllama hf -> mca')
        self.assertRegex(said, r'[\d.]+ s, [\d.]+ GB/s\r?\n$')
        quiet = run('convert', self.root / 'mca', self.root / 'back', '--json')
        self.assertEqual((quiet.stderr, json.loads(quiet.stdout)['seconds'] > 0), ('', True))

    def test_inspect_and_diff(self):
        tiny_llama(self.root / 'hf')
        run('convert', self.root / 'hf', self.root / 'mca', '--tp', 2)
        seen = json.loads(run('inspect', self.root / 'mca', '--json').stdout)
        self.assertEqual((seen['format'], seen['layout']['tp']), ('mca', 2))
        self.assertEqual(json.loads(run('diff', self.root / 'hf', self.root / 'mca',
                                        '--json').stdout)['same'], True)
        run('convert', self.root / 'hf', self.root / 'half', '--to', 'hf', '--fp16')
        told = run('diff', self.root / 'hf', self.root / 'half', code=1).stdout
        self.assertRegex(told, r'norm.weight: F32 \[\d+\] in the first, F16 \[\d+\] in the second')
        self.assertIn('--cast', told)
        run('diff', self.root / 'hf', self.root / 'half', '--cast')

    def test_diff_counts_the_numbers_between(self):
        tiny_llama(self.root / 'hf', torch.bfloat16)
        shutil.copytree(self.root / 'hf', self.root / 'other')
        path, name = self.root / 'other/model.safetensors', 'model.layers.0.mlp.up_proj.weight'
        tensors = load_file(path)
        changed = tensors[name].view(torch.int16)
        changed[3, 4] += 5
        changed[7, 7] -= 2
        tensors['model.norm.weight'][:2] = torch.tensor([0.0, 1e-40])
        save_file(tensors, path, {'format': 'pt'})
        before = load_file(self.root / 'hf/model.safetensors')['model.norm.weight'][:2].view(torch.int16)
        found = json.loads(run('diff', self.root / 'hf', self.root / 'other', '--json', code=1).stdout)
        ulps = {one['name']: one['max_ulp'] for one in found['differences']}
        place = [(bit & 0x7fff) * (-1 if bit < 0 else 1) for bit in before.tolist()]
        self.assertEqual(ulps, {name: 5, 'model.norm.weight': max(abs(place[0]), abs(place[1] - 1))})

    def test_companions_travel(self):
        tiny_llama(self.root / 'hf')
        names = ('tokenizer.json', 'tokenizer.model', 'generation_config.json', 'modeling_x.py', 'merges.txt',
                 'chat_template.jinja', 'additional_chat_templates/tool_use.jinja', 'preprocessor_config.json',
                 'video_preprocessor_config.json', 'processor_config.json', 'tokenizer_config.json',
                 'code/layers/attention.py')
        others = ('notes.txt', '.cache/of_others.py')
        for path in (self.root / 'hf' / name for name in (*names, *others)):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(str(path.relative_to(self.root / 'hf')))
        for to in ('mca', 'torch_dist', 'dcp', 'fsdp_dtensor', 'megatron', 'nemo', 'bin'):
            run('convert', self.root / 'hf', self.root / to, '--to', to)
            run('convert', self.root / to, self.root / 'back', '--to', 'hf', '--overwrite')
            for name in names:
                self.assertEqual((self.root / 'back' / name).read_text(), name)
            self.assertFalse(any((self.root / 'back' / name).exists() for name in others))

    def test_a_model_of_bytes_comes_with_a_tokenizer(self):
        tiny_llama(self.root / 'hf', vocab_size=256)
        path = self.root / 'hf/config.json'
        path.write_text(json.dumps({**json.loads(path.read_text()), 'roll_tokenizer': 'bytes'}))
        run('convert', self.root / 'hf', self.root / 'mca')
        run('convert', self.root / 'mca', self.root / 'back')
        for directory in ('mca', 'back'):
            tokenizer = transformers.PreTrainedTokenizerFast.from_pretrained(self.root / directory)
            text = 'In the beginning, \u00e9\n\t\u2603 \U0001f600'
            self.assertEqual(tokenizer(text)['input_ids'], list(text.encode()))
            self.assertEqual(tokenizer.decode(list(text.encode())), text)
        self.assertIsNotNone(transformers.AutoTokenizer.from_pretrained(self.root / 'back'))


if __name__ == '__main__':
    unittest.main(verbosity=2)
