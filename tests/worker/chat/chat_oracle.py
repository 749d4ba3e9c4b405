#!/usr/bin/env python3
"""Compares rendered conversations and learned spans with transformers, on the templates that the
package trl ships, on those that packaging/setup takes from other packages, and on olmo3.jinja beside
this file. Compares the turns that Roll finds in a template without {% generation %} with the spans of
trl's training template of the same model.

    chat_oracle.py RENDER_CHATS [FOLDER]     FOLDER: trl's chat_templates, if it is not installed
"""
import importlib.util
import json
import re
import subprocess
import sys
from pathlib import Path

from transformers.utils.chat_template_utils import render_jinja_template

# Templates whose training template never renders a conversation as the template itself does
OTHER_TEXTS = {'glm4moe', 'llava_next'}
# Conversations that Roll refuses, because their turns cannot be told apart
UNCLEAR = {'gptoss': 1, 'diffusion_gemma': 1, 'qwen3_8': 1, 'nemotron_3_5_lightning': 1, 'nemotron_3_nano': 1,
           'nemotron_3_super': 1, 'nemotron_3_ultra': 1, 'idefics3': 1, 'smolvlm': 1}
# Templates for strings that print a list of texts as Python does, or leave its texts out. Roll refuses the conversation
# that has such a list.
FOR_STRINGS = {'cohere2', 'gemma', 'llama3', 'olmo3', 'qwen3_instruct_2507', 'nemotron_3_5_lightning',
               'nemotron_3_nano', 'nemotron_3_super', 'nemotron_3_ultra'}
# Conversations with tools in which the prompt does not have the mark that begins the turn after a tool's answer, so
# that Roll teaches this mark
MARK_TAUGHT = {('diffusion_gemma', 31), ('diffusion_gemma', 32), ('diffusion_gemma', 33)}
# Families of the templates that must all be there. Others in the folder are compared too.
FAMILIES = ('llama3', 'llama3_1', 'qwen2_5', 'qwen3', 'qwen3_5_think', 'gemma', 'gemma3', 'phi3',
            'cohere2', 'deepseekv3', 'glm4moe', 'gptoss', 'mistral_v1', 'mistral_v2v3', 'mistral_v3_tekken',
            'mistral_v7_tekken', 'smollm2', 'olmo3')
OURS = Path(__file__).resolve().parent
OTHER_PACKAGES = Path(__file__).resolve().parents[3] / '.deps' / 'templates'
TOKENS = {'bos_token': '<bos>', 'eos_token': '<eos>', 'unk_token': '<unk>', 'pad_token': '<pad>'}
TIME = '1970-01-01'

WEATHER = {'type': 'function', 'function': {
    'name': 'get_weather', 'description': 'Tells the weather — now & "here" <b>.',
    'parameters': {'type': 'object', 'required': ['city'], 'properties': {
        'city': {'type': 'string', 'description': 'a city'},
        'unit': {'type': 'string', 'enum': ['celsius', 'fahrenheit'], 'default': 'celsius'},
        'days': {'type': 'array', 'items': {'type': 'integer'}},
        'where': {'type': 'object', 'properties': {'lat': {'type': 'number'}}}}},
    'return': {'type': 'string', 'description': 'a report'}}}
ADD = {'type': 'function', 'function': {
    'name': 'add', 'description': 'Adds two numbers.', 'parameters': {
        'type': 'object', 'properties': {'a': {'type': 'number'}, 'b': {'type': ['number', 'null']}},
        'required': ['a', 'b']}}}
TEXTS = ('Hello', '', ' spaces around ', 'line\nbreaks\r\nand\ttabs\n\n', 'Grüße, 世界 🌍 e\u0301',
         '{{ messages }} {% if %} {# no #}', '<|im_start|>user\nfake<|im_end|>',
         'quotes "double" and \'single\' \\ back', '</think> odd', '\u00a0\u3000wide\u2003',
         '<b>&amp;</b>', '-1.5e3', '\x1c\x1d', 'ﬃ ß İ')

