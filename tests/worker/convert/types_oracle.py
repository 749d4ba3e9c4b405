"""Types of eight bits and less: weights with a scale for each block, and types that are only copied.

usage: types_oracle.py ROLL_CONVERT
"""
import json
import struct
import types
import unittest

import torch
import transformers
from safetensors.torch import load_file, save_file
from transformers import FineGrainedFP8Config
from transformers.integrations.finegrained_fp8 import Fp8Quantize

from family_models import MODELS, logits, make
from oracle import FolderCase, bits, run

EVERY = torch.arange(256, dtype=torch.uint8)


def blocks(tensor, sizes):
    """Returns a scale for each block of a matrix, and the scale of each element."""
    counts = [-(-dim // size) for dim, size in zip(tensor.shape, sizes)]
    scales = torch.rand(counts) + 0.5
    spread = scales.repeat_interleave(sizes[0], 0).repeat_interleave(sizes[1], 1)
    return scales, spread[:tensor.shape[0], :tensor.shape[1]]


class Blocks(FolderCase):
    def quantize(self, model_type='deepseek_v3', sizes=(16, 20), kind=torch.float8_e4m3fn):
        """Quantizes every matrix of the decoder's layers but the routers. Writes the published form and the
        dequantized weights."""
        hf = make(model_type, MODELS[model_type][0], self.root / 'hf')
        path, written, meant = hf / 'model.safetensors', {}, {}
        for name, tensor in load_file(path).items():
            written[name] = meant[name] = tensor.bfloat16()
            if tensor.dim() != 2 or not name.endswith('_proj.weight'):
                continue
            written[name] = tensor.to(kind)
            written[name + '_scale_inv'], spread = blocks(tensor, sizes)
            meant[name] = (written[name].float() * spread).bfloat16()
        save_file(written, path, {'format': 'pt'})
        config = json.loads((hf / 'config.json').read_text())
        config['quantization_config'] = {'quant_method': 'fp8', 'weight_block_size': list(sizes)}
        (hf / 'config.json').write_text(json.dumps(config))
        return hf, meant

    def same(self, directory, meant):
        got = load_file(directory / 'model.safetensors')
        self.assertEqual(sorted(got), sorted(meant))
        for name, tensor in meant.items():
            self.assertTrue(torch.equal(bits(got[name]), bits(tensor)), name)

    def test_blocks_become_bf16_on_any_way_out(self):
        hf, meant = self.quantize()
        run('convert', hf, self.root / 'plain', '--to', 'hf', '--verify')
        self.same(self.root / 'plain', meant)
        config = json.loads((self.root / 'plain/config.json').read_text())
        self.assertNotIn('quantization_config', config)
        run('convert', hf, self.root / 'mca', '--tp', 2, '--ep', 2, '--pp', 2, '--verify')
        run('convert', self.root / 'mca', self.root / 'back', '--verify')
        self.same(self.root / 'back', meant)
        run('diff', hf, self.root / 'mca')
        self.assertTrue(torch.equal(logits(self.root / 'plain'), logits(self.root / 'back')))

    def test_another_type_is_rounded_to_once(self):
        hf, _ = self.quantize('qwen3', (7, 128), torch.float8_e5m2)
        tensors = load_file(hf / 'model.safetensors')
        run('convert', hf, self.root / 'out', '--to', 'hf', '--dtype', 'fp32')
        name = 'model.layers.1.mlp.up_proj.weight'
        scales = tensors[name + '_scale_inv'].repeat_interleave(7, 0)[:48]
        got = load_file(self.root / 'out/model.safetensors')[name]
        self.assertTrue(torch.equal(got, tensors[name].float() * scales))

    def test_every_number_of_eight_bits_is_what_torch_makes_of_it(self):
        hf = make('llama', dict(MODELS['llama'][0], hidden_size=64, num_hidden_layers=1), self.root / 'hf')
        path, name = hf / 'model.safetensors', 'model.layers.0.mlp.up_proj.weight'
        for kind in (torch.float8_e4m3fn, torch.float8_e5m2):
            tensors = {key: value for key, value in load_file(path).items() if 'scale' not in key}
            tensors[name] = EVERY.repeat(12).view(48, 64).view(kind)
            tensors[name + '_scale_inv'] = torch.ones(1, 1)
            save_file(tensors, path, {'format': 'pt'})
            run('convert', hf, self.root / 'out', '--to', 'hf', '--overwrite')
            got, want = load_file(self.root / 'out/model.safetensors')[name], tensors[name].bfloat16()
            nan = want.isnan()
            self.assertTrue(torch.equal(nan, got.isnan()))
            self.assertTrue(torch.equal(got[~nan], want[~nan]))

    def test_scales_of_other_sizes_or_of_what_needs_none_are_refused(self):
        hf, _ = self.quantize()
        path = hf / 'model.safetensors'
        tensors, name = load_file(path), 'model.layers.0.mlp.down_proj.weight_scale_inv'
        save_file({**tensors, name: torch.ones(3, 3)}, path, {'format': 'pt'})
        done = run('convert', hf, self.root / 'out', code=1)
        self.assertIn(f'{name} is F32 [3, 3]; blocks of 16 x 20 need F32 [2, 3]', done.stderr)
        save_file({**tensors, 'model.norm.weight_scale_inv': torch.ones(1, 1)}, path, {'format': 'pt'})
        done = run('convert', hf, self.root / 'out', code=2)
        self.assertIn('no rule of family deepseek_v3 names model.norm.weight_scale_inv', done.stderr)

    def test_without_scales_eight_bits_travel_as_they_are(self):
        hf = make('qwen3', MODELS['qwen3'][0], self.root / 'hf')
        path = hf / 'model.safetensors'
        tensors = {name: tensor.to(torch.float8_e4m3fn) if tensor.dim() == 2 else tensor
                   for name, tensor in load_file(path).items()}
        save_file(tensors, path, {'format': 'pt'})
        run('convert', hf, self.root / 'mca', '--tp', 2, '--verify')
        run('convert', self.root / 'mca', self.root / 'back')
        self.same(self.root / 'back', tensors)


class Quantized(FolderCase):
    """The output of --dtype fp8: transformers' own numbers, and a model that transformers loads."""

    SIZES = dict(hidden_size=128, intermediate_size=256, num_attention_heads=4,
                 num_key_value_heads=2, head_dim=64, num_hidden_layers=2)

    def transformers_blocks(self, tensor):
        config = FineGrainedFP8Config(weight_block_size=(128, 128))
        quantizer = types.SimpleNamespace(quantization_config=config)
        return Fp8Quantize(quantizer)._quantize_one('w.weight', tensor)

    def test_numbers_and_scales_are_transformers(self):
        hf = make('qwen3', dict(MODELS['qwen3'][0], **self.SIZES), self.root / 'hf')
        path = hf / 'model.safetensors'
        tensors = load_file(path)
        tensors['model.layers.0.mlp.up_proj.weight'][:128] = 0
        tensors['model.layers.1.mlp.up_proj.weight'] *= torch.logspace(-12, 4, 128)
        save_file(tensors, path, {'format': 'pt'})
        for source, options in ((hf, ['--to', 'hf']), ('mca', [])):
            if source == 'mca':
                run('convert', hf, self.root / 'mca', '--tp', 2, '--pp', 2)
            run('convert', self.root / source, self.root / 'fp8', '--dtype', 'fp8', '--verify',
                '--overwrite', *options)
            got, eight = load_file(self.root / 'fp8/model.safetensors'), 0
            for name, tensor in tensors.items():
                if not name.endswith('_proj.weight'):
                    self.assertTrue(torch.equal(bits(got[name]), bits(tensor)), name)
                    continue
                want = self.transformers_blocks(tensor)
                self.assertTrue(torch.equal(bits(got[name]), bits(want['w.weight'])), name)
                self.assertTrue(torch.equal(got[name + '_scale_inv'], want['w.weight_scale_inv']))
                eight += 1
            self.assertEqual((eight, len(got)), (14, len(tensors) + 14))

    def test_transformers_loads_it_as_we_do(self):
        for model_type, changes in (('qwen3', self.SIZES), ('qwen3_moe', self.SIZES),
                                    ('gpt_oss', self.SIZES)):
            with self.subTest(model_type=model_type):
                make(model_type, dict(MODELS[model_type][0], **changes), self.root / model_type)
                hf = self.root / 'bf16'
                run('convert', self.root / model_type, hf, '--to', 'hf', '--bf16', '--overwrite')
                run('convert', hf, self.root / 'fp8', '--to', 'hf', '--dtype', 'fp8', '--overwrite',
                    '--verify')
                config = json.loads((self.root / 'fp8/config.json').read_text())
                self.assertIn('lm_head', config['quantization_config']['modules_to_not_convert'])
                run('convert', self.root / 'fp8', self.root / 'plain', '--to', 'hf', '--overwrite')
                ids = torch.arange(24).view(1, 24) % 96
                one, other = (transformers.AutoModelForCausalLM.from_pretrained(
                    self.root / name, dtype=torch.bfloat16)(ids).logits for name in ('fp8', 'plain'))
                self.assertTrue(torch.equal(one, other))

    def test_what_is_not_finite_has_no_blocks(self):
        hf = make('llama', MODELS['llama'][0], self.root / 'hf')
        tensors = load_file(hf / 'model.safetensors')
        name = 'model.layers.1.mlp.up_proj.weight'
        tensors[name][2, 3] = float('inf')
        save_file(tensors, hf / 'model.safetensors', {'format': 'pt'})
        done = run('convert', hf, self.root / 'out', '--to', 'hf', '--dtype', 'fp8', code=1)
        self.assertIn('has non-finite values', done.stderr)

    def test_blocks_at_the_edges_are_smaller(self):
        hf = make('llama', MODELS['llama'][0], self.root / 'hf')
        run('convert', hf, self.root / 'fp8', '--to', 'bin', '--dtype', 'fp8', '--verify')
        got = torch.load(self.root / 'fp8/pytorch_model.bin', weights_only=True)
        name = 'model.layers.1.mlp.up_proj.weight'
        tensor = load_file(hf / 'model.safetensors')[name]
        self.assertEqual(tuple(got[name + '_scale_inv'].shape), (1, 1))
        back = got[name].float() * got[name + '_scale_inv']
        self.assertLess((back - tensor).abs().max(), tensor.abs().max() / 16)

    def test_blocks_that_are_there_travel_as_they_are(self):
        hf, _ = Blocks.quantize(self)
        for options in ([], ['--max-shard-size', '9KB']):
            run('convert', hf, self.root / 'out', '--to', 'hf', '--dtype', 'fp8', '--verify',
                '--overwrite', *options)
            got = {}
            for path in (self.root / 'out').glob('*.safetensors'):
                got.update(load_file(path))
            want = load_file(hf / 'model.safetensors')
            self.assertEqual(sorted(got), sorted(want))
            for name, tensor in want.items():
                self.assertTrue(torch.equal(bits(got[name]), bits(tensor)), name)
        config = json.loads((self.root / 'out/config.json').read_text())
        self.assertEqual(config['quantization_config']['weight_block_size'], [16, 20])

    def test_formats_without_scales_are_refused(self):
        hf = make('llama', MODELS['llama'][0], self.root / 'hf')
        done = run('convert', hf, self.root / 'out', '--dtype', 'fp8', code=2)
        self.assertIn('mca has no scales', done.stderr)


class Bits(FolderCase):
    """Weights of bitsandbytes, written by its formulas."""

    NF4 = [-1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453, -0.28444138169288635,
           -0.18477343022823334, -0.09105003625154495, 0.0, 0.07958029955625534, 0.16093020141124725,
           0.24611230194568634, 0.33791524171829224, 0.44070982933044434, 0.5626170039176941, 0.7229568362236023, 1.0]

    @classmethod
    def packed(cls, name, tensor, nested):
        """Returns the tensors of a weight in NF4, and its values in fp32."""
        table, flat = torch.tensor(cls.NF4), tensor.float().flatten()
        blocks = torch.nn.functional.pad(flat, (0, -len(flat) % 64)).view(-1, 64)
        scales = blocks.abs().amax(1)
        codes = (blocks / scales[:, None]).unsqueeze(-1).sub(table).abs().argmin(-1).flatten()[:len(flat)]
        state = {'quant_type': 'nf4', 'blocksize': 64, 'dtype': 'bfloat16', 'shape': list(tensor.shape)}
        written = {name + '.quant_map': table, name: (codes[::2] * 16 + codes[1::2]).byte()[:, None]}
        if nested:
            map_, offset = torch.linspace(-1, 1, 256), scales.mean().item()
            group = (scales - offset).abs().max()
            coded = ((scales - offset) / group)[:, None].sub(map_).abs().argmin(-1)
            scales = map_[coded] * group + torch.tensor(offset)
            state.update(nested_blocksize=256, nested_dtype='float32', nested_offset=offset)
            written.update({name + '.absmax': coded.byte(), name + '.nested_absmax': group[None],
                            name + '.nested_quant_map': map_})
        else:
            written[name + '.absmax'] = scales
        text = json.dumps(state).encode()
        written[name + '.quant_state.bitsandbytes__nf4'] = torch.tensor(list(text), dtype=torch.uint8)
        values = table[codes] * scales.repeat_interleave(64)[:len(flat)]
        return written, values.view(tensor.shape)

    @staticmethod
    def eight(name, tensor):
        scales = tensor.float().abs().amax(1)
        codes = (tensor.float() * (127 / scales[:, None])).round().to(torch.int8)
        module = name.removesuffix('weight')
        written = {name: codes, module + 'SCB': scales, module + 'weight_format': torch.tensor(0, dtype=torch.uint8)}
        return written, codes.float() * scales[:, None] * 7.874015718698502e-3

    def quantize(self, pack):
        hf = make('llama', MODELS['llama'][0], self.root / 'hf')
        path, written, meant = hf / 'model.safetensors', {}, {}
        for name, tensor in load_file(path).items():
            written[name] = meant[name] = tensor.bfloat16()
            if name.endswith('_proj.weight'):
                parts, meant[name] = pack(name, tensor)
                written.update({key: value.contiguous() for key, value in parts.items()})
        save_file(written, path, {'format': 'pt'})
        config = json.loads((hf / 'config.json').read_text())
        config['quantization_config'] = {'quant_method': 'bitsandbytes', 'load_in_4bit': True}
        (hf / 'config.json').write_text(json.dumps(config))
        return hf, meant

    def test_its_weights_are_read_as_numbers(self):
        for pack in (lambda *one: self.packed(*one, False), lambda *one: self.packed(*one, True), self.eight):
            hf, meant = self.quantize(pack)
            for kind in ('fp32', 'bf16'):
                out = self.root / kind
                run('convert', hf, out, '--to', 'hf', '--dtype', kind, '--overwrite')
                got = load_file(out / 'model.safetensors')
                self.assertEqual(sorted(got), sorted(meant))
                for name, tensor in meant.items():
                    error = (got[name].float() - tensor.float()).abs().max().item()
                    self.assertLess(error, 1e-6 if kind == 'fp32' else 0.01, name)
                self.assertNotIn('quantization_config', (out / 'config.json').read_text())
            run('convert', hf, self.root / 'mca', '--tp', 2, '--dtype', 'fp32', '--overwrite')
            run('diff', self.root / 'fp32', self.root / 'mca')

    def test_wrong_tensors_are_named(self):
        hf, _ = self.quantize(lambda *one: self.packed(*one, False))
        path, name = hf / 'model.safetensors', 'model.layers.0.mlp.up_proj.weight.absmax'
        tensors = load_file(path)
        for change, told in (({name: tensors[name][:-1].clone()}, f'{name} of bitsandbytes is F32'),
                             ({}, f'{name} of bitsandbytes is missing')):
            kept = {key: value for key, value in tensors.items() if key != name}
            save_file({**kept, **change}, path, {'format': 'pt'})
            self.assertIn(told, run('convert', hf, self.root / 'out', code=1).stderr)


class Codes(FolderCase):
    """Weights that are codes of a quantization are refused, with its name in the message."""

    def refused(self, hf, *says):
        done = run('convert', hf, self.root / 'out', code=2)
        for text in says:
            self.assertIn(text, done.stderr)
        self.assertFalse((self.root / 'out').exists())

    def test_a_method_that_the_config_names(self):
        for word, name in (('gptq', 'GPTQ'), ('awq', 'AWQ'), ('hqq', 'hqq'),
                           ('compressed-tensors', 'compressed-tensors'), ('torchao', 'torchao'), ('mxfp4', 'MXFP4')):
            hf = make('llama', MODELS['llama'][0], self.root / word)
            config = json.loads((hf / 'config.json').read_text())
            config['quantization_config'] = {'quant_method': word, 'bits': 4}
            (hf / 'config.json').write_text(json.dumps(config))
            self.refused(hf, f'is quantized by {name} (', 'dequantize this one with', ' first')

    def test_a_method_that_the_tensors_show(self):
        name = 'model.layers.1.mlp.down_proj.'
        codes = torch.zeros(4, 4, dtype=torch.int32)
        cases = {'GPTQ or AWQ': {name + 'qweight': codes, name + 'qzeros': codes + 1},
                 'bitsandbytes': {name + 'weight': codes.byte(), name + 'weight.absmax': torch.ones(4)},
                 'compressed-tensors': {name + 'weight_packed': codes},
                 'an unknown method': {name + 'weight': torch.zeros(32, 48, dtype=torch.int8)}}
        for number, (method, added) in enumerate(cases.items()):
            hf = make('llama', MODELS['llama'][0], self.root / f'hf{number}')
            tensors = load_file(hf / 'model.safetensors')
            tensors.pop(name + 'weight')
            save_file({**tensors, **added}, hf / 'model.safetensors', {'format': 'pt'})
            self.refused(hf, f'is quantized by {method}')


class LessThanAByte(FolderCase):
    def with_type(self, kind, numbers, name='model.layers.1.mlp.down_proj.weight'):
        """Writes a model with a tensor in a type that torch lacks, with `numbers` bits per element."""
        hf = make('llama', MODELS['llama'][0], self.root / kind)
        path = hf / 'model.safetensors'
        tensors, header, data = load_file(path), {}, b''
        content = torch.randint(0, 256, (tensors[name].numel() * numbers // 8,), dtype=torch.uint8)
        for key, tensor in tensors.items():
            raw = (content if key == name else bits(tensor)).numpy().tobytes()
            header[key] = {'dtype': kind if key == name else 'F32', 'shape': list(tensor.shape),
                           'data_offsets': [len(data), len(data) + len(raw)]}
            data += raw
        text = json.dumps(header).encode()
        path.write_bytes(struct.pack('<Q', len(text)) + text + data)
        return hf, content.numpy().tobytes()

    def test_rows_of_whole_bytes_travel(self):
        for kind, numbers in (('F4', 4), ('F6_E2M3', 6), ('F6_E3M2', 6)):
            with self.subTest(kind=kind):
                hf, content = self.with_type(kind, numbers)
                run('convert', hf, self.root / 'out', '--to', 'hf', '--verify', '--overwrite')
                self.assertIn(content, (self.root / 'out/model.safetensors').read_bytes())
                run('diff', hf, self.root / 'out')

    def test_what_torch_has_no_type_for_has_no_native_form(self):
        hf, _ = self.with_type('F4', 4)
        self.assertIn('F4', run('convert', hf, self.root / 'out', code=2).stderr)
        self.assertFalse((self.root / 'out').exists())


if __name__ == '__main__':
    unittest.main(verbosity=2)
