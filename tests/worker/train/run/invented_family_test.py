#!/usr/bin/env python3
"""An invented family, from one JSON file: converts both ways bitwise, and trains like a known family.

The invented family is a known one with permuted names: its keys are the other's values, and so on. So two directories
hold the same model, and all results of Roll must be the same for both.
"""
import array
import json
import os
import random
import subprocess
import sys
import unittest

from ranks import CONVERT, Attempt, RankCase, json_of, write_text

TOP = os.path.join(os.path.dirname(os.path.abspath(__file__)), '../../../..')
KNOWN = os.path.join(TOP, 'schemas/families/qwen3.json')
CONFIG = {'num_hidden_layers': 'depth', 'hidden_size': 'width', 'intermediate_size': 'inner',
          'num_attention_heads': 'queries', 'num_key_value_heads': 'memories', 'head_dim': 'head',
          'vocab_size': 'words', 'max_position_embeddings': 'places', 'rms_norm_eps': 'eps'}
NAMES = [('model.layers.', 'stack.'), ('model.embed_tokens', 'stem'), ('model.norm', 'crown'),
         ('lm_head', 'stem.mirror'), ('k_proj', 'v_proj'), ('q_norm', 'k_norm'), ('gate_proj', 'down_proj'),
         ('gate_proj', 'up_proj'), ('input_layernorm', 'post_attention_layernorm')]
SIZES = {'num_hidden_layers': 4, 'hidden_size': 32, 'intermediate_size': 48, 'num_attention_heads': 4,
         'num_key_value_heads': 2, 'head_dim': 12, 'vocab_size': 256, 'max_position_embeddings': 64,
         'rms_norm_eps': 1e-5}


def invented(name):
    """Translates the known family's name of a tensor, or a pattern of names, to the invented family's."""
    for one, other in NAMES[:4]:
        name = name.replace(one, other)
    for one, other in NAMES[4:]:
        name = name.replace(one, '\0').replace(other, one).replace('\0', other)
    return name


def invented_family():
    family = json_of(KNOWN)
    family['family'] = family['hf']['model_type'] = 'invented'
    for native, source in family['config'].items():
        keys = source['from'] if isinstance(source, dict) else source
        keys = CONFIG.get(keys, keys) if isinstance(keys, str) else keys
        family['config'][native] = {**source, 'from': keys} if isinstance(source, dict) else keys
    family['hf']['defaults'] = {CONFIG.get(key, key): value for key, value in family['hf']['defaults'].items()}
    for rule in family['weights']:
        rule['hf'] = [invented(name) for name in rule['hf']]
    return family


def make_tensors():
    """Returns {name: (shape, float32 bytes)} of a random model of the known family."""
    rng = random.Random(11)
    width, inner, head = SIZES['hidden_size'], SIZES['intermediate_size'], SIZES['head_dim']
    query, memory = SIZES['num_attention_heads'] * head, SIZES['num_key_value_heads'] * head
    shapes = {'model.embed_tokens.weight': [256, width], 'model.norm.weight': [width], 'lm_head.weight': [256, width]}
    for i in range(SIZES['num_hidden_layers']):
        own = {'self_attn.q_proj': [query, width], 'self_attn.k_proj': [memory, width],
               'self_attn.v_proj': [memory, width], 'self_attn.o_proj': [width, query], 'self_attn.q_norm': [head],
               'self_attn.k_norm': [head], 'mlp.gate_proj': [inner, width], 'mlp.up_proj': [inner, width],
               'mlp.down_proj': [width, inner], 'input_layernorm': [width], 'post_attention_layernorm': [width]}
        shapes |= {f'model.layers.{i}.{name}.weight': shape for name, shape in own.items()}
    tensors = {}
    for name, shape in shapes.items():
        count = shape[0] * (shape[1] if len(shape) > 1 else 1)
        mean = 1 if len(shape) == 1 else 0
        tensors[name] = (shape, array.array('f', [rng.gauss(mean, 0.1) for _ in range(count)]).tobytes())
    return tensors


def write_model(folder, config, tensors):
    os.makedirs(folder)
    write_text(os.path.join(folder, 'config.json'), json.dumps(config))
    header, end = {}, 0
    for name, (shape, data) in sorted(tensors.items()):
        header[name] = {'dtype': 'F32', 'shape': shape, 'data_offsets': [end, end + len(data)]}
        end += len(data)
    text = json.dumps(header).encode()
    text += b' ' * (-len(text) % 8)
    with open(os.path.join(folder, 'model.safetensors'), 'wb') as file:
        file.write(len(text).to_bytes(8, 'little') + text + b''.join(data for _, (_, data) in sorted(tensors.items())))


def read_model(folder):
    tensors = {}
    for name in sorted(os.listdir(folder)):
        if not name.endswith('.safetensors'):
            continue
        with open(os.path.join(folder, name), 'rb') as file:
            header = json.loads(file.read(int.from_bytes(file.read(8), 'little')))
            body = file.read()
        for key, tensor in header.items():
            if key != '__metadata__':
                tensors[key] = (tensor['shape'], body[slice(*tensor['data_offsets'])])
    return tensors


class InventedFamily(RankCase):

    def setUp(self):
        super().setUp()
        self.known, self.invented = os.path.join(self.top, 'known'), os.path.join(self.top, 'invented')
        tensors = make_tensors()
        write_model(self.known, {'model_type': 'qwen3', 'rope_theta': 500.0, **SIZES}, tensors)
        self.tensors = {invented(name): tensor for name, tensor in tensors.items()}
        config = {CONFIG.get(key, key): value for key, value in SIZES.items()}
        write_model(self.invented, {'model_type': 'invented', 'rope_theta': 500.0, **config}, self.tensors)
        families = os.path.join(self.top, 'families')
        os.makedirs(families)
        write_text(os.path.join(families, 'invented.json'), json.dumps(invented_family()))
        self.env = {'ROLL_FAMILIES': families}

    def test_names_are_permuted(self):
        self.assertEqual(len(self.tensors), len(make_tensors()))
        self.assertEqual(invented('model.layers.3.mlp.gate_proj.weight'), 'stack.3.mlp.down_proj.weight')
        self.assertEqual(invented('model.layers.3.self_attn.v_proj.weight'), 'stack.3.self_attn.k_proj.weight')

    def convert(self, source, target, *options):
        subprocess.run([CONVERT, 'convert', source, target, *options], check=True, capture_output=True,
                       env={'PATH': '/usr/bin:/bin', **self.env})

    def test_converts_both_ways_bitwise(self):
        native, back = os.path.join(self.top, 'native'), os.path.join(self.top, 'back')
        self.convert(self.invented, native, '--to', 'mca', '--tp', '2', '--pp', '2')
        self.convert(native, back, '--to', 'hf')
        self.assertEqual(read_model(back), self.tensors)

    def test_trains_as_the_known_family_does(self):
        runs = []
        for job, start in enumerate((self.known, self.invented), start=1):
            run = Attempt(self, job, 1, self.document(2, dp=1, model={'from': start}), env=self.env)
            self.assertEqual(run.wait(), [0], run.log())
            runs.append(run)
        known, other = runs
        self.assertEqual([row['step'] for row in other.metrics() if 'loss' in row], [1, 2])
        self.assertEqual(other.metrics(), known.metrics())
        self.assertEqual(other.weights(2), known.weights(2))
        self.assertEqual(json_of(other.published[-1][1], 'mca_config.json')['hf_model_type'], 'invented')


if __name__ == '__main__':
    unittest.main(argv=sys.argv[:1])
