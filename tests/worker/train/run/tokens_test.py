#!/usr/bin/env python3
"""roll-rank with text and a tokenizer: same ids, losses and continuations as transformers, also after kills."""
import json
import math
import os
import re
import resource
import shutil
import signal
import struct
import subprocess
import tempfile
import unittest

from ranks import ORACLE, RANK, Attempt, RankCase, json_of, text_of, write_corpus, write_text

HF_TEXT = os.path.join(os.path.dirname(os.path.abspath(__file__)), '../../../oracle/hf_text.py')


def read_tokens(base):
    """Returns [[id ...] ...]: the documents of a .bin and .idx, read as by Megatron's IndexedDataset."""
    with open(base + '.idx', 'rb') as file:
        index = file.read()
    with open(base + '.bin', 'rb') as file:
        data = file.read()
    magic, version, code, count, entries = struct.unpack_from('<9sQBQQ', index)
    assert magic == b'MMIDIDX\0\0' and version == 1 and code == 8, index[:40]
    lengths = struct.unpack_from(f'<{count}i', index, 34)
    offsets = struct.unpack_from(f'<{count}q', index, 34 + 4 * count)
    documents = struct.unpack_from(f'<{entries}q', index, 34 + 12 * count)
    assert len(index) == 34 + 12 * count + 8 * entries
    sequences = [list(struct.unpack_from(f'<{n}H', data, at)) for n, at in zip(lengths, offsets)]
    return [sum(sequences[a:b], []) for a, b in zip(documents, documents[1:])]


def apart(documents, fraction, length):
    """Returns the part of each document in the held-out windows of `length` inputs: lists of two ids or more."""
    ids = sum(documents, [])
    starts = {sum(map(len, documents[:i])) for i in range(len(documents))}
    begin = len(ids) - math.floor(fraction * len(ids) + 0.5)
    pieces = []
    for first in range(begin, len(ids) - 1, length):
        piece = []
        for i in range(first, min(first + length + 1, len(ids))):
            if i in starts and piece:
                pieces.append(piece)
                piece = []
            piece.append(ids[i])
        pieces.append(piece)
    return [piece for piece in pieces if len(piece) > 1]


def hf(*commands):
    """Returns hf_text.py's result for each command."""
    words = [word for command in commands for word in ('--', *map(str, command))][1:]
    done = subprocess.run([ORACLE, HF_TEXT, *words], capture_output=True, text=True, check=False,
                          env={'PATH': '/usr/bin:/bin'})
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout)