# Parts of the language that few templates use
SNIPPETS = (
    '  {% if true %}  \n  a{# c #}\n {%- if 1 %} b {% endif +%} \n{% endif %}\n\n',
    '{% raw %}\n{{ x }} {% endraw %}\n',
    'a\r\nb\r{{ 1 }}\n',
    '{%+ if 1 -%}  x  {%- endif %} y',
    '  {%+ set a = 1 %}{{ a }}',
    '{{ \'a\\n\\x41\\u00e9\\q\' }}{{ "it\'s" \'x\' }}',
    '{{ [1, 2.0, "a\'b", none, true, {"k": [1]}] }}',
    '{{ 7 // 2 }} {{ -7 // 2 }} {{ -7 % 3 }} {{ 7 / 2 }} {{ 2 ** 10 }} {{ 1e22 }} {{ 1.5e-7 }} {{'
    ' 100000000000000000.0 }}',
    "{{ 'héllo'[1:3] }} {{ 'héllo'[::-1] }} {{ 'abc'[-2:] }} {{ [1, 2, 3][::2] }} {{ 'abc'[5:] }}",
    "{{ 'a,b,,c'.split(',') }} {{ ' a  b '.split() }} {{ 'a b c'.split(' ', 1) }} {{ 'a b c'.rsplit(None, 1) }}",
    "{{ 'Hello World-x'|title }} {{ 'hELLO'|capitalize }} {{ 'they\\'re'.title() }} {{ 'ß'|upper }}",
    "{{ 'abcabc'.replace('b', 'X', 1) }} {{ 'ab'|replace('', '-') }} {{ 'abc'.find('c') }} {{ 'aXbX'.count('X') }}",
    "{{ 'abc' in 'xabcx' }} {{ 1 in [1.0] }} {{ 'k' in {'k': 1} }} {{ 1 < 2 < 3 }} {{ 1 < 2 > 5 }} {{ not 1 == 2 }}",
    '{% set n = namespace(a=1) %}{% for i in range(3) %}{% set n.a = n.a + i %}{% set x = i %}{% endfor'
    ' %}{{ n.a }}{{ x }}',
    '{% for a, b in {"x": 1, "y": 2}.items() %}{{ loop.index }}{{ a }}{{ b }}{{ loop.last }}{% else'
    ' %}none{% endfor %}',
    '{% for i in [1, 2, 3, 4] if i % 2 == 0 %}{{ loop.index0 }}{{ i }}{{ loop.length }}{{ loop.previtem'
    ' }},{% endfor %}',
    '{% for i in range(9) %}{% if i == 2 %}{% continue %}{% endif %}{% if i == 5 %}{% break %}{% endif'
    ' %}{{ i }}{% endfor %}',
    '{% macro f(a, b=2, c=a) %}{{ a }}{{ b }}{{ c }}{{ d }}{% endmacro %}{% set d = 9 %}{{ f(1) }} {{'
    ' f(1, c=3) }} {{ f() }}',
    '{% set x %}  a {{ 1 }}\n{% endset %}[{{ x }}]',
    '{{ x is defined }}{{ x }}{{ x|default("d") }}{{ ""|default("e", true) }}',
    '{{ messages|map(attribute="role")|join(",") }} {{ messages|selectattr("role", "equalto",'
    ' "user")|list|length }}',
    '{{ {"b": 1, "A": 2}|dictsort|map("join", "=")|list }} {{ ["b", "A"]|sort }} {{ [3,'
    ' 1]|sort(reverse=true) }} {{ [1, 1, 2]|unique|list }}',
    '{{ {"a": [1, {"b": "é<"}], "c": {}}|tojson }} {{ {"b": 1, "a": [1, []]}|tojson(indent=2, sort_keys=true) }}',
    '{{ "é\u2028"|tojson(ensure_ascii=true) }} {{ [1, 2]|tojson(separators=(",", ":")) }} {{ 1.0|tojson }}',
    "{{ '12'|int }} {{ 'x'|int(5) }} {{ '1.9'|int }} {{ '1.5'|float }} {{ -3|abs }} {{ [1, 2]|sum }} {{"
    ' [2, 5]|max }}',
    "{{ 'a\nb\n\nc'|indent(2) }} {{ 'a\nb'|indent(2, true) }} {{ 'x\u2028y\nz'.splitlines() }}",
    "{{ ' x '|trim }} {{ 'xxaxx'.strip('x') }} {{ '--a'.lstrip('-') }} {{ 'a.b'.partition('.')|join('/')"
    " }} {{ 'aa'.removeprefix('a') }}",
    "{{ 1 if false }}{{ 'a' ~ 1 ~ none }}{{ [1] + [2] }}{{ 'ab' * 2 }}{{ (1, 2)|first }}{{ [3, 4]|last"
    " }}{{ 'abc'|reverse }}",
    "{{ 3 is odd }}{{ 4 is divisibleby 2 }}{{ 'a' is string and 1 is number }}{{ none is none }}{{ x is sequence }}",
    "{{ true is number }}{{ 1 is integer }}{{ 1.0 is float }}{{ 'a' is mapping }}{{ {} is iterable }}{{"
    " 'A' is upper }}",
    "{{ messages[0].items is defined }}{{ messages[0]['role'] }}{{ messages[9] is defined }}{{ messages[-1].role }}",
    '{{ messages[0].nothing.more }}',
    '{{ nothing + 1 }}',
    "{{ 1 + 'a' }}",
    "{{ raise_exception('no') }}",
    "{{ 'a'.nothing() }}",
    '{{ dict(a=1, b=2) }}{{ {"a": 1}.get("b", 3) }}{{ {"a": 1}.keys()|list }}{{ {"a": 1}["keys"] is callable }}',
    '{{ "a" if messages|length > 1 else "b" }}{{ messages | length - 1 }}{{ -messages|length }}{{ "%" }}{{ 5 % 3 }}',
    '{% generation %}a{% set q = 1 %}{% endgeneration %}{{ q }}é{% generation %}b{% endgeneration %}',
    '{{ "" and 1 }}{{ 0 or "x" }}',
    '{{ [1, [2, "x"]] == [1, [2, "x"]] }}{{ {"a": 1} == {"a": 1.0} }}{{ "a" < "b" }}{{ [1, 2] < [1, 3]'
    ' }}{{ 1 == true }}',
    '{{ ["a", "b"]|map("upper")|list }}{{ [0, 1]|select|list }}{{ [1, "a"]|reject("string")|list }}{{ "abc"|list }}',
    '{% for c in "né" %}{{ loop.revindex }}{{ c }}{% endfor %}{% for k in {"z": 1} %}{{ k }}{% endfor'
    ' %}{% for u in x %}{% endfor %}',
    '{{ loop is defined }}{% for i in [1] %}{% for j in [2, 3] %}{{ loop.index }}{{ loop.depth }}{%'
    ' endfor %}{{ loop.index }}{% endfor %}',
)


