"""beside.py MODEL_JSON BATCH POSITIONS STEPS cuda|cpu: transformers' training step at the sizes of a shape.

Weights, gradients and moments are float32 and autocast computes in bfloat16, as Roll's bf16 does. On a GPU the model
is compiled by torch.compile. Prints one JSON line; exits with 3 if transformers is not installed.
"""
import json
import os
import statistics
import sys
import time

os.environ.update(HF_HUB_OFFLINE='1')
import torch

try:
    import transformers
except ImportError:
    sys.exit(3)


def make_model(sizes, positions, device):
    kinds = {'llama': (transformers.LlamaConfig, 'LlamaForCausalLM'),
             'qwen2': (transformers.Qwen2Config, 'Qwen2ForCausalLM')}
    config, _ = kinds[sizes['family']]
    named = {name: value for name, value in sizes.items() if name != 'family'}
    named['max_position_embeddings'] = max(positions, named.get('max_position_embeddings', 0))
    with torch.device(device):
        return transformers.AutoModelForCausalLM.from_config(config(**named, use_cache=False),
                                                             attn_implementation='sdpa', dtype=torch.float32).train()


def measure(sizes, batch, positions, steps, device):
    """Returns the median seconds of a step, and the last loss."""
    torch.manual_seed(0)
    model = make_model(sizes, positions, device)
    compiled = torch.compile(model) if device == 'cuda' else model
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, betas=(0.9, 0.95), weight_decay=0.1, fused=True)
    ids = torch.randint(0, sizes['vocab_size'], (batch, positions + 1), device=device)
    inputs, targets = ids[:, :-1].contiguous(), ids[:, 1:].contiguous()

    def step():
        with torch.autocast(device, torch.bfloat16):
            logits = compiled(inputs, use_cache=False).logits
            loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1).float(), targets.flatten())
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return loss.item()

    seconds = []
    for _ in range(3 + steps):
        start = time.perf_counter()
        loss = step()
        seconds.append(time.perf_counter() - start)
    return statistics.median(seconds[3:]), loss


def main():
    sizes, batch, positions, steps, device = json.loads(sys.argv[1]), *map(int, sys.argv[2:5]), sys.argv[5]
    took = None
    while took is None:
        try:
            took, loss = measure(sizes, batch, positions, steps, device)
        except torch.OutOfMemoryError:  # whole logits: half the batch may fit
            if batch == 1:
                raise
            batch //= 2
        if took is None:
            torch._dynamo.reset()
            torch.cuda.empty_cache()
    peak = torch.cuda.max_memory_allocated() if device == 'cuda' else 0
    print(json.dumps({'version': transformers.__version__, 'compiled': device == 'cuda', 'batch': batch,
                      'seconds': took, 'tokens_per_second': batch * positions / took, 'memory_peak_bytes': peak,
                      'loss': loss}))


main()
