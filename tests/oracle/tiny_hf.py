"""Tiny HuggingFace models made by hand: no torch, no transformers."""
import json
import os
import struct

SIZES = {'model_type': 'llama', 'hidden_size': 64, 'num_hidden_layers': 4, 'vocab_size': 512,
         'num_attention_heads': 8, 'num_key_value_heads': 4, 'intermediate_size': 128,
         'torch_dtype': 'float32'}


def shapes(sizes):
    width, inner, vocab = (sizes[key] for key in ('hidden_size', 'intermediate_size', 'vocab_size'))
    kv = width * sizes['num_key_value_heads'] // sizes['num_attention_heads']
    yield from (('model.embed_tokens', [vocab, width]), ('model.norm', [width]), ('lm_head', [vocab, width]))
    for layer in range(sizes['num_hidden_layers']):
        for name, shape in (('self_attn.q_proj', [width, width]), ('self_attn.k_proj', [kv, width]),
                            ('self_attn.v_proj', [kv, width]), ('self_attn.o_proj', [width, width]),
                            ('mlp.gate_proj', [inner, width]), ('mlp.up_proj', [inner, width]),
                            ('mlp.down_proj', [width, inner]), ('input_layernorm', [width]),
                            ('post_attention_layernorm', [width])):
            yield f'model.layers.{layer}.{name}', shape


def write_safetensors(path, tensors):
    """{name: (shape, float32 bytes)}."""
    header, at = {}, 0
    for name, (shape, content) in tensors.items():
        header[name] = {'dtype': 'F32', 'shape': shape, 'data_offsets': [at, at + len(content)]}
        at += len(content)
    text = json.dumps(header).encode()
    with open(path, 'wb') as file:
        file.write(struct.pack('<Q', len(text)) + text)
        for _, content in tensors.values():
            file.write(content)


def product(shape):
    result = 1
    for size in shape:
        result *= size
    return result


def write_llama(path, **changes):
    """A directory with config.json and model.safetensors in fp32, values in [1, 2)."""
    sizes = {**SIZES, **changes}
    os.makedirs(path)
    with open(os.path.join(path, 'config.json'), 'w', encoding='ascii') as file:
        json.dump(sizes, file)
    noise = os.urandom(1 << 16)
    tensors = {}
    for at, (tensor, shape) in enumerate(shapes(sizes)):
        size = 4 * product(shape)
        some = b''.join(struct.pack('<f', 1 + b / 256) for b in noise[at:at + 4096])
        tensors[tensor + '.weight'] = (shape, (some * (size // len(some) + 1))[:size])
    write_safetensors(os.path.join(path, 'model.safetensors'), tensors)