def said(role, content, **more):
    return {'role': role, 'content': content, **more}


def called(name, arguments, content=''):
    call = {'id': 'call00001', 'type': 'function', 'function': {'name': name, 'arguments': arguments}}
    return said('assistant', content, tool_calls=[call])


def conversations():
    """Returns 40 records, as a user's file holds them."""
    records = []
    for i, text in enumerate(TEXTS):
        other = TEXTS[(i + 5) % len(TEXTS)]
        records.append({'messages': [said('user', text), said('assistant', other)]})
    for text in TEXTS[:6]:
        records.append({'messages': [said('system', text), said('user', 'a'), said('assistant', text)]})
    for count in (2, 3, 5):
        turns = [said(('user', 'assistant')[i % 2], TEXTS[i % len(TEXTS)]) for i in range(2 * count)]
        records.append({'messages': turns})
        records.append({'messages': [said('system', 'Be brief.'), *turns]})
    think = said('assistant', '<think>\nhm\n</think>\n\nyes')
    records.append({'messages': [said('user', 'q'), think]})
    records.append({'messages': [said('user', 'q'), think, said('user', 'r'), think]})
    reason = said('assistant', 'so', reasoning_content='because 世界')
    records.append({'messages': [said('user', 'q'), reason]})
    records.append({'messages': [said('user', 'q'), reason, said('user', 'r'), reason]})
    records.append({'messages': [said('user', 'q'), said('assistant', 'x', reasoning_content=None)]})
    call = called('get_weather', {'city': 'Zürich', 'days': [1, 2], 'where': {'lat': 47.5, 'x': None}})
    answer = said('tool', '{"t": 21.5}', name='get_weather', tool_call_id='call00001')
    for tools in ([WEATHER], [WEATHER, ADD], None):
        record = {'messages': [said('user', 'weather?'), call, answer, said('assistant', '21.5 °C')]}
        records.append(record if tools is None else {**record, 'tools': tools})
    records.append({'messages': [said('user', 'hi'), said('assistant', 'ho')], 'tools': [ADD]})
    both = called('add', {'a': 1, 'b': 2.0}, 'let me see')
    both['tool_calls'].append({'id': 'call00002', 'type': 'function', 'function': {
        'name': 'add', 'arguments': {'a': True, 'b': 1e22}}})
    records.append({'messages': [said('system', 's'), said('user', '1+2'), both, said('tool', '3', name='add'),
                                 said('tool', '4', name='add'), said('assistant', '3')],
                    'tools': [ADD]})
    records.append({'messages': [said('user', 'a'), said('user', 'b'), said('assistant', 'c')]})
    records.append({'messages': [said('assistant', 'first'), said('user', 'b'), said('assistant', 'c')]})
    records.append({'messages': [said('user', 'a'), said('assistant', 'b')],
                    'chat_template_kwargs': {'enable_thinking': False}})
    records.append({'messages': [said('user', [{'type': 'text', 'text': 'part'}]), said('assistant', 'b')]})
    return records


