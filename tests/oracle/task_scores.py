#!/usr/bin/env python3
"""Log-probabilities of the choices of a task, computed with transformers and jinja2 as lm-evaluation-harness does.

usage: task_scores.py MODEL TASK.yaml     prints {"log_probs": [[..] ..], "acc": .., "acc_norm": ..}
"""
import ast
import json
import os
import sys

import jinja2
import torch
import yaml
from transformers import AutoModelForCausalLM, AutoTokenizer

ENVIRONMENT = jinja2.Environment(undefined=jinja2.StrictUndefined, keep_trailing_newline=True)


def part(source, record):
    """Returns a field of the record, or the template's text; a number or a list if the text is one."""
    if not isinstance(source, str):
        return source
    if source in record:
        return record[source]
    text = ENVIRONMENT.from_string(source).render(**record)
    return ast.literal_eval(text) if text.isdigit() or text.startswith('[') else text


def log_prob(model, tokenizer, context, choice):
    stripped = context.rstrip()
    context, choice = stripped, context[len(stripped):] + choice
    whole, read = tokenizer(context + choice)['input_ids'], len(tokenizer(context)['input_ids'])
    if not context:
        prefix = tokenizer.bos_token_id if tokenizer.bos_token_id is not None else tokenizer.eos_token_id
        whole, read = [prefix] + tokenizer(choice, add_special_tokens=False)['input_ids'], 1
    with torch.no_grad():
        logits = model(torch.tensor([whole[:-1]])).logits[0].double()
    found = torch.log_softmax(logits, -1)[range(len(whole) - 1), whole[1:]]
    return found[read - 1:].sum().item()


def main():
    directory, path = sys.argv[1:]
    model = AutoModelForCausalLM.from_pretrained(directory, dtype=torch.float32)
    tokenizer = AutoTokenizer.from_pretrained(directory)
    with open(path, encoding='utf-8') as file:
        task = yaml.safe_load(file)
    data = os.path.join(os.path.dirname(path), task['dataset_kwargs']['data_files']['test'])
    with open(data, encoding='utf-8') as file:
        records = [json.loads(line) for line in file]
    lists, right, norm = [], 0, 0
    for record in records:
        context = part(task.get('description', ''), record) + part(task['doc_to_text'], record)
        choices, target = part(task['doc_to_choice'], record), part(task['doc_to_target'], record)
        found = [log_prob(model, tokenizer, context, task.get('target_delimiter', ' ') + choice) for choice in choices]
        target = choices.index(target) if isinstance(target, str) else target
        right += found.index(max(found)) == target
        per_character = [value / len(choice) for value, choice in zip(found, choices)]
        norm += per_character.index(max(per_character)) == target
        lists.append(found)
    print(json.dumps({'log_probs': lists, 'acc': right / len(records), 'acc_norm': norm / len(records)}))


if __name__ == '__main__':
    main()
