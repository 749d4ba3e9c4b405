"""Tiny HuggingFace models with a tokenizer trained here, and what transformers makes of text with them.

    hf_text.py COMMAND WORD... [-- COMMAND WORD...]...      prints a list, what each command returns

make DIR CORPUS bos=0|1 [vocab=N]     a random llama and a byte-level tokenizer with <|start|> and <|end|>
ids DIR FILE                          [[id ...] ...]: the texts of a .jsonl, or of a .txt, as the tokenizer has them
loss DIR DTYPE IDS LENGTH             [nats an id, bytes]: windows of LENGTH inputs, each id but the first once
apart DIR DTYPE LISTS                 nats: lists of ids, each a text of its own and each id but its first predicted
generate DIR DTYPE TOKENS PROMPT...   {"ids": [[...] ...], "texts": [...]}: greedy, what follows each prompt
"""
import json
import os
import sys
from pathlib import Path

os.environ.update(HF_HUB_OFFLINE="1", TRANSFORMERS_VERBOSITY="error")
import torch
import transformers
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers


def trained_tokenizer(corpus, bos):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=400, special_tokens=["<|start|>", "<|end|>"], show_progress=False,
                                  initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    tokenizer.train([corpus], trainer)
    if bos:
        tokenizer.post_processor = processors.TemplateProcessing(single="<|start|> $A",
                                                                 special_tokens=[("<|start|>", 0)])
    return transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token="<|start|>", eos_token="<|end|>")


def make(directory, corpus, *options):
    asked = dict(option.split("=") for option in options)
    tokenizer = trained_tokenizer(corpus, asked["bos"] == "1")
    tokenizer.save_pretrained(directory)
    config = transformers.LlamaConfig(
        hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
        vocab_size=int(asked.get("vocab", len(tokenizer))), max_position_embeddings=128, tie_word_embeddings=True,
        initializer_range=0.2, bos_token_id=tokenizer.bos_token_id, eos_token_id=tokenizer.eos_token_id)
    torch.manual_seed(3)
    transformers.AutoModelForCausalLM.from_config(config).save_pretrained(directory)


def texts_of(file):
    text = Path(file).read_text(encoding="utf-8")
    if not file.endswith(".jsonl"):
        return [text]
    return [json.loads(line)["text"] for line in text.splitlines()]


def ids(directory, file):
    tokenizer = transformers.AutoTokenizer.from_pretrained(directory)
    return [tokenizer(text)["input_ids"] for text in texts_of(file)]


def load(directory, dtype):
    return transformers.AutoModelForCausalLM.from_pretrained(directory, dtype=getattr(torch, dtype)).eval()


def loss(directory, dtype, text, length):
    model, tokens, length = load(directory, dtype), json.loads(text), int(length)
    tokenizer = transformers.AutoTokenizer.from_pretrained(directory)
    total, size = 0.0, 0
    with torch.no_grad():
        for first in range(0, len(tokens) - 1, length):
            window = torch.tensor(tokens[first:first + length + 1])
            logp = model(window[None, :-1], use_cache=False).logits[0].double().log_softmax(-1)
            total -= float(logp.gather(1, window[1:, None]).sum())
            size += len(tokenizer.decode(window[1:], skip_special_tokens=True).encode())
    return [total / (len(tokens) - 1), size]


def apart(directory, dtype, text):
    model, total = load(directory, dtype), 0.0
    with torch.no_grad():
        for ids in json.loads(text):
            one = torch.tensor(ids)
            logp = model(one[None, :-1], use_cache=False).logits[0].double().log_softmax(-1)
            total -= float(logp.gather(1, one[1:, None]).sum())
    return total


def generate(directory, dtype, count, *prompts):
    model, tokenizer = load(directory, dtype), transformers.AutoTokenizer.from_pretrained(directory)
    found = {"ids": [], "texts": []}
    for prompt in prompts:
        start = tokenizer(prompt, return_tensors="pt")
        out = model.generate(**start, max_new_tokens=int(count), do_sample=False, pad_token_id=0)[0].tolist()
        added = out[start["input_ids"].shape[1]:]
        if added and added[-1] == tokenizer.eos_token_id:
            added.pop()
        found["ids"].append(added)
        whole = tokenizer.decode(start["input_ids"][0].tolist() + added, skip_special_tokens=True)
        found["texts"].append(whole)
    return found


def main(words):
    results = []
    while words:
        end = words.index("--") if "--" in words else len(words)
        command, *rest = words[:end]
        known = {"make": make, "ids": ids, "loss": loss, "apart": apart, "generate": generate}
        results.append(known[command](*rest))
        words = words[end + 1:]
    print(json.dumps(results))


main(sys.argv[1:])
