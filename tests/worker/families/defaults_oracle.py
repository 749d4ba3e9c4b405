"""Tests that an absent or null key of a config has the value that transformers gives it, for every family and every
key.

usage: defaults_oracle.py CONFIG_FIELDS

A config without a key is read by transformers, which spells all keys out. Both configs must become the same native
fields, and the same model where the trainer builds it. The families' tables say which keys there are.
"""
import copy
import json
import subprocess
import sys
import unittest
from pathlib import Path

import transformers

FIELDS = sys.argv.pop(1)
TABLES = sorted((Path(__file__).resolve().parents[3] / 'schemas/families').glob('*.json'))
# Sizes other than transformers' own, so that a default that depends on another key is not taken for a fixed number.
SIZES = {'num_hidden_layers': 32, 'num_attention_heads': 24, 'hidden_size': 2304, 'use_sliding_window': True,
         'sliding_window': 4096, 'max_position_embeddings': 4096}
# The objects in which configs have the sizes of the text model.
TEXT = ('text_config', 'thinker_config')
# Native fields that no key of transformers sets: how Megatron splits work or weights losses, and Roll's own fields.
APART = {
    'rope_scaling': 'the trainer\'s "model" has what it means', 'rope_parameters': 'likewise',
    'rotary_scaling_factor': 'Megatron\'s factor, which counts where rope_type says so',
    'original_max_position_embeddings': 'likewise', 'beta_fast': 'likewise', 'beta_slow': 'likewise',
    'mscale': 'likewise', 'mscale_all_dim': 'likewise',
    'hf_experts_stacked': 'how a directory lies', 'hf_experts_transposed': 'likewise',
    'layer_types': 'a copy', 'linear_attention_freq': 'layer_types says it', 'vision_token_id': 'older transformers',
    'mtp_num_layers': 'layers that transformers does not build: the tensors that are there decide',
    'sliding_window': {'qwen3_moe': 'use_sliding_window says it', 'default': ''},
    'kv_channels': {'deepseek_v3': 'of multi-latent attention: two widths', 'default': ''},
}


def is_apart(field, model_type):
    reason = APART.get(field, '')
    return bool(reason.get(model_type, reason['default']) if isinstance(reason, dict) else reason)


def keys_of(table):
    """Returns every HuggingFace key that determines a native field."""
    keys = []
    for source in table['config'].values():
        names = source['from'] if isinstance(source, dict) else source
        keys.append([names] if isinstance(names, str) else names)
    for kind in table.get('layers', {}).values():
        keys += [[kind[key]] for key in ('from', 'every', 'not_in', 'in') if key in kind]
    for value in table.get('constants', {}).values():
        if isinstance(value, dict) and 'not' in value:
            keys.append([value['not']])
    return keys


def place(config, path):
    """Returns the object that holds the last key of a path, and that key; None if there is none."""
    *objects, key = path.split('.')
    for name in objects:
        config = config.get(name) if isinstance(config, dict) else None
    return (config, key) if isinstance(config, dict) else (None, key)


def spelled(config):
    """Returns the config with all keys as transformers reads this config.json."""
    given = copy.deepcopy(config)
    model_type = given.pop('model_type')
    made = transformers.AutoConfig.for_model(model_type, **given).to_dict()
    return json.loads(json.dumps(made, default=str))


def small(config):
    """Replaces the sizes of the text model by SIZES."""
    for name in TEXT:
        if isinstance(config.get(name), dict):
            small(config[name])
            return config
    config.update({key: value for key, value in SIZES.items() if key in config})
    config.pop('layer_types', None)
    return config


def groups_of(table):
    """Returns lists of keys to omit together. The keys of an encoder are one list, because that costs less."""
    keys = keys_of(table)
    encoder = [path for paths in keys for path in paths if 'vision_config.' in path]
    return [paths for paths in keys if 'vision_config.' not in paths[0]] + ([encoder] if encoder else [])


def changes(base, paths):
    """Yields configs without the key and, for models without encoders, with null for it."""
    for kind in ('absent',) if any(name in base for name in TEXT) else ('absent', 'null'):
        config, found = copy.deepcopy(base), False
        for path in paths:
            holder, key = place(config, path)
            if holder is None or key not in holder:
                continue
            found = True
            if kind == 'null':
                holder[key] = None
            else:
                del holder[key]
        if found:
            yield kind, config


def cases():
    for file in TABLES:
        table = json.loads(file.read_text())
        model_type = table['hf']['model_type']
        model_type = model_type if isinstance(model_type, str) else model_type[0]
        whole = transformers.AutoConfig.for_model(model_type).to_dict()
        base = spelled(small(json.loads(json.dumps(whole, default=str))))
        base.pop('layer_types', None)
        for paths in groups_of(table):
            for kind, config in changes(base, paths):
                try:
                    yield f'{model_type} {kind} {paths[0]}', config, spelled(config)
                except Exception:  # transformers refuses it; the type of the error varies
                    continue


def fields(configs):
    lines = ''.join(json.dumps(config) + '\n' for config in configs)
    done = subprocess.run([FIELDS], input=lines, capture_output=True, text=True, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


class Defaults(unittest.TestCase):

    def test_every_key_that_a_config_leaves_out(self):
        tried = list(cases())
        self.assertGreater(len(tried), 300)
        ours = fields([config for _, config, _ in tried])
        theirs = fields([config for _, _, config in tried])
        wrong = []
        for (name, *_), mine, want in zip(tried, ours, theirs, strict=True):
            if 'error' in mine or 'error' in want:  # a refusal is visible to the user
                continue
            model_type = name.split()[0]
            for field, value in want['native'].items():
                got = mine['native'].get(field)
                if field == 'sliding_window_layers' and mine['native'].get('sliding_window') is None:
                    continue  # no layer has a window
                if got != value and not isinstance(value, dict) and not is_apart(field, model_type):
                    wrong.append(f'{name}: {field} is {got}, in transformers {value}')
            if mine.get('model') != want.get('model'):
                wrong.append(f'{name}: the model is {mine.get("model")}, in transformers {want.get("model")}')
        print(f'{len(tried)} configs')
        self.assertEqual(wrong, [], '\n' + '\n'.join(wrong))


if __name__ == '__main__':
    unittest.main()
