#!/usr/bin/env python3
"""Measures the converter: the plan of a 671 B model over sparse files, conversions compared with cp, memory, bytes
read, the start of the program, and ROLL's converter for comparison.

usage: converter.py ROLL_CONVERT [GIGABYTES] [REPEATS]    (1 and 5; writes below TMPDIR, 5 x GIGABYTES)
       converter.py ROLL_CONVERT roll [REPEATS]           (ROLL alone; 3)
       converter.py ROLL_CONVERT busy [GIGABYTES] [REPEATS]    (conversions beside cp alone, while
                                                               stress-ng uses half of two cores)

ROLL_ADAPTER is the folder mcore_adapter of a checkout of ROLL, whose tools/convert.py is then run whole;
without it only what that imports is timed.

Each round does everything once, in turn, and each figure is a median of rounds. Before each run its
target is gone, its source is in the page cache, and the disk is at rest; both end with fsync. A virtual
machine may have returned free memory to its host, so 2.5 GB are written before each run.
"""
import json
import os
import pathlib
import statistics
import struct
import subprocess
import sys
import tempfile
import time

PYTHON = pathlib.Path(__file__).resolve().parents[2] / '.deps/oracle/bin/python'

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
    """Writes bf16 shards of at most 4 GB. They are sparse, or repeat the same noise."""
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
    """Runs a command. Returns its wall seconds and the resources that it used."""
    began = time.monotonic()
    with tempfile.TemporaryFile() as said:
        process = subprocess.Popen([str(arg) for arg in args], stdout=subprocess.DEVNULL, stderr=said)
        _, status, usage = os.wait4(process.pid, 0)
        wall = time.monotonic() - began
        process.returncode = os.waitstatus_to_exitcode(status)
        said.seek(0)
        if process.returncode != 0:
            sys.exit(f'{args}: {said.read().decode()}')
    return wall, usage


def files_of(path):
    return [one for one in pathlib.Path(path).rglob('*') if one.is_file()]


def warm(path):
    for file in files_of(path):
        with open(file, 'rb') as content:
            while content.read(1 << 24):
                pass


def touch_memory():
    run(sys.executable, '-c', "b'x' * 2_500_000_000")


