#!/usr/bin/env python3
"""Conversations of a .jsonl: their tokens are those of transformers, and a model learns the answers."""
import array
import glob
import json
import os
import random
import shutil
import sys
import unittest

from ranks import ORACLES, RANK, RankCase, text_of, write_text

sys.path.append(ORACLES)
from hub_cache import hub_cache  # noqa: E402

WORDS = ('cat', 'dog', 'sun', 'Grüße', '世界', 'rain')


def write_chats(path, count, seed=3):
    rng = random.Random(seed)
    with open(path, 'w', encoding='utf-8') as file:
        for i in range(count):
            messages = [{'role': 'system', 'content': 'be brief'}] if i % 3 == 0 else []
            for _ in range(rng.randint(1, 3)):
                word = rng.choice(WORDS)
                messages += [{'role': 'user', 'content': f'what is {word}?'},
                             {'role': 'assistant', 'content': f'the word {word}'}]
            file.write(json.dumps({'messages': messages}, ensure_ascii=i % 2 == 0) + '\n')
    return path


class ChatTest(RankCase):

    def setUp(self):
        super().setUp()
        self.tokenizer = os.path.join(self.top, 'tokenizer')
        self.oracle('chat_tokens.py', 'make', self.tokenizer)
        self.path = write_chats(os.path.join(self.top, 'chats.jsonl'), 60)

    def chats(self, steps, **changes):
        return self.document(steps, dp=1, **{'objective': 'sft', 'tokenizer': self.tokenizer,
                                             'model__vocab_size': 512, 'train__seq_length': 64,
                                             'data': {'train': [self.path], 'valid': 0.0}, **changes})

    def made_tokens(self):
        path, = glob.glob(os.path.join(self.top, 'tokens', '*.bin'))
        tokens = array.array('i')
        with open(path, 'rb') as file:
            tokens.frombytes(file.read())
        return list(tokens)

    def test_tokens_are_those_of_transformers_and_the_loss_falls(self):
        run = self.run_whole(1, 1, self.chats(40))
        self.assertEqual(self.made_tokens(), json.loads(self.oracle('chat_tokens.py', 'tokens', self.tokenizer,
                                                                    self.path)))
        self.assertIn('chats.jsonl: conversations in the form messages, with the template of', run.log())
        losses = [row['loss'] for row in run.metrics()]
        self.assertLess(losses[-1], 0.6 * losses[0])

    def test_a_template_without_spans_teaches_the_same_turns(self):
        path = os.path.join(self.tokenizer, 'chat_template.jinja')
        text = text_of(path)
        write_text(path, text.replace('{% generation %}', '').replace('{% endgeneration %}', ''))
        self.run_whole(1, 1, self.chats(1))
        self.assertEqual(self.made_tokens(), json.loads(self.oracle('chat_tokens.py', 'tokens', self.tokenizer,
                                                                    self.path)))

    def test_a_token_on_the_border_of_a_turn_is_learned(self):
        path = os.path.join(self.tokenizer, 'chat_template.jinja')
        text = text_of(path)
        write_text(path, text.replace("m['role'] + '\\n'", "m['role'] + ' '"))  # " the" is one token
        self.run_whole(1, 1, self.chats(1))
        made = self.made_tokens()
        self.assertEqual(made, json.loads(self.oracle('chat_tokens.py', 'tokens', self.tokenizer, self.path, path)))
        self.assertNotEqual(made, json.loads(self.oracle('chat_tokens.py', 'tokens', self.tokenizer, self.path)))

    def test_pairs_are_joined_before_they_are_tokenized_as_by_trl(self):
        pairs = [('what is the wo', 'rd means'), ('what is', ' the word?'), ('what is ', 'the word'), ('', 'the'),
                 ('th', 'at'), ('the word', '\n'), ('Grü', 'ße'), ('what ', ' mean')]
        with open(self.path, 'w', encoding='utf-8') as file:
            for prompt, completion in pairs:
                file.write(json.dumps({'prompt': prompt, 'completion': completion}) + '\n')
        self.run_whole(1, 1, self.chats(1))
        made = self.made_tokens()
        self.assertEqual(made, json.loads(self.oracle('chat_tokens.py', 'pairs', self.tokenizer, self.path)))
        self.assertLess(sum(i < 0 for i in made), 40)

    def test_texts_are_learned_whole_as_by_trl(self):
        records = [{'story': 'what is the word'}, {'story': 'this means that<|im_end|>'}, {'story': 'Grüße'},
                   {'prompt': 'what is', 'completion': ' the word?'}, {'story': ' th\n', 'label': 1},
                   {'instruction': 'say', 'input': '', 'output': 'cat', 'story': 'say cat'}]
        for at, first in enumerate((0, -1)):  # the second run has the Alpaca record at the start
            with open(self.path, 'w', encoding='utf-8') as file:
                file.write(''.join(json.dumps(record) + '\n' for record in records[first:] + records[:first]))
            shutil.rmtree(os.path.join(self.top, 'tokens'), ignore_errors=True)
            files = {'train': [self.path], 'field': 'story', 'texts': True, 'valid': {'held': self.path}}
            run = self.run_whole(1 + at, 1, self.chats(2, data=files, train__valid_every=1))
            want = json.loads(self.oracle('chat_tokens.py', 'texts', self.tokenizer, self.path, 'story'))
            self.assertEqual(self.made_tokens(), want)
            self.assertEqual(sum(token < 0 for token in want), 3, "the prompt's tokens")
            self.assertEqual(len([row for row in run.metrics() if 'valid_loss/held' in row]), 2)
        del files['texts']
        self.refused(self.chats(1, data=files), 2, 'chats.jsonl, line 2: has no text "instruction"')

    def test_prompts_and_completions_of_messages_are_tokenized_as_by_trl(self):
        with open(self.path, encoding='utf-8') as file:
            chats = [json.loads(line)['messages'] for line in file]
        with open(self.path, 'w', encoding='utf-8') as file:
            for messages in chats:
                file.write(json.dumps({'prompt': messages[:-1], 'completion': messages[-1:]}) + '\n')
        for without_spans in (False, True):
            path = os.path.join(self.tokenizer, 'chat_template.jinja')
            text = text_of(path)
            if without_spans:
                text = text.replace('{% generation %}', '').replace('{% endgeneration %}', '')
            write_text(path, text)
            shutil.rmtree(os.path.join(self.top, 'tokens'), ignore_errors=True)
            self.run_whole(1 + without_spans, 1, self.chats(1))
            self.assertEqual(self.made_tokens(), json.loads(self.oracle('chat_tokens.py', 'parts', self.tokenizer,
                                                                        self.path)))

    def test_rows_of_a_parquet_are_conversations_if_its_reader_is_installed(self):
        rows = os.path.join(os.path.dirname(os.path.abspath(__file__)), '../../parquet/rows.parquet')
        file = hub_cache(os.path.join(self.top, 'hub'), 'Ann/talk', 'data/rows.parquet', os.path.normpath(rows))
        document = self.chats(1, data={'train': [file], 'valid': 0.0, 'on_bad_line': 'skip'})
        if not os.path.exists(os.path.join(os.path.dirname(RANK), 'roll-parquet')):
            return self.refused(document, 2, 'rows.parquet: roll-parquet, which reads such files through Apache Arrow, '
                                'is not installed; run packaging/setup --parquet and build again')
        run = self.run_whole(1, 1, document)
        self.assertIn('.jsonl: 1 document, ', run.log())
        self.assertIn('2 bad lines skipped', run.log())


if __name__ == '__main__':
    unittest.main()
