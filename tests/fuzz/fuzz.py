"""Fuzzes one of the programs of the preset `fuzz`, from seeds that the real writers make.

usage: fuzz.py build/fuzz/bin/fuzz_NAME ROLL_CONVERT [SECONDS]     (5 by default)

What fails is printed in base64: its bytes in a file are the program's argument that repeats it.
"""
import base64
import io
import json
import os
import pathlib
import pickle
import struct
import subprocess
import sys
import tempfile

import torch
from safetensors.torch import save_file

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / 'worker/convert'))


def tiny_model(path):
    """A llama of two layers as a HuggingFace directory; returns its tensors."""
    config = dict(model_type='llama', hidden_size=8, intermediate_size=8, num_hidden_layers=2,
                  num_attention_heads=2, num_key_value_heads=2, vocab_size=8, torch_dtype='float32',
                  tie_word_embeddings=True)
    tensors = {'model.embed_tokens.weight': torch.randn(8, 8), 'model.norm.weight': torch.ones(8)}
    for layer in range(2):
        for name in ('self_attn.q_proj', 'self_attn.k_proj', 'self_attn.v_proj', 'self_attn.o_proj',
                     'mlp.gate_proj', 'mlp.up_proj', 'mlp.down_proj'):
            tensors[f'model.layers.{layer}.{name}.weight'] = torch.randn(8, 8)
        for name in ('input_layernorm', 'post_attention_layernorm'):
            tensors[f'model.layers.{layer}.{name}.weight'] = torch.ones(8)
    path.mkdir()
    (path / 'config.json').write_text(json.dumps(config))
    save_file(tensors, path / 'model.safetensors', {'format': 'pt'})
    return tensors


def convert(program, source, target, *options):
    subprocess.run([program, 'convert', source, target, *options], check=True, capture_output=True)
    return target


def torch_bytes(value, **options):
    file = io.BytesIO()
    torch.save(value, file, **options)
    return file.getvalue()


def pickle_seeds(_program, _top):
    data = {'a': (1, -2, 1.5, True, None, [b'x', 'é', 2**70]), 'b': {1, 2}, 'c': {'d': {}}}
    for protocol in range(6):
        yield pickle.dumps(data, protocol)
    for _, content in members({'model': {'w': torch.randn(2, 3), 'half': torch.ones(2).bfloat16()}}):
        yield content


def members(value):
    import zipfile
    archive = zipfile.ZipFile(io.BytesIO(torch_bytes(value)))
    return [(name, archive.read(name)) for name in archive.namelist() if name.endswith('.pkl')]


def zip_seeds(program, top):
    whole = torch.randn(4, 4)
    yield torch_bytes({'model': {'rows': whole[1:3], 'columns': whole[:, 1:3], 'turned': whole.t()}})
    named, trained = torch.ones(3), torch.nn.Parameter(torch.zeros(3))
    named.note = trained.note = 'rebuilt from its type, with attributes'
    yield torch_bytes({'w': torch.nn.Parameter(torch.zeros(3)), 'empty': torch.zeros(0, 2)})
    yield torch_bytes({'named': named, 'trained': trained})
    yield torch_bytes({'w': torch.ones(2)}, _use_new_zipfile_serialization=False)
    tiny_model(top / 'hf')
    for to in ('mca', 'megatron'):
        for path in convert(program, top / 'hf', top / to, '--tp', '2', '--to', to).rglob('*.pt'):
            yield path.read_bytes()


def safetensors_seeds(_program, top):
    tensors = tiny_model(top / 'hf')
    yield (top / 'hf/model.safetensors').read_bytes()
    for dtype in (torch.float64, torch.bfloat16, torch.uint8, torch.bool):
        save_file({'a': tensors['model.norm.weight'].to(dtype), 'b': torch.zeros(0, 3, dtype=dtype)},
                  top / 'some')
        yield (top / 'some').read_bytes()


def metadata_seeds(program, top):
    import torch.distributed.checkpoint as dcp
    tensors = tiny_model(top / 'hf')
    dcp.save({**tensors, 'step': 3}, checkpoint_id=top / 'dcp', no_dist=True)
    yield (top / 'dcp/.metadata').read_bytes()
    metadata = pickle.loads((top / 'dcp/.metadata').read_bytes())
    metadata.mcore_data = {name: {'nd_reformulated_orig_global_shape': (4, 2)}  # of [2, 2, 2]
                           for name in metadata.state_dict_metadata}
    for name, one in metadata.state_dict_metadata.items():
        if name != 'step':
            one.size = torch.Size((2, 2, 2))
            one.chunks[0].sizes = torch.Size((2, 2, 2))
            one.chunks[0].offsets = torch.Size((0, 0, 0))
    metadata.storage_data = {type(at)(at.fqn, torch.Size((0, 0, 0)) if at.offset is not None else None):
                             place for at, place in metadata.storage_data.items()}
    yield pickle.dumps(metadata)
    for to in ('torch_dist', 'dcp', 'fsdp_dtensor'):
        target = convert(program, top / 'hf', top / f'made-{to}', '--to', to)
        yield next(path for path in target.rglob('.metadata')).read_bytes()