def drop(path):
    """Drops the files at `path` from the page cache."""
    os.sync()
    for file in files_of(path):
        with open(file, 'rb') as content:
            os.posix_fadvise(content.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def llama(layers, width=2048, inner=5632):
    """Returns the tensors of a tied bf16 model with about 0.1 GB per layer."""
    sizes = dict(model_type='llama', hidden_size=width, intermediate_size=inner, num_hidden_layers=layers,
                 num_attention_heads=16, num_key_value_heads=16, vocab_size=4096, torch_dtype='bfloat16',
                 tie_word_embeddings=True)
    tensors = [('model.embed_tokens', [4096, width]), ('model.norm', [width])]
    for layer in range(layers):
        prefix = f'model.layers.{layer}.'
        tensors += [(f'{prefix}self_attn.{name}_proj', [width, width]) for name in 'qkvo']
        tensors += feed_forward(prefix + 'mlp.', width, inner)
        tensors += [(prefix + 'input_layernorm', [width]), (prefix + 'post_attention_layernorm', [width])]
    return sizes, tensors


def memory_allowed(sizes):
    """Returns the memory allowed in MiB: the largest tensor group (gate and up, or the embedding) and 256 more."""
    rows = max(2 * sizes['intermediate_size'], 3 * sizes['hidden_size'], sizes['vocab_size'])
    return 2 * rows * sizes['hidden_size'] / 1024 ** 2 + 256


def write_adapter(path, tensors, rank=16):
    """Writes a LoRA adapter for every matrix of the layers."""
    parts = []
    for name, shape in tensors:
        if '_proj' in name:
            stem = f'base_model.model.{name}.lora_'
            parts += [(stem + 'A', [rank, shape[1]]), (stem + 'B', [shape[0], rank])]
    write_model(path, {}, parts, noise_without_nan())
    for name in ('config.json', 'model.safetensors.index.json'):
        os.remove(f'{path}/{name}')
    os.rename(next(iter(pathlib.Path(path).glob('*.safetensors'))), f'{path}/adapter_model.safetensors')
    targets = sorted({name.rsplit('.', 1)[1] for name, _ in tensors if '_proj' in name})
    with open(f'{path}/adapter_config.json', 'w', encoding='ascii') as file:
        json.dump(dict(peft_type='LORA', r=rank, lora_alpha=rank, target_modules=targets), file)


def plans(program, top):
    bias = [(f'model.layers.{layer}.mlp.gate.e_score_correction_bias', [256]) for layer in range(3, 61)]
    write_model(f'{top}/deep', DEEP, [*deep_tensors(), *bias])
    for layout in ([], ['--tp', 8, '--ep', 32]):
        wall, usage = run(program, 'convert', f'{top}/deep', f'{top}/out', '--dry-run', *layout)
        print(f'671 B, {layout or "tp 1"}: plan in {wall:.1f} s ({usage.ru_utime + usage.ru_stime:.1f} s of '
              f'processors), peak {usage.ru_maxrss / 1024:.0f} MiB')


def conversions(top):
    """Returns the name, source, target and command of each conversion. A source may be the target of an earlier
    one."""
    def one(name, source, target, *options):
        return name, source, target, ['convert', f'{top}/{source}', f'{top}/{target}', *options]
    yield one('HF -> MCA, tp 1', 'hf', 'mca')
    yield one('MCA -> HF, tp 1', 'mca', 'back')
    yield one('HF -> MCA, tp 4 pp 2', 'hf', 'mca8', '--tp', 4, '--pp', 2)
    yield one('MCA -> HF, tp 4 pp 2', 'mca8', 'back')
    yield one('HF -> torch_dist', 'hf', 'dist', '--to', 'torch_dist')
    yield one('torch_dist -> HF', 'dist', 'back')
    yield ('merge, LoRA of rank 16', 'hf', 'merged', ['merge', f'{top}/hf', f'{top}/adapter', f'{top}/merged'])


def beside_cp(program, top, repeats):
    times, peaks = {}, {}
    copy = ['sh', '-c', f'cp -r --reflink=never {top}/hf {top}/copy && sync {top}/copy/*']
    for _ in range(repeats):
        for name, source, target, command in [('cp', 'hf', 'copy', None), *conversions(top)]:
            run('rm', '-rf', f'{top}/{target}')
            warm(f'{top}/{source}')
            os.sync()
            touch_memory()
            wall, usage = run(*(copy if command is None else [program, *command]))
            times.setdefault(name, []).append(wall)
            peaks[name] = max(peaks.get(name, 0), usage.ru_maxrss / 1024)
    for name, walls in times.items():
        ratio = statistics.median(a / b for a, b in zip(times['cp'], walls))
        print(f'{name}: {statistics.median(walls):.2f} s ({min(walls):.2f} to {max(walls):.2f}), {ratio:.2f} x cp, '
              f'peak {peaks[name]:.0f} MiB')


def bytes_read(program, top):
    size = sum(file.stat().st_size for file in files_of(f'{top}/hf'))
    run('rm', '-rf', f'{top}/mca')
    drop(f'{top}/hf')
    _, usage = run(program, 'convert', f'{top}/hf', f'{top}/mca', '--tp', 4)
    print(f'read from a dropped cache: {usage.ru_inblock * 512 / size:.4f} x the bytes of the source')


# ROLL's tool seeds the GPU's generator, which requires a GPU; nothing else in it does.
ROLL_ON_A_CPU = """
import runpy, sys
from megatron.core import tensor_parallel
from megatron.core.tensor_parallel import random
random.model_parallel_cuda_manual_seed = tensor_parallel.model_parallel_cuda_manual_seed = lambda *_, **__: None
sys.path.insert(0, sys.argv[1] + '/src')
sys.argv = sys.argv[1:]
sys.argv[0] += '/tools/convert.py'
runpy.run_path(sys.argv[0], run_name='__main__')
"""
TOKENIZER = """
import sys, tokenizers, transformers
model = tokenizers.models.BPE(vocab={'a': 0}, merges=[])
transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizers.Tokenizer(model)).save_pretrained(sys.argv[1])
"""


def noise_without_nan():
    """Returns a megabyte of bf16 below 2. The values are finite, because ROLL compares replicas by their difference
    and a merge must be finite."""
    noise = bytearray(os.urandom(1 << 20))
    noise[1::2] = noise[1::2].translate(bytes(byte & 0xBF for byte in range(256)))
    return bytes(noise)


def beside_roll(program, top, repeats):
    """Compares whole processes with 300 M parameters: Roll's converter, and ROLL's or what ROLL's imports."""
    sizes, tensors = llama(6)
    more = dict(rms_norm_eps=1e-5, hidden_act='silu', architectures=['LlamaForCausalLM'], head_dim=128)
    write_model(f'{top}/small', {**sizes, **more}, tensors, noise_without_nan())
    adapter, times = os.environ.get('ROLL_ADAPTER'), {}
    if adapter:
        run(PYTHON, '-c', TOKENIZER, f'{top}/small')
    roll = [PYTHON, '-W', 'ignore', '-c', ROLL_ON_A_CPU, adapter]
    layout = ['--tensor_model_parallel_size', 2, '--pipeline_model_parallel_size', 2]
    for _ in range(repeats):
        for name, source, target, options in (('HF -> MCA', 'small', 'ours', layout),
                                              ('MCA -> HF', 'ours', 'home', [])):
            places = ['--checkpoint_path', f'{top}/{source}', '--output_path']
            run('rm', '-rf', f'{top}/{target}', f'{top}/theirs')
            warm(f'{top}/{source}')
            os.sync()
            times.setdefault(name, []).append(run(program, *places, f'{top}/{target}', *options)[0])
            if adapter:
                wall = run(*roll, *places, f'{top}/theirs', *options)[0]
                times.setdefault(name + ", ROLL's tools/convert.py", []).append(wall)
                # fails unless both are equal, tensor by tensor
                run(program, 'diff', f'{top}/{target}', f'{top}/theirs')
    if not adapter and PYTHON.exists():
        imports = 'import torch, transformers, megatron.core.models.gpt'
        times["what ROLL imports first"] = [run(PYTHON, '-c', imports)[0]]
    for name, walls in times.items():
        ours = times[name.split(',')[0] if name.startswith(('HF', 'MCA')) else 'HF -> MCA']
        print(f'300 M, tp 2 pp 2, {name}: {statistics.median(walls):.2f} s, '
              f'{statistics.median(walls) / statistics.median(ours):.1f} x ours')


def while_busy(program, top, gigabytes, repeats):
    sizes, tensors = llama(2 * round(gigabytes * 5))
    write_model(f'{top}/hf', sizes, tensors, noise_without_nan())
    write_adapter(f'{top}/adapter', tensors)
    with subprocess.Popen(['stress-ng', '--quiet', '--cpu', '2', '--cpu-load', '50']) as load:
        try:
            beside_cp(program, top, repeats)
        finally:
            load.terminate()


def main():
    if sys.argv[1:2] in ([], ['-h'], ['--help']):
        sys.exit(__doc__)
    program, options = sys.argv[1], sys.argv[2:]
    only = options.pop(0) if options[:1] in (['roll'], ['busy']) else ''
    top = tempfile.mkdtemp(prefix='roll-bench-')
    try:
        if only == 'roll':
            return beside_roll(program, top, int(options[0]) if options else 3)
        gigabytes = float(options[0]) if options else 1
        repeats = int(options[1]) if len(options) > 1 else 5
        if only == 'busy':
            return while_busy(program, top, gigabytes, repeats)
        starts = [run(program, '--version')[0] for _ in range(20)]
        print(f'start: {1000 * statistics.median(starts):.1f} ms')
        beside_roll(program, top, 1)
        sizes, tensors = llama(2 * round(gigabytes * 5))
        write_model(f'{top}/hf', sizes, tensors, noise_without_nan())
        write_adapter(f'{top}/adapter', tensors)
        beside_cp(program, top, repeats)
        print(f'memory: {memory_allowed(sizes):.0f} MiB are allowed, the largest tensor group and 256 MiB')
        bytes_read(program, top)
        run('rm', '-rf', f'{top}/hf', f'{top}/mca', f'{top}/mca8', f'{top}/dist', f'{top}/back', f'{top}/merged')
        write_model(f'{top}/hf', *llama(6 * round(gigabytes * 5)), noise_without_nan())
        _, usage = run(program, 'convert', f'{top}/hf', f'{top}/mca', '--tp', 4, '--pp', 2)
        print(f'three times the model: peak {usage.ru_maxrss / 1024:.0f} MiB')
        plans(program, top)
    finally:
        subprocess.run(['rm', '-rf', top], check=True)


main()
