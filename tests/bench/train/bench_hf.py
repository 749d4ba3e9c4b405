"""bench_hf.py SHAPE|DIR THREADS fp32|bf16|mixed ATTENTION: transformers' training step, one for each line on stdin.

Answers and shapes as train_bench.cpp. ATTENTION is sdpa or eager. bf16: weights, gradients and moments are bfloat16;
mixed: they are float32, and torch.autocast computes in bfloat16, as Roll's bf16 does.
"""
import json
import os
import resource
import sys
import time

os.environ.update(HF_HUB_OFFLINE="1", TRANSFORMERS_VERBOSITY="error")
import torch
import transformers

SHAPES = {  # hidden, layers, heads, kv_heads, intermediate, vocab, tied, batch, positions
    "5m": (256, 6, 4, 4, 688, 256, False, 8, 256),
    "8m": (256, 8, 4, 4, 688, 4096, False, 8, 256),
    "135m": (576, 30, 9, 3, 1536, 49152, True, 4, 256),
}


def make_model(name, attention, dtype):
    """Returns the model of a shape or a directory, with the batch and the positions to train it on."""
    if name not in SHAPES:
        model = transformers.AutoModelForCausalLM.from_pretrained(
            name, attn_implementation=attention, dtype=dtype)
        return model.train(), 4, 256
    hidden, layers, heads, kv_heads, intermediate, vocab, tied, batch, positions = SHAPES[name]
    config = transformers.LlamaConfig(
        hidden_size=hidden, num_hidden_layers=layers, num_attention_heads=heads, num_key_value_heads=kv_heads,
        intermediate_size=intermediate, vocab_size=vocab, tie_word_embeddings=tied, use_cache=False)
    model = transformers.AutoModelForCausalLM.from_config(config, attn_implementation=attention, dtype=dtype)
    return model.train(), batch, positions


def main():
    torch.set_num_threads(int(sys.argv[2]))
    torch.manual_seed(0)
    start = time.perf_counter()
    model, batch, positions = make_model(
        sys.argv[1], sys.argv[4], torch.bfloat16 if sys.argv[3] == "bf16" else torch.float32)
    print(f"{time.perf_counter() - start:.3f}", flush=True)
    vocab = model.config.vocab_size
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, betas=(0.9, 0.95), weight_decay=0.1, fused=True)
    ids = torch.randint(0, vocab, (batch, positions + 1))
    inputs, targets = ids[:, :-1].contiguous(), ids[:, 1:].contiguous()

    def step():
        with torch.autocast("cpu", torch.bfloat16, enabled=sys.argv[3] == "mixed"):
            logits = model(inputs, use_cache=False).logits
            loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return loss.item()

    loss = 0.0
    for _ in sys.stdin:
        start = time.perf_counter()
        loss = step()
        print(f"{time.perf_counter() - start:.6f}", flush=True)
    rss_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    print(json.dumps(dict(loss=round(loss, 4), rss_mib=rss_mib)))


main()