def reference(template, record, prompt):
    """Returns the text and the spans that transformers makes, or None if it fails."""
    chat = [{k: v for k, v in m.items() if v is not None} for m in record['messages']]
    spans = re.search(r'\{%-?\s*generation\s*-?%\}', template) is not None
    try:
        texts, found = render_jinja_template(
            [chat], tools=record.get('tools'), chat_template=template, add_generation_prompt=prompt,
            return_assistant_tokens_mask=spans,
            **{**TOKENS, **record.get('chat_template_kwargs', {})})
    except Exception as error:  # any failure of a template is one
        return None, str(error)
    return texts[0], [list(span) for span in found[0]] if found else []


def in_bytes(text, spans):
    return [[len(text[:at].encode()) for at in span] for span in spans]


def templates(folder):
    paths = [path for place in (folder, OTHER_PACKAGES, OURS) for path in sorted(place.glob('*.jinja'))]
    files = {path.stem: path.read_text(encoding='utf-8') for path in paths}
    missing = [name for name in FAMILIES if name not in files]
    if missing:
        sys.exit(f'chat_oracle: neither {folder} nor {OTHER_PACKAGES} has a template of {", ".join(missing)}; '
                 'packaging/setup --oracle installs them')
    files['olmo3_training'] = re.sub(r'\{#- (\w*generation) -#\}', r'{%- \1 -%}', files['olmo3'])
    return {name: re.sub(r'strftime_now\([^)]*\)', f"'{TIME}'", text) for name, text in files.items()}


def rendered(program, inputs):
    lines = ''.join(json.dumps(one) + '\n' for one in inputs)
    out = subprocess.run([program], input=lines, capture_output=True, text=True, check=True)
    return [json.loads(line) for line in out.stdout.splitlines()]


def joined(spans):
    """Returns the spans without those that are empty; spans that touch each other become one."""
    found = []
    for begin, end in spans:
        if found and found[-1][1] == begin:
            found[-1][1] = end
        elif begin < end:
            found.append([begin, end])
    return found


def is_turn(text, turn, span, prompts):
    """Checks a turn against trl's span. trl also teaches a part of the prompt in some templates, such as the line end
    after `<|im_start|>assistant` of Qwen 2.5. Generation begins after the prompt, so Roll does not teach it."""
    taught = text.encode()[span[0]:turn[0]].decode()
    return turn[1] == span[1] and turn[0] >= span[0] and any(taught in prompt for prompt in prompts)


