#!/usr/bin/env python3
"""Looks for conversations in which Roll teaches other bytes than TRL does. The conversations are random, and their
contents look like the text of the template: they repeat its marks, its roles and its tokens, are empty, or begin and
end with blanks. A turn that Roll finds must be TRL's, wherever the template and TRL's training template write the same
text. Roll may also refuse the conversation.

    turns_fuzz.py RENDER_CHATS [COUNT [SEED]]     COUNT: conversations for each template
"""
import random
import re
import sys
from pathlib import Path

import chat_oracle as oracle

PLAIN = ('', ' ', '\n', '\n\n', '\t', 'a', 'b', 'ab', 'é', ';', '.', 'user', 'assistant', 'Rq7xVz', 'mK2wQj',
         '<eos>', '<bos>', '<unk>', '<think>', '</think>', '<think>\nb\n</think>\n\n', '\u00a0')
MADE = 60  # number of random templates
# Least share of the compared conversations, over all templates, in which Roll must find the turns
FOUND_MIN = 0.7


def pieces_of(template):
    """Returns the texts in a template's quotes: its marks, its roles and the names of its keys."""
    quoted = re.findall(r"'((?:[^'\\\n]|\\.)*)'|\"((?:[^\"\\\n]|\\.)*)\"", template)
    texts = {(one or other).replace('\\n', '\n').replace("\\'", "'") for one, other in quoted}
    return sorted(text for text in texts if 0 < len(text) < 60 and '{' not in text)


def content(rng, pieces):
    kind = rng.random()
    if kind < 0.35:
        return rng.choice(PLAIN)
    if kind < 0.5:
        return rng.choice(('a', 'b', 'Hello there', 'one\ntwo'))
    count = rng.choice((1, 1, 2, 2, 3, 4))
    return ''.join(rng.choice(pieces if rng.random() < 0.6 else PLAIN) for _ in range(count))


def answer(rng, pieces):
    message = oracle.said('assistant', content(rng, pieces))
    if rng.random() < 0.15:
        message['reasoning_content'] = content(rng, pieces)
    return message


def conversation(rng, pieces):
    messages = []
    if rng.random() < 0.25:
        messages.append(oracle.said('system', content(rng, pieces)))
    if rng.random() < 0.08:
        messages.append(answer(rng, pieces))
    record = {'messages': messages}
    with_tools = rng.random() < 0.15
    for _ in range(rng.choice((1, 1, 2, 2, 3, 4))):
        messages.append(oracle.said('user', content(rng, pieces)))
        if with_tools and rng.random() < 0.6:
            messages.append(oracle.called('add', {'a': 1, 'b': content(rng, pieces)}, content(rng, pieces)))
            messages.append(oracle.said('tool', content(rng, pieces), name='add', tool_call_id='call00001'))
        if rng.random() < 0.9:
            messages.append(answer(rng, pieces))
    if with_tools:
        record['tools'] = [oracle.ADD]
    if rng.random() < 0.1:
        record['chat_template_kwargs'] = {'enable_thinking': rng.random() < 0.5}
    return record