def json_seeds(program, top):
    from family_models import MODELS, make
    tiny_model(top / 'hf')
    for layout in (['--tp', '2'], ['--pp', '2', '--vpp', '1', '--make-vocab-size-divisible-by', '8']):
        target = convert(program, top / 'hf', top / 'mca', '--overwrite', *layout)
        yield (target / 'mca_config.json').read_bytes()
    for model_type, variants in MODELS.items():
        hf = make(model_type, variants[0], top / model_type)
        yield (hf / 'config.json').read_bytes()
    yield b'{"metadata": {}, "weight_map": {"a": "model-00001-of-00001.safetensors"}}'


def words_seeds(_program, _top):
    for line in ('convert a b --tp 2 --pp 3 --vpp 2 --layout E,t*4|t*4|t*4|t*4|t*4|t*4,L --bf16 --json',
                 '--checkpoint_path a --output_path b --tensor_model_parallel_size 2 --fp16 False',
                 '--model_path a --output_folder b --total_tp 2 --name word',
                 'convert a b --account_for_embedding_in_pipeline_split --decoder_first_pipeline_num_layers=3 '
                 '--pp 4 --max-shard-size 5GB --strictness log_all --state exp_avg --reuse c --dtype fp8',
                 'merge a b c --unmerge --threads 2 --verify --overwrite', 'verify a --strictness ignore_all',
                 'rename a b model.*.weight=*.w model.layers.*.mlp.*=l*m* --overwrite',
                 'remove a b *.mlp.* lm_head.weight', 'diff a b --cast --config c', 'families check a'):
        yield line.replace(' ', '\n').encode()


def token_index_seeds(_program, _top):
    for code, size in ((1, 1), (4, 4), (8, 2)):
        lengths, starts = (3, 0, 2), (0, 1, 1, 3)
        offsets = (0, 3 * size, 3 * size)
        header = struct.pack('<9sQBQQ', b'MMIDIDX\0\0', 1, code, len(lengths), len(starts))
        yield bytes([5 * size]) + header + struct.pack('<3i3q4q', *lengths, *offsets, *starts)


SEEDS = {'pickle': pickle_seeds, 'zip': zip_seeds, 'safetensors': safetensors_seeds,
         'metadata': metadata_seeds, 'json': json_seeds, 'words': words_seeds,
         'token_index': token_index_seeds}


def main():
    fuzzer, program = pathlib.Path(sys.argv[1]), sys.argv[2]
    seconds = sys.argv[3] if len(sys.argv) > 3 else '5'
    if not fuzzer.exists():
        sys.exit(f'{fuzzer} is not built; run cmake --preset fuzz && cmake --build --preset fuzz, or tests/run')
    with tempfile.TemporaryDirectory(prefix='roll-fuzz-') as folder:
        top = pathlib.Path(folder)
        (top / 'seeds').mkdir()
        (top / 'found').mkdir()
        torch.manual_seed(1)
        seeds = list(SEEDS[fuzzer.name.removeprefix('fuzz_')](program, top))
        for number, seed in enumerate(seeds):
            (top / f'seeds/{number:03}').write_bytes(seed)
        timeout = max(60, int(seconds))  # by the wall: a long run's may be stopped for others' measurements
        done = subprocess.run(
            [fuzzer, f'-max_total_time={seconds}', '-rss_limit_mb=4096', f'-timeout={timeout}',
             '-print_final_stats=1', f'-artifact_prefix={top}/crash-', top / 'found', top / 'seeds'],
            env={**os.environ, 'UBSAN_OPTIONS': 'halt_on_error=1'},
            capture_output=True, text=True, errors='replace', check=False)
        print(f'{len(seeds)} seeds', *[line for line in done.stderr.split('\n') if ' cov: ' in line][-1:],
              *done.stderr.split('\n')[-12:], sep='\n')
        if done.returncode != 0:
            print(done.stderr[-8000:])
            for path in top.glob('crash-*'):
                print(path.name, base64.b64encode(path.read_bytes()).decode())
            sys.exit(1)


main()
