#!/usr/bin/env python3
"""Conversations as tokens, as transformers makes them.

    chat_tokens.py make DIR    makes a tokenizer; its chat template marks answers with the tag `generation`
    chat_tokens.py tokens DIR FILE [TEMPLATE]    prints the tokens of conversations
    chat_tokens.py parts DIR FILE    prints the tokens of prompts and completions that are messages, as in TRL
    chat_tokens.py pairs DIR FILE    prints the tokens of prompts and completions, as in TRL
    chat_tokens.py texts DIR FILE FIELD    prints the tokens of texts under FIELD, made by TRL's code

A token that is read but not learned is printed as ~id.
"""
import __future__
import ast
import importlib.util
import json
import os
import sys

TURN = "{{ '<|im_start|>' + m['role'] + '\\n' }}"
TEMPLATE = ("{%- for m in messages %}" + TURN + "{%- if m['role'] == 'assistant' %}{% generation %}"
            "{{ m['content'] + '<|im_end|>\\n' }}{% endgeneration %}{%- else %}"
            "{{ m['content'] + '<|im_end|>\\n' }}{%- endif %}{%- endfor %}"
            "{%- if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{%- endif %}")


def make(folder):
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=400, special_tokens=['<|im_start|>', '<|im_end|>'],
                                  initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    tokenizer.train_from_iterator(['what does the word mean? the word means this and that'] * 9, trainer)
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token='<|im_start|>', eos_token='<|im_end|>',
                            chat_template=TEMPLATE).save_pretrained(folder)


def tokens(folder, path, template_path=None):
    from transformers import PreTrainedTokenizerFast
    tokenizer = PreTrainedTokenizerFast.from_pretrained(folder)
    template = TEMPLATE
    if template_path:
        with open(template_path, encoding='utf-8') as file:
            template = file.read()
    with open(path, encoding='utf-8') as file:
        for record in map(json.loads, file):
            made = tokenizer.apply_chat_template(record['messages'], return_dict=True, chat_template=template,
                                                 return_assistant_tokens_mask=True)
            yield from (i if learned else ~i for i, learned in zip(made['input_ids'], made['assistant_masks']))


def of_trl(name, source='data_utils.py', known=None):
    """Returns a function of TRL's source, whose imports need packages that the function does not use.

    `known` has the names outside the function that it uses.
    """
    path = os.path.join(importlib.util.find_spec('trl').submodule_search_locations[0], source)
    with open(path, encoding='utf-8') as file:
        module = ast.parse(file.read())
    module.body = [node for node in ast.walk(module) if isinstance(node, ast.FunctionDef) and node.name == name]
    found = {'json': json, 'ProcessorMixin': (), **(known or {})}
    exec(compile(module, path, 'exec', flags=__future__.annotations.compiler_flag), found)
    return found[name]


def parts(folder, path):
    """Prompts and completions that are lists of messages, as SFTTrainer's tokenize_fn does."""
    from transformers import PreTrainedTokenizerFast
    common_prefix_length = of_trl('common_prefix_length')
    tokenizer = PreTrainedTokenizerFast.from_pretrained(folder)
    with open(path, encoding='utf-8') as file:
        for record in map(json.loads, file):
            prompt = tokenizer.apply_chat_template(record['prompt'], add_generation_prompt=True, return_dict=True)
            both = tokenizer.apply_chat_template(record['prompt'] + record['completion'], return_dict=True)
            read = common_prefix_length(prompt['input_ids'], both['input_ids'])
            yield from (~i if at < read else i for at, i in enumerate(both['input_ids']))


def pairs(folder, path):
    from transformers import PreTrainedTokenizerFast
    common_prefix_length = of_trl('common_prefix_length')
    tokenizer = PreTrainedTokenizerFast.from_pretrained(folder)
    with open(path, encoding='utf-8') as file:
        for record in map(json.loads, file):
            prompt = tokenizer(record['prompt'])['input_ids']
            both = tokenizer(record['prompt'] + record['completion'] + tokenizer.eos_token)['input_ids']
            read = common_prefix_length(prompt, both)
            yield from (~i if at < read else i for at, i in enumerate(both))


def texts(folder, path, field):
    """Runs the functions that SFTTrainer maps over a data set."""
    from transformers import PreTrainedTokenizerFast
    tokenizer = PreTrainedTokenizerFast.from_pretrained(folder)
    known = {name: of_trl(name) for name in ('is_conversational', '_tokenize', 'common_prefix_length')}
    add_eos, tokenize, build_labels = (of_trl(name, 'trainer/sft_trainer.py', known)
                                       for name in ('add_eos', 'tokenize_fn', 'build_labels'))
    with open(path, encoding='utf-8') as file:
        for record in map(json.loads, file):
            made = tokenize(add_eos(record, tokenizer.eos_token, field), tokenizer, field, False, None)
            labels = build_labels(made, ['completion_mask'] if 'completion_mask' in made else [])['labels']
            yield from (~i if label == -100 else i for i, label in zip(made['input_ids'], labels))


if __name__ == '__main__':
    if sys.argv[1] == 'make':
        make(sys.argv[2])
    else:
        kinds = {'tokens': tokens, 'pairs': pairs, 'parts': parts, 'texts': texts}
        print(json.dumps(list(kinds[sys.argv[1]](*sys.argv[2:5]))))