def made_template(rng):
    """Returns a training template. The template without its generation tags has the same text."""
    header = rng.choice(("'<|im_start|>' ~ m.role ~ '\\n'", "'<|' ~ m.role ~ '|>\\n'", "'<' ~ m.role ~ '>'",
                         "'\\n[' ~ m.role ~ '] '"))
    end = rng.choice(("'<|im_end|>\\n'", "';'", "'\\n'", 'eos_token', "eos_token ~ '\\n'", "''"))
    last = rng.choice((end, end, 'eos_token', "'<|return|>'"))
    # A text that only the last message lacks is a separator, which belongs to no turn
    others_last = rng.choice((end, end, end, 'eos_token'))
    if any(mark != end and end.startswith(mark) for mark in (last, others_last)):
        others_last = end
    final = rng.choice(("''", "''", 'eos_token'))
    system = rng.choice(('', '', f"{{{{ '<s>be brief' ~ {end} if messages[0].role != 'system' }}}}"))
    text = rng.choice(('m.content', 'm.content|trim', "m.content.split('</think>')[-1]"))
    thought = rng.choice(("''", "''", "('[]' if loop.last else '')", "'[]'"))
    dropped = rng.choice(('', '', '', "{% if m.role == 'tool' %}{% continue %}{% endif %}"))
    asks = rng.choice(('', '', '<think>\\n'))
    role = header.replace('m.role', "'assistant'")
    return (f"{{{{ bos_token }}}}{system}{{% for m in messages %}}{dropped}{{{{ {header} }}}}"
            "{% if m.role == 'assistant' %}"
            f"{{% generation %}}{{{{ {thought} ~ {text} ~ ({last} if loop.last else {end}) }}}}{{% endgeneration %}}"
            f"{{% else %}}{{{{ m.content ~ ({others_last} if loop.last and not add_generation_prompt else {end}) }}}}"
            "{% endif %}{% endfor %}"
            f"{{% if add_generation_prompt %}}{{{{ {role} ~ '{asks}' }}}}{{% elif messages[-1].role == 'assistant' %}}"
            f"{{% generation %}}{{{{ {final} }}}}{{% endgeneration %}}{{% else %}}{{{{ {final} }}}}{{% endif %}}")


def compare(program, name, template, training, records):
    """Returns how many conversations were compared and refused, and what is wrong."""
    # After a tool's answer, the prompt of this template lacks the mark of the turn, so that Roll teaches the mark. An
    # answer that calls a tool ends with the mark that ends a generation, which TRL does not teach.
    if name == 'diffusion_gemma':
        records = [record for record in records if 'tools' not in record]
    inputs = [{'template': template, 'tokens': oracle.TOKENS, 'record': record, 'train_on': 'assistant'}
              for record in records]
    compared, refused, wrong = 0, 0, []
    for record, ours in zip(records, oracle.rendered(program, inputs), strict=True):
        text, spans = oracle.reference(training, record, False)
        if text is None or oracle.reference(template, record, False)[0] != text:
            continue
        compared += 1
        if 'error' in ours:
            refused += 1
            continue
        turns, spans = oracle.joined(ours['learned']), oracle.joined(oracle.in_bytes(text, spans))
        if ours['text'] == text and turns == spans:
            continue
        prompts = oracle.prompts_of(template, record)
        alike = len(turns) == len(spans) and all(
            oracle.is_turn(text, *both, prompts) for both in zip(turns, spans))
        if ours['text'] != text or not alike:
            wrong.append(f'{name}: {record}\n  text {text!r}\n  turns {turns}, trl {spans}')
    return compared, refused, wrong


def main():
    count = int(sys.argv[2]) if len(sys.argv) > 2 else 30
    seed = int(sys.argv[3]) if len(sys.argv) > 3 else 1
    files = oracle.templates(oracle.package_folder())
    names = [name for name in sorted(files) if name + '_training' in files and name not in oracle.OTHER_TEXTS]
    pairs = {name: (files[name], files[name + '_training']) for name in names}
    for number in range(MADE):
        training = made_template(random.Random(f'{seed} template {number}'))
        pairs[f'made {number}'] = (re.sub(r'\{% (end)?generation %\}', '', training), training)
    total = refusals = 0
    wrong = []
    for name, (template, training) in pairs.items():
        rng = random.Random(f'{seed} {name}')
        records = [conversation(rng, pieces_of(template)) for _ in range(count)]
        records = [one for one in records if any(m['role'] == 'assistant' for m in one['messages'])]
        compared, refused, faults = compare(sys.argv[1], name, template, training, records)
        print(f'{name}: {compared} compared, {refused} refused, {len(faults)} wrong')
        total, refusals, wrong = total + compared, refusals + refused, wrong + faults
    print(f'{len(pairs)} templates, seed {seed}: {total} conversations compared, {refusals} refused, '
          f'{len(wrong)} wrong')
    for line in wrong[:20]:
        print(line)
    if refusals > (1 - FOUND_MIN) * total:
        print(f'turns_fuzz: less than {FOUND_MIN:.0%} of the conversations have turns')
        return 1
    return 1 if wrong else 0


if __name__ == '__main__':
    sys.exit(main())