def prompts_of(template, record):
    """Returns the last 80 characters of each text that asks for a message of the assistant."""
    messages = record['messages']
    asked = [messages[:i] for i, one in enumerate(messages) if i and one['role'] == 'assistant']
    texts = [reference(template, {**record, 'messages': some}, True)[0] for some in [*asked, [said('user', 'a')]]]
    return [text[-80:] for text in texts if text is not None]


def compare_turns(program, files, records):
    """Compares turns with the spans of the training templates, where both templates write the same text."""
    wrong, same, shorter = [], 0, 0
    for name in sorted(files):
        training = files.get(name + '_training')
        if training is None:
            continue
        made = rendered(program, [{'template': files[name], 'tokens': TOKENS, 'record': record,
                                   'train_on': 'assistant'} for record in records])
        refused = compared = 0
        for number, (record, ours) in enumerate(zip(records, made, strict=True)):
            text, spans = reference(training, record, False)
            if text is None or reference(files[name], record, False)[0] != text:
                continue
            compared += 1
            if 'error' in ours:
                refused += 1
                continue
            prompts = prompts_of(files[name], record)
            turns, spans = joined(ours['learned']), joined(in_bytes(text, spans))
            right = len(turns) == len(spans) and all(is_turn(text, *both, prompts) for both in zip(turns, spans))
            if right == ((name, number) in MARK_TAUGHT):
                wrong.append(f'{name}, conversation {number}: turns {turns}, trl {spans}')
            same += turns == spans
            shorter += turns != spans
        expected = UNCLEAR.get(name, 0) + (name in FOR_STRINGS)
        if refused != expected:
            wrong.append(f'{name}: {refused} conversations refused, not {expected}')
        if (compared == 0) != (name in OTHER_TEXTS):
            wrong.append(f'{name}: {compared} conversations compared')
    print(f'turns: {same} equal, {shorter} equal but for the end of the prompt, {len(wrong)} wrong')
    return wrong


def compare(program, files, records, prompts):
    cases, inputs = [], []
    for name, template in files.items():
        for number, record in enumerate(records):
            for prompt in prompts:
                cases.append((name, number, prompt, template, record))
                inputs.append({'template': template, 'tokens': TOKENS, 'record': record, 'prompt': prompt})
    same = refused = 0
    wrong = []
    for (name, number, prompt, template, record), made in zip(cases, rendered(program, inputs), strict=True):
        text, spans = reference(template, record, prompt)
        if text is None:
            refused += 1
            if 'error' not in made:
                wrong.append(f'{name}, conversation {number}: not refused, as transformers does: {spans}')
        elif 'error' in made:
            wrong.append(f'{name}, conversation {number}: {made["error"]}')
        elif made['text'] != text:
            at = next((i for i, (a, b) in enumerate(zip(made['text'], text)) if a != b), 0)
            wrong.append(f'{name}, conversation {number}: at {at} {made["text"][at:at + 40]!r}, '
                         f'transformers {text[at:at + 40]!r}')
        elif made['learned'] != in_bytes(text, spans):
            wrong.append(f'{name}, conversation {number}: spans {made["learned"]}, transformers {spans}')
        else:
            same += 1
    print(f'{len(files)} templates x {len(records)} conversations: {same} equal, {refused} refused '
          f'by transformers, {len(wrong)} wrong')
    return wrong


def package_folder():
    """Returns the folder of trl's templates."""
    found = importlib.util.find_spec('trl')
    if found is None:
        sys.exit(f'{Path(sys.argv[0]).stem}: trl is missing; packaging/setup --oracle installs it')
    return Path(found.origin).parent / 'chat_templates'


def main():
    files = templates(Path(sys.argv[2]) if len(sys.argv) > 2 else package_folder())
    wrong = compare(sys.argv[1], files, conversations(), (False, True))
    wrong += compare_turns(sys.argv[1], files, conversations())
    snippets = {repr(snippet): snippet for snippet in SNIPPETS}
    wrong += compare(sys.argv[1], snippets, conversations()[:1], (False,))
    for line in wrong[:30]:
        print(line)
    return 1 if wrong else 0


if __name__ == '__main__':
    sys.exit(main())
