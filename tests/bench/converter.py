#!/usr/bin/env python3
"""Figures of the converter: the plan of a 671 B model over sparse files, and conversions beside cp.

usage: converter.py ROLL_CONVERT [GIGABYTES]    (writes below TMPDIR; about 4 x GIGABYTES, 1 by default)
"""
import json
import os
import resource
import struct
import subprocess
import sys
import tempfile
import time

DEEP = dict(model_type='deepseek_v3', num_hidden_layers=61, hidden_size=7168,
            intermediate_size=18432, moe_intermediate_size=2048, num_attention_heads=128,
            num_key_value_heads=128, n_routed_experts=256, n_shared_experts=1,
            num_experts_per_tok=8, first_k_dense_replace=3, kv_lora_rank=512, q_lora_rank=1536,
            qk_nope_head_dim=128, qk_rope_head_dim=64, v_head_dim=128, vocab_size=129280,
            n_group=8, topk_group=4, routed_scaling_factor=2.5, scoring_func='sigmoid',
            rms_norm_eps=1e-6, tie_word_embeddings=False, torch_dtype='bfloat16')


def feed_forward(prefix, width, inner):
    return [(prefix + 'gate_proj', [inner, width]), (prefix + 'up_proj', [inner, width]),
            (prefix + 'down_proj', [width, inner])]


def deep_tensors():
    width, rows = DEEP['hidden_size'], DEEP['vocab_size']
    yield from (('model.embed_tokens', [rows, width]), ('model.norm', [width]), ('lm_head', [rows, width]))
    for layer in range(DEEP['num_hidden_layers']):
        prefix = f'model.layers.{layer}.'
        attention = prefix + 'self_attn.'
        yield from ((prefix + 'input_layernorm', [width]), (prefix + 'post_attention_layernorm', [width]),
                    (attention + 'q_a_proj', [1536, width]), (attention + 'q_a_layernorm', [1536]),
                    (attention + 'q_b_proj', [128 * 192, 1536]),
                    (attention + 'kv_a_proj_with_mqa', [576, width]), (attention + 'kv_a_layernorm', [512]),
                    (attention + 'kv_b_proj', [128 * 256, 512]), (attention + 'o_proj', [width, 128 * 128]))
        if layer < DEEP['first_k_dense_replace']:
            yield from feed_forward(prefix + 'mlp.', width, DEEP['intermediate_size'])
            continue
        yield prefix + 'mlp.gate', [256, width]
        yield from feed_forward(prefix + 'mlp.shared_experts.', width, 2048)
        for expert in range(256):
            yield from feed_forward(f'{prefix}mlp.experts.{expert}.', width, 2048)


def write_model(path, config, tensors, fill=None):
    """bf16 shards of at most 4 GB: sparse, or with the same noise again and again."""
    os.makedirs(path)
    with open(os.path.join(path, 'config.json'), 'w', encoding='ascii') as file:
        json.dump(config, file)
    shards, weight_map = [{}], {}
    for name, shape in tensors:
        size = 2
        for dim in shape:
            size *= dim
        at = list(shards[-1].values())[-1]['data_offsets'][1] if shards[-1] else 0
        if at + size > 4_000_000_000:
            shards.append({})
            at = 0
        full = name + '.weight' if not name.endswith('_bias') else name
        shards[-1][full] = {'dtype': 'BF16', 'shape': shape, 'data_offsets': [at, at + size]}
    for number, shard in enumerate(shards, 1):
        file_name = f'model-{number:05}-of-{len(shards):05}.safetensors'
        weight_map.update(dict.fromkeys(shard, file_name))
        text = json.dumps(shard).encode()
        end = list(shard.values())[-1]['data_offsets'][1]
        with open(os.path.join(path, file_name), 'wb') as file:
            file.write(struct.pack('<Q', len(text)) + text)
            for _ in range(end // len(fill) if fill else 0):
                file.write(fill)
            file.truncate(8 + len(text) + end)
    with open(os.path.join(path, 'model.safetensors.index.json'), 'w', encoding='ascii') as file:
        json.dump({'metadata': {}, 'weight_map': weight_map}, file)


def run(*args):
    """Wall and processor seconds of a command."""
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    subprocess.run([str(arg) for arg in args], check=True, stdout=subprocess.DEVNULL,
                   stderr=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.monotonic() - began, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main():
    program, top = sys.argv[1], tempfile.mkdtemp(prefix='roll-bench-')
    try:
        bias = [(f'model.layers.{layer}.mlp.gate.e_score_correction_bias', [256]) for layer in range(3, 61)]
        write_model(f'{top}/deep', DEEP, [*deep_tensors(), *bias])
        for layout in ([], ['--tp', 8, '--ep', 32]):
            wall, cpu = run(program, 'convert', f'{top}/deep', f'{top}/out', '--dry-run', *layout)
            memory = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
            print(f'671 B, {layout or "tp 1"}: plan in {wall:.1f} s ({cpu:.1f} s of processors), '
                  f'peak {memory:.0f} MiB')
        layers = int(float(sys.argv[2] if len(sys.argv) > 2 else 1) * 10)
        sizes = dict(model_type='llama', hidden_size=2048, intermediate_size=5632, num_hidden_layers=layers,
                     num_attention_heads=16, num_key_value_heads=16, vocab_size=4096, torch_dtype='bfloat16',
                     tie_word_embeddings=True)
        tensors = [('model.embed_tokens', [4096, 2048]), ('model.norm', [2048])]
        for layer in range(layers):
            prefix = f'model.layers.{layer}.'
            tensors += [(f'{prefix}self_attn.{name}_proj', [2048, 2048]) for name in 'qkvo']
            tensors += feed_forward(prefix + 'mlp.', 2048, 5632)
            tensors += [(prefix + 'input_layernorm', [2048]), (prefix + 'post_attention_layernorm', [2048])]
        write_model(f'{top}/hf', sizes, tensors, os.urandom(1 << 20))
        run('cp', '-r', f'{top}/hf', f'{top}/warm')
        for name, layout in (('tp 1', []), ('tp 4 pp 2', ['--tp', 4, '--pp', 2])):
            copied = run('sh', '-c', f'cp -r --reflink=never {top}/hf {top}/copy && sync -f {top}/copy')
            made = run(program, 'convert', f'{top}/hf', f'{top}/mca', '--overwrite', *layout)
            back = run(program, 'convert', f'{top}/mca', f'{top}/back', '--overwrite')
            print(f'{name}: cp {copied[0]:.2f} s; HF -> MCA {made[0]:.2f} s, {copied[0] / made[0]:.2f} x cp; '
                  f'MCA -> HF {back[0]:.2f} s, {copied[0] / back[0]:.2f} x')
            run('rm', '-rf', f'{top}/copy')
    finally:
        subprocess.run(['rm', '-rf', top], check=True)


main()