class TokensTest(RankCase):

    @classmethod
    def setUpClass(cls):
        cls.made = tempfile.mkdtemp(prefix='roll-tokens-')
        cls.addClassCleanup(shutil.rmtree, cls.made, ignore_errors=True)
        corpus = write_corpus(os.path.join(cls.made, 'corpus.txt'))
        hf(('make', os.path.join(cls.made, 'model'), corpus, 'bos=1'),
           ('make', os.path.join(cls.made, 'other'), corpus, 'bos=0', 'vocab=300'))

    def setUp(self):
        super().setUp()
        self.model = shutil.copytree(os.path.join(self.made, 'model'), os.path.join(self.top, 'model'))
        self.lines = os.path.join(self.top, 'lines.jsonl')
        words = text_of(self.corpus).split(' ')
        with open(self.lines, 'w', encoding='utf-8') as file:
            for i in range(300):
                text = ' '.join(words[50 * i:50 * i + 10 + i % 41]) + (' äöü 中文' if i % 7 == 0 else '')
                file.write(json.dumps({'id': i, 'text': text}) + '\n')

    def text_document(self, steps, **changes):
        return self.document(steps, **{'model': {'from': self.model}, 'tokenizer': self.model,
                                       'data__train': [self.lines, self.corpus], **changes})

    def token_file(self, stem):
        folder = os.path.join(self.top, 'tokens')
        found, = [name[:-4] for name in os.listdir(folder) if name.startswith(stem + '-') and name.endswith('.idx')]
        return os.path.join(folder, found)

    def test_trains_on_the_ids_of_transformers_with_its_loss(self):
        still = {'train__optimizer__lr': 1e-30, 'train__optimizer__min_lr': 0.0}
        sets = {'whole': [self.lines], 'tail': 0.05}
        run = self.run_whole(1, 1, self.text_document(1, data__valid=sets, data__track='tail', **still))
        export = self.exported(run, 'export')
        mine = [read_tokens(self.token_file(stem)) for stem in ('lines', 'corpus')]
        tails = []
        for documents in mine:
            ids = sum(documents, [])
            tails.append(ids[len(ids) - math.floor(0.05 * len(ids) + 0.5):])
        sources, losses = (self.lines, self.corpus), [('loss', self.model, 'float32', tail, 32) for tail in tails]
        losses.append(('loss', self.model, 'float32', sum(mine[0], []), 32))
        *theirs, exported, one, two, whole = hf(*(('ids', self.model, source) for source in sources),
                                         ('ids', export, self.lines), *losses)
        for documents, wanted in zip(mine, theirs):
            self.assertEqual(documents, [ids + [1] for ids in wanted])
            self.assertEqual({ids[0] for ids in wanted}, {0}, 'the template puts <|start|> before a text')
        self.assertEqual(exported, theirs[0], 'the tokenizer goes with the weights')
        loss, size = sum(mean * (len(tail) - 1) for (mean, _), tail in zip((one, two), tails)), one[1] + two[1]
        row = [row for row in run.metrics() if 'valid_loss' in row][-1]
        print(f"held-out loss: roll {row['valid_loss']:.9f}, transformers {loss / row['valid_tokens']:.9f}")
        self.assertAlmostEqual(row['valid_loss'] * row['valid_tokens'] / loss, 1, delta=1e-5)
        self.assertAlmostEqual(row['valid_bits_per_byte'] * size * math.log(2) / loss, 1, delta=1e-5)
        self.assertNotIn('ngram2_bits_per_byte', row)
        for key in ('valid_loss', 'valid_tokens', 'valid_bits_per_byte'):
            self.assertEqual(row[key], row[key + '/tail'])
        self.assertAlmostEqual(row['valid_loss/whole'] / whole[0], 1, delta=1e-5)
        self.assertEqual(row['valid_tokens/whole'], len(sum(mine[0], [])) - 1)
        self.assertAlmostEqual(row['valid_bits_per_byte/whole'] * math.log(2) * whole[1] / whole[0]
                               / row['valid_tokens/whole'], 1, delta=1e-5)
        # Documents that do not attend to each other train like single documents.
        alone = self.run_whole(3, 1, self.text_document(1, data__valid=0.05, **still,
                                                        data__attention='within_documents'))
        pieces = [piece for documents in mine for piece in apart(documents, 0.05, 32)]
        nats, = hf(('apart', self.model, 'float32', pieces))
        row = [row for row in alone.metrics() if 'valid_loss' in row][-1]
        self.assertEqual(row['valid_tokens'], sum(len(piece) - 1 for piece in pieces))
        print(f"documents apart: roll {row['valid_loss']:.9f}, transformers {nats / row['valid_tokens']:.9f}")
        self.assertAlmostEqual(row['valid_loss'] * row['valid_tokens'] / nats, 1, delta=1e-5)
        # Token files can be used as data themselves.
        again = self.run_whole(2, 1, self.text_document(1, data__valid=sets, data__track='tail', **still,
                                                        data__train=[
            self.token_file('lines') + '.bin', self.token_file('corpus') + '.bin']))
        self.assertEqual(again.metrics(), run.metrics())

    def test_says_what_transformers_says(self):
        prompts = ['the ', 'a', 'Größe 中', 'no no no no', 'x = 1;']
        wanted, = hf(('generate', self.model, 'float32', 24, *prompts))
        got = []
        for prompt in prompts:
            command = [RANK, 'generate', self.model, prompt, '--max-tokens', '24', '--json']
            said = json.loads(subprocess.run(command, capture_output=True, check=True, text=True).stdout)
            got.append(said['prompt'] + said['text'])
        self.assertEqual(got, wanted['texts'])
        empty = subprocess.run([RANK, 'generate', self.model, '', '--max-tokens', '3'], capture_output=True, text=True,
                               check=False)
        self.assertEqual(empty.returncode, 0, empty.stderr)

    def test_text_tokenized_by_a_job_of_its_own_is_what_training_finds(self):
        def files(folder):
            place = os.path.join(self.top, folder, 'tokens')
            found = {}
            for name in os.listdir(place):
                with open(os.path.join(place, name), 'rb') as file:
                    found[name] = (file.read(), os.stat(file.name).st_mtime_ns)
            return found
        held_out = os.path.join(self.top, 'held.jsonl')
        shutil.copy(self.lines, held_out)
        document = self.text_document(2, data__train=[self.lines, self.corpus], data__valid={'held': held_out})
        ahead = {key: document[key] for key in ('name', 'model', 'tokenizer', 'data', 'resources') if key in document}
        job = self.run_ahead({**ahead, 'kind': 'tokenize'}, os.path.join(self.top, 'a', 'x'))
        self.assertEqual(len(re.findall(' documents?, ', job.log())), 3)
        before = files('a')
        self.assertEqual(len([name for name in before if name.endswith('.idx')]), 3)
        trained = self.run_whole(2, 1, document, output=os.path.join(self.top, 'a', 'y'))
        self.assertEqual(files('a'), before, 'training wrote none again')
        alone = self.run_whole(3, 1, document, output=os.path.join(self.top, 'b', 'y'))
        self.assertEqual(alone.metrics(), trained.metrics())
        self.assertEqual({name: data for name, (data, _) in files('b').items()},
                         {name: data for name, (data, _) in before.items()})

    def run_ahead(self, document, output):
        """Runs a tokenize job: one process without ranks."""
        one = {**document, 'resources': {'nodes': 1, 'slots_per_node': 1}}
        return self.run_whole(9, 1, one, output=output, kind='tokenize')

    def test_a_document_that_memory_does_not_hold_is_one_sentence(self):
        large = os.path.join(self.top, 'large.jsonl')
        write_text(large, '{"text": "small"}\n{"text": "' + 'x y ' * (40 << 20) + '"}\n{"text": "small, too"}\n')

        def little_memory():
            resource.setrlimit(resource.RLIMIT_DATA, (600 << 20, 600 << 20))
        reason = 'line 2: has 160 MiB, which do not fit in memory'
        document = self.text_document(1, dp=1, data__train=[large], data__valid=0)
        self.refused(document, 2, reason, setup=little_memory)
        huge = os.path.join(self.top, 'huge.jsonl')
        with open(huge, 'wb') as file:
            file.write(b'{"text": "')
            file.truncate((1 << 30) + (100 << 20))
        document['data']['train'] = [huge]
        self.refused(document, 2, 'line 1: has 1124 MiB; allowed: at most 1 GiB')

    def test_a_stopped_job_resumes_bitwise_without_its_directory_and_texts(self):
        whole = self.run_whole(1, 1, self.text_document(12))
        first = Attempt(self, 2, 1, self.text_document(12, checkpoint__every=3))
        first.wait_step(5)
        for process in first.ranks:
            process.send_signal(signal.SIGTERM)
        self.assertEqual(first.wait(), [75, 75], first.log())
        shutil.rmtree(self.model)
        for text in (self.lines, self.corpus):
            os.remove(text)
        second = self.run_whole(2, 2, self.text_document(12, checkpoint__every=3), reversed(first.published[-2:]))
        self.assertEqual(second.metrics(), whole.metrics())
        self.assertEqual(second.weights(12), whole.weights(12))
        self.assertIn(f'\n{self.lines} no longer exists; the job uses the tokens that were made from this file\n',
                      '\n' + second.log())
        # A job in another folder that resumes this one also finds them.
        third = self.run_whole(3, 1, {**self.text_document(14), 'kind': 'resume'}, second.published[-1:],
                               kind='resume', output=os.path.join(self.top, 'elsewhere', 'job-3'))
        self.assertEqual(third.metrics()[-1]['step'], 14)
        self.refused(self.text_document(12), 2, f'{self.model} does not exist')

    def test_text_changed_at_the_same_size_and_time_is_noticed(self):
        document = self.text_document(2, dp=1, data__train=[self.lines])
        first = self.run_whole(1, 1, document)
        changed = {**self.text_document(3, dp=1, data__train=[self.lines]), 'kind': 'resume'}
        times = os.stat(self.lines)
        with open(self.lines, 'r+', encoding='utf-8') as file:
            text = file.read().replace('"id": 7,', '"id": 8,', 1)  # another file with the same tokens
            file.seek(0)
            file.write(text)
        os.utime(self.lines, ns=(times.st_atime_ns, times.st_mtime_ns))
        second = self.run_whole(2, 1, changed, first.published, kind='resume')
        self.assertIn(f'the content of {self.lines} has changed, although the file has the same size', second.log())
        self.assertNotIn('training continues on other data', second.log())

    def test_sizes_and_a_tokenizer_samples_and_another_dp(self):
        document = self.document(6, dp=1, tokenizer=self.model, data__train=[self.lines], train__precision='fp64',
                                 data__valid={'corpus': self.corpus, 'tail': 0.1},
                                 train__sample={'every': 3, 'prompts': ['the '], 'max_tokens': 5})
        del document['model']['vocab_size']
        one = self.run_whole(1, 1, document)
        samples = [row['text'] for row in one.metrics() if 'text' in row]
        self.assertEqual(len(samples), 2)
        document['resources']['slots_per_node'] = document['parallel']['dp'] = 2
        two = self.run_whole(2, 1, document)
        for mine, theirs in zip(two.metrics(), one.metrics(), strict=True):
            for key, value in theirs.items():
                if isinstance(value, float):
                    self.assertLess(abs(mine[key] - value), 1e-10 * abs(value) + 1e-14, (key, mine, theirs))
                else:  # integers and texts: steps, counted tokens, samples
                    self.assertEqual(mine[key], value, key)

    def renumbered(self, name, count):
        """Copies the model's tokenizer with other tokens for its last `count` ids."""
        folder = shutil.copytree(self.model, os.path.join(self.top, name))
        tokenizer = json_of(folder, 'tokenizer.json')
        first = 400 - count
        tokenizer['model']['vocab'] = {token: i if i < first else first + 399 - i
                                       for token, i in tokenizer['model']['vocab'].items()}
        write_text(os.path.join(folder, 'tokenizer.json'), json.dumps(tokenizer))
        return folder

    def test_a_tokenizer_that_is_not_the_models_is_told_or_refused(self):
        one = {'dp': 1, 'data__train': [self.lines]}
        own = self.run_whole(1, 1, self.text_document(2, **one))
        self.assertNotIn('warning: tokenizer', own.log())
        few, many = self.renumbered('few', 20), self.renumbered('many', 100)
        told = self.run_whole(2, 1, self.text_document(1, **one, tokenizer=few))
        self.assertIn(f'warning: tokenizer: {few} is not the tokenizer of the weights in {self.model}: '
                      '20 of 400 compared token ids', told.log())
        for other in (many, 'bytes'):
            self.refused(self.text_document(1, **one, tokenizer=other), 2,
                         f'tokenizer: {other} is not the tokenizer of the weights in {self.model}: ')
        # A resumed job is checked against its checkpoint.
        resume = {**self.text_document(3, **one, tokenizer=few), 'kind': 'resume'}
        told = self.run_whole(3, 1, resume, own.published, kind='resume')
        self.assertIn('compared token ids decode to different text in the two tokenizers', told.log())
        self.assertIn('another setting: tokenizer was ', told.log())
        resume['model'] = {'from': shutil.copytree(self.model, os.path.join(self.top, 'bare'))}
        os.remove(os.path.join(resume['model']['from'], 'tokenizer.json'))
        resume['tokenizer'] = many
        self.refused(resume, 2, f'is not the tokenizer of the weights in {own.published[-1][1]}: '
                     '100 of 400 compared token ids',
                     checkpoints=own.published, kind='resume')
        # Weights without a tokenizer accept any.
        resume['kind'] = 'train'
        self.run_whole(4, 1, resume)

    def test_a_token_file_that_does_not_fit_is_refused(self):
        one = {'dp': 1, 'data__train': [self.lines], 'data__valid': 0}
        self.run_whole(8, 1, self.text_document(1, **one))
        lines, one['data__train'] = one['data__train'], [self.token_file('lines') + '.bin']
        bare = shutil.copytree(os.path.join(self.made, 'other'), os.path.join(self.top, 'bare'))
        os.remove(os.path.join(bare, 'tokenizer.json'))
        small = self.text_document(1, **one, model={'from': bare}, tokenizer='bytes')
        self.refused(small, 2, "is outside the model's vocabulary of 300")
        with open(one['data__train'][0], 'r+b') as file:
            file.truncate(1001)
        self.refused(self.text_document(1, **one), 2, 'bytes per token')  # another attempt would read the same bytes
        self.refused(self.text_document(1, **{**one, 'data__train': lines}), 2,
                     'bytes, which is not a multiple of 2; delete this file and its .bin, and Roll creates both again')


if __name__ == '__main__':
    unittest.main()
