#!/usr/bin/env python3
"""Log-probabilities of the choices of a task, computed with transformers and jinja2 as lm-evaluation-harness does.

usage: task_scores.py MODEL TASK.yaml...     prints [{"log_probs": [[..] ..], "acc": .., "acc_norm": ..} ..]
"""
import ast
import json
import os
import random
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


def read(task, path, split):
    data = os.path.join(os.path.dirname(path), task['dataset_kwargs']['data_files'][split])
    with open(data, encoding='utf-8') as file:
        return [json.loads(line) for line in file]


def draw(task, pool, record, generator):
    """Returns the examples of a question, as lm_eval.api.samplers draws them (release 0.4.12)."""
    count, config = task.get('num_fewshot', 0), task.get('fewshot_config', {})
    own = config.get('split', task.get('fewshot_split')) == task.get('test_split')
    if config.get('sampler') == 'first_n':
        return [one for one in pool if one != record][:count]
    found = generator.sample(pool, count + 1) if own else generator.sample(pool, count)
    found = [one for one in found if one != record][:count]
    return found if len(found) == count else generator.sample([one for one in pool if one != record], count)


def scores(model, tokenizer, path):
    with open(path, encoding='utf-8') as file:
        task = yaml.safe_load(file)
    records = read(task, path, 'test')
    config, delimiter = task.get('fewshot_config', {}), task.get('target_delimiter', ' ')
    pool = read(task, path, config.get('split') or task.get('fewshot_split') or task.get('training_split') or 'test')
    between = config.get('target_delimiter', delimiter)
    after = config.get('fewshot_delimiter', task.get('fewshot_delimiter', '\n\n'))
    generator = random.Random(1234)

    def parts(record):
        choices, target = part(task['doc_to_choice'], record), part(task['doc_to_target'], record)
        return part(task['doc_to_text'], record), choices, choices.index(target) if isinstance(target, str) else target

    lists, right, norm = [], 0, 0
    for record in records:
        context = part(task.get('description', ''), record)
        for text, choices, target in map(parts, draw(task, pool, record, generator)):
            context += text + between + choices[target] + after
        text, choices, target = parts(record)
        found = [log_prob(model, tokenizer, context + text, delimiter + choice) for choice in choices]
        right += found.index(max(found)) == target
        per_character = [value / len(choice) for value, choice in zip(found, choices)]
        norm += per_character.index(max(per_character)) == target
        lists.append(found)
    return {'log_probs': lists, 'acc': right / len(records), 'acc_norm': norm / len(records)}


def main():
    directory, *paths = sys.argv[1:]
    model = AutoModelForCausalLM.from_pretrained(directory, dtype=torch.float32)
    tokenizer = AutoTokenizer.from_pretrained(directory)
    print(json.dumps([scores(model, tokenizer, path) for path in paths]))


if __name__ == '__main__':
    main()
