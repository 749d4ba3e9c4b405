#!/usr/bin/env python3
"""What is wrong with the model that a job starts from is said by `submit`, all of it, before a daemon is asked.

usage: model_check_test.py ROLLCTL
"""
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

TOP = os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..'))
sys.path.append(os.path.join(TOP, 'tests', 'oracle'))
from tiny_hf import write_llama  # noqa: E402

from hub_cache import hub_cache  # noqa: E402

ROLLCTL = sys.argv.pop(1)


def write_tokenizer(folder, size):
    vocab = {chr(0x4e00 + i): i for i in range(size)}
    with open(os.path.join(folder, 'tokenizer.json'), 'w', encoding='utf-8') as file:
        json.dump({'version': '1.0', 'added_tokens': [], 'normalizer': None, 'pre_tokenizer': None, 'decoder': None,
                   'post_processor': None, 'model': {'type': 'BPE', 'vocab': vocab, 'merges': []}}, file)


class ModelCheck(unittest.TestCase):

    def setUp(self):
        self.work = tempfile.mkdtemp(prefix='roll-models-')
        self.addCleanup(shutil.rmtree, self.work, ignore_errors=True)
        self.env = {'PATH': '/usr/bin:/bin', 'ROLL_DIR': self.work + '/state', 'HOME': self.work}
        with open(os.path.join(self.work, 'text.txt'), 'w', encoding='utf-8') as file:
            file.write('In the beginning')

    def model(self, name, change=None, ids=200, **config):
        """A directory with a model of 512 rows and 2048 positions, and what is changed in it."""
        folder = os.path.join(self.work, name)
        write_llama(folder)
        path = os.path.join(folder, 'config.json')
        with open(path, encoding='utf-8') as file:
            whole = {**json.load(file), **config}
        with open(path, 'w', encoding='utf-8') as file:
            json.dump(whole, file)
        write_tokenizer(folder, ids)
        if change:
            change(folder)
        return name

    def submit(self, documents):
        path = os.path.join(self.work, 'job.json')
        with open(path, 'w', encoding='utf-8') as file:
            file.write('\n'.join(json.dumps(document) for document in documents))
        return self.run_ctl('submit', '--dry-run', path)

    def run_ctl(self, *words):
        return subprocess.run([ROLLCTL, *words], cwd=self.work, capture_output=True, text=True,
                              stdin=subprocess.DEVNULL, check=False, env=self.env)

    def job(self, model, seq_length=32, **changes):
        return {'name': 'x', 'kind': 'train', 'model': model, 'data': {'train': ['text.txt']},
                'train': {'seq_length': seq_length, 'global_batch_size': 2, 'micro_batch_size': 1, 'steps': 3},
                **changes}

    def problems(self, *documents):
        """The lines below the first; nothing if the jobs may be queued."""
        done = self.submit(documents)
        if done.returncode == 0:
            return []
        self.assertEqual(done.returncode, 2, done.stderr)
        lines = [re.sub(r'^line \d+: ', '', line.strip()) for line in done.stderr.splitlines()]
        return [line for line in lines if 'cannot be queued:' not in line]

    def test_a_good_model_is_queued(self):
        good = {'from': self.model('good'), 'freeze': ['decoder.layers.[0-2].*', 'embedding.*']}
        self.assertEqual(self.problems(self.job(good)), [])
        self.assertEqual(self.problems(self.job({**good, 'vocab_size': 576}, tokenizer='bytes')), [])
        self.assertEqual(self.problems({**self.job(good), 'kind': 'tokenize'}), [])

    def test_a_pipeline_schedule_is_checked(self):
        model = self.model('staged')

        def found(text, named='mine.csv'):
            with open(os.path.join(self.work, 'mine.csv'), 'w', encoding='utf-8') as file:
                file.write(text)
            return self.problems(self.job({'from': model}, resources={'nodes': 1, 'slots_per_node': 2},
                                          parallel={'dp': 1, 'pp': 2, 'schedule_file': named}))
        self.assertEqual(found('0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n'), [])
        self.assertRegex('\n'.join(found('0F0,0F1,0B0,0B1\n1F0,1B0,1F1\n')),
                         r'parallel\.schedule_file is /\S+/mine\.csv, which cannot be used: rank 1, B1: this operation '
                         r'is missing')
        self.assertRegex('\n'.join(found('', 'missing.csv')), r'parallel\.schedule_file .*/missing\.csv')

    def test_experts_are_refused_on_gpus_but_not_for_a_count_of_0(self):
        sizes = {'family': 'qwen3_moe', 'hidden_size': 32, 'num_hidden_layers': 2, 'num_attention_heads': 2,
                 'intermediate_size': 32, 'num_experts': 4, 'num_experts_per_tok': 2, 'moe_intermediate_size': 16}
        job = self.job(sizes, tokenizer='bytes', resources={'slots_per_node': 1, 'gpus_per_node': 0})
        self.assertEqual(self.problems(job), [])
        job['resources'] = {'gpus_per_node': 1}
        self.assertIn('not been trained on GPUs yet', self.problems(job)[0])

    def test_all_of_a_model_is_told_at_once(self):
        def cut(folder):
            path = os.path.join(folder, 'model.safetensors')
            os.truncate(path, os.path.getsize(path) - 1)
        name = self.model('cut', cut, ids=600, max_position_embeddings=16)
        found = self.problems(self.job({'from': name, 'freeze': ['decoder.layer.*']}, parallel={'dp': 3}))
        whole = '\n'.join(found)
        self.assertEqual(len(found), 5, whole)
        self.assertRegex(whole, r'parallel dp 3 ')
        self.assertIn('train.global_batch_size is 2; allowed: a multiple of micro_batch_size 1 x dp 3 = 3', whole)
        self.assertRegex(whole, r'model\.from is /\S+/cut: /\S+/cut/model\.safetensors')
        self.assertRegex(whole, r"tokenizer has ids up to 599, but the model's embedding has 512 rows")
        self.assertIn("train.seq_length is 32; allowed: at most 16, the model's max_position_embeddings", whole)

    def test_the_model_below_a_directory_is_named(self):
        self.model('runs/kjv-1/export/hf')
        for given in ('runs/kjv-1', 'runs/kjv-1/export'):
            told = '\n'.join(self.problems(self.job({'from': given})))
            self.assertRegex(told, rf'{given} is not a known checkpoint format.*; did you mean /\S+/kjv-1/export/hf\?')
        for name in ('step-00000090.1-1', 'step-00000100.1-1', 'step-last'):
            os.makedirs(os.path.join(self.work, 'runs/kjv-2/checkpoints', name))
        told = '\n'.join(self.problems(self.job({'from': 'runs/kjv-2/checkpoints'})))
        self.assertRegex(told, r'did you mean /\S+/checkpoints/step-00000100\.1-1\?')
        os.makedirs(os.path.join(self.work, 'empty'))
        self.assertNotIn('did you mean', '\n'.join(self.problems(self.job({'from': 'empty'}))))

    def test_a_pattern_of_the_weight_decay_matches_a_parameter(self):
        job = self.job({'from': self.model('decayed')})
        job['train']['optimizer'] = {'decays': {'*norm*': True, 'embed.*': False}}
        found = self.problems(job)
        self.assertEqual(len(found), 1, found)
        self.assertIn('train.optimizer.decays has embed.*, which matches no parameter; parameters are', found[0])
        job['train']['optimizer'] = {'decays': {'*norm*': True}}
        self.assertEqual(self.problems(job), [])

    def test_a_larger_vocabulary_is_not_advised_where_it_is_refused(self):
        job = self.job({'from': self.model('few', ids=600)})
        self.assertIn('or set model.vocab_size 640', '\n'.join(self.problems(job)))
        job['train']['lora'] = {'r': 4}
        told = '\n'.join(self.problems(job))
        self.assertIn("use the model's own tokenizer", told)
        self.assertNotIn('model.vocab_size', told)

    def test_an_adapter_must_fit_the_model(self):
        job = self.job({'from': self.model('base')})
        for lora, says in (({'targets': ['q_proj', 'wq']}, 'train.lora.targets has wq, which matches no linear layer'),
                           ({'layers': [0, 9]}, 'train.lora.layers has 9; allowed: 0 to'),
                           ({'dropout': 1.5}, 'train.lora.dropout is 1.5; allowed: a number, at least 0, below 1'),
                           ({'from': 7}, 'train.lora.from is 7; allowed: a string'),
                           ({'from': '/nowhere'}, 'train.lora.from is /nowhere, which does not exist')):
            job['train']['lora'] = lora
            found = self.problems(job)
            self.assertEqual(len(found), 1, found)
            self.assertIn(says, found[0])

    def test_each_has_one_sentence(self):
        def lose(folder):
            os.rename(os.path.join(folder, 'model.safetensors'), os.path.join(folder, 'one.safetensors'))
            with open(os.path.join(folder, 'model.safetensors.index.json'), 'w', encoding='utf-8') as file:
                json.dump({'weight_map': {'model.norm.weight': 'one.safetensors',
                                          'lm_head.weight': 'two.safetensors'}}, file)

        def break_config(folder):
            with open(os.path.join(folder, 'config.json'), 'w', encoding='utf-8') as file:
                file.write('{')

        def garble(folder):
            with open(os.path.join(folder, 'tokenizer.json'), 'r+', encoding='utf-8') as file:
                file.truncate(50)

        def untokenize(folder):
            os.unlink(os.path.join(folder, 'tokenizer.json'))
        good = self.model('good')
        large = os.path.join(self.work, 'large')
        os.makedirs(large)
        write_tokenizer(large, 600)
        cases = [
            (r'model\.from is \S+: .*two\.safetensors, which does not exist', {'from': self.model('lost', lose)}, {}),
            (r'model\.from is \S+: .*config\.json', {'from': self.model('broken', break_config)}, {}),
            (r'model\.from is \S+: no family file covers odd', {'from': self.model('odd', model_type='odd')}, {}),
            (r'model\.from is \S+: .*the config says', {'from': self.model('other', intermediate_size=64)}, {}),
            (r'model\.from is \S+: the trainer does not build models with attention_dropout 0\.5',
             {'from': self.model('dropout', attention_dropout=0.5)}, {}),
            (r'tokenizer cannot be used: \S+ has no tokenizer\.json', {'from': self.model('mute', untokenize)}, {}),
            (r'tokenizer cannot be used: \S+/tokenizer\.json is not a JSON object',
             {'from': self.model('torn', garble)}, {}),
            (r'model\.freeze\[0\] is decoder\.layers\.7\.\*, which matches no parameter; parameters are named',
             {'from': good, 'freeze': ['decoder.layers.7.*']}, {}),
            (r'model\.freeze freezes all parameters', {'from': good, 'freeze': ['*']}, {}),
            (r'model\.vocab_size is 500; allowed: at least 512', {'from': good, 'vocab_size': 500}, {}),
            (r'tokenizer has ids up to 599', {'from': good}, {'tokenizer': 'large'}),
            (r'model\.vocab_size is 576; allowed: at least 600', {'from': good, 'vocab_size': 576},
             {'tokenizer': 'large'}),
            (r'train\.seq_length is 4096; allowed: at most 2048', {'from': good}, {'seq_length': 4096}),
            (r'objective sft needs \.jsonl, \.json or \.parquet files', {'from': good}, {'objective': 'sft'}),
        ]
        for pattern, model, changes in cases:
            found = self.problems(self.job(model, **changes))
            self.assertEqual(len(found), 1, found)
            self.assertRegex(found[0], pattern)
        sizes = {'family': 'llama', 'hidden_size': 32, 'intermediate_size': 64, 'num_hidden_layers': 2,
                 'num_attention_heads': 2}
        for pattern, model, changes in [
                (r'^model\.family is lama: no family file covers lama; known: .*llama',
                 {**sizes, 'family': 'lama'}, {}),
                (r'^model\.sliding_window is 8, but family llama has no config key sliding_window; remove it',
                 {**sizes, 'sliding_window': 8}, {}),
                (r'model\.freeze\[1\] is x\*', {**sizes, 'freeze': ['embedding*', 'x*']}, {}),
                (r'model\.vocab_size is 300; allowed: at least 600', {**sizes, 'vocab_size': 300},
                 {'tokenizer': 'large'}),
                (r'train\.seq_length is 4096; allowed: at most 2048', sizes, {'seq_length': 4096})]:
            found = self.problems(self.job(model, **changes))
            self.assertEqual(len(found), 1, found)
            self.assertRegex(found[0], pattern)

    def test_a_problem_is_one_line_and_a_long_word_keeps_its_mark(self):
        job = self.job({'family': 'llama', 'hidden_size': 32, 'intermediate_size': 64, 'num_hidden_layers': 2,
                        'num_attention_heads': 2})
        for word, shown in (('a\nb', r'a\\nb'), ('y' * 2000, r'y{60}\.\.\. \(2001 bytes\)')):
            found = self.problems({**job, 'data': {'train': ['text.txt'], 'track': word}})
            self.assertEqual(len(found), 1, found)
            self.assertRegex(found[0], f'^data\\.track is {shown}; allowed: no value, because data.valid has no')

    def test_settings_are_those_of_the_adapter_that_an_option_names(self):
        job = self.job({'from': self.model('base')})
        job['train']['lora'] = {'from': 'first'}
        for name, rank in (('first', 4), ('other', 16)):
            os.mkdir(os.path.join(self.work, name))
            with open(os.path.join(self.work, name, 'adapter_config.json'), 'w', encoding='utf-8') as file:
                json.dump({'peft_type': 'LORA', 'r': rank, 'lora_alpha': 8, 'target_modules': ['q_proj']}, file)
        path = os.path.join(self.work, 'job.json')
        with open(path, 'w', encoding='utf-8') as file:
            json.dump(job, file)
        for option, shown in (('from=other', 'r 16, alpha 8, targets ["q_proj"], as in the adapter other'),
                              ('r=4', 'alpha 8, targets ["q_proj"], as in the adapter first')):
            done = self.run_ctl('submit', '--dry-run', path, '--set', 'train.lora.' + option)
            self.assertEqual(json.loads(done.stdout)['notes'], ['train.lora: ' + shown], done.stderr)
        done = self.run_ctl('submit', '--dry-run', path, '--set', 'train.lora.r=5')
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn('train.lora.r is 5; allowed: 4, as in the adapter first from which', done.stderr)

    def test_a_wrong_option_is_named_with_its_value(self):
        for words, message in ((['--time', '5'], '--time is 5; allowed: a duration such as '),
                               (['--time', '5m', '--idle', '9'], '--idle is 9; allowed: a duration such as '),
                               (['--time', '5m', '--min-utilization', '2'],
                                '--min-utilization is 2; allowed: 0 to 1\n')):
            done = self.run_ctl('alloc', 'add', 'q', *words)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertTrue(done.stderr.startswith('rollctl: ' + message), done.stderr)

    def test_every_example_is_accepted(self):
        """Each as it stands, beside small files and a small model in the places that it names."""
        for folder in ('gang', 'mpi', 'trainer'):
            shutil.copytree(os.path.join(TOP, 'examples', folder), os.path.join(self.work, folder))
        for name in sorted(os.listdir(os.path.join(TOP, 'examples'))):
            if not name.endswith('.yaml'):
                continue
            shutil.copy(os.path.join(TOP, 'examples', name), self.work)
            with open(os.path.join(self.work, name), encoding='utf-8') as file:
                text = file.read()
            for model in set(re.findall(r'from: (models/[\w.-]+)', text)):
                if not os.path.exists(os.path.join(self.work, model)):
                    self.model(model)
            for path in set(re.findall(r'data/[\w.-]+\.(?:jsonl|txt)', text)):
                os.makedirs(os.path.join(self.work, 'data'), exist_ok=True)
                with open(os.path.join(self.work, path), 'w', encoding='utf-8') as file:
                    file.write('\n')
            if name in ('chat.yaml', 'distill.yaml', 'dpo.yaml'):
                subprocess.run([os.path.join(TOP, 'examples', 'chat-data'), os.path.join(self.work, 'data', 'chat')],
                               check=True)
            done = self.run_ctl('submit', '--dry-run', name)
            self.assertEqual(done.returncode, 0, done.stderr)
            document = json.loads(done.stdout)['jobs'][0]['document']
            if document['kind'] != 'train':
                continue
            keeps = document['checkpoint'].get('keep_best', False)
            self.assertEqual(document['export']['of'], 'best' if keeps else 'last')

    def test_the_family_of_the_documentation_is_whole_and_trains(self):
        with open(os.path.join(TOP, 'docs', 'families.md'), encoding='utf-8') as file:
            blocks = [json.loads(block) for block in re.findall(r'```json\n(.*?)```', file.read(), re.S)]
        family, = [block for block in blocks if 'family' in block]
        os.makedirs(os.path.join(self.work, 'families'))
        path = os.path.join(self.work, 'families', 'mini.json')
        with open(path, 'w', encoding='utf-8') as file:
            json.dump(family, file)
        checked = self.run_ctl('families', 'check', path)
        self.assertEqual(checked.returncode, 0, checked.stderr)
        self.env['ROLL_FAMILIES'] = os.path.dirname(path)
        self.assertEqual(self.problems(self.job({'from': self.model('mini', model_type='mini',
                                                                    max_position_embeddings=64)})), [])
        sizes = {'hidden_size': 32, 'intermediate_size': 64, 'num_hidden_layers': 2, 'num_attention_heads': 2}
        self.assertEqual(self.problems(self.job({'family': 'mini', **sizes})), [])

    @unittest.skipUnless(os.path.exists(os.path.join(os.path.dirname(ROLLCTL), 'roll-parquet')), 'no roll-parquet')
    def test_a_parquet_of_the_hubs_cache_is_read(self):
        """The cache as `hf download` writes it: a .parquet is a link to a file without this extension."""
        rows = os.path.join(TOP, 'tests', 'worker', 'parquet', 'rows.parquet')
        file = hub_cache(os.path.join(self.work, 'hub'), 'Ann/talk', 'data/train-00000-of-00001.parquet', rows)
        self.env['HF_HUB_CACHE'] = os.path.join(self.work, 'hub')
        job = {**self.job({'from': self.model('good')}), 'objective': 'sft', 'data': {'train': ['Ann/talk']}}
        self.assertRegex(self.problems(job)[-1],
                         rf'^data\.train\[0\] is {re.escape(file)}, which has conversations, and \S+/good has no chat')
        job['objective'] = 'dpo'
        self.assertIn('whose first record is refused: has no field "chosen"', self.problems(job)[-1])
        with open(os.path.join(self.work, 'good', 'chat_template.jinja'), 'w', encoding='utf-8') as template:
            template.write('{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}')
        self.assertEqual(self.problems({**job, 'objective': 'sft'}), [])

    def test_every_job_of_every_file_is_looked_at(self):
        good, short = self.model('good'), self.model('short', max_position_embeddings=16)
        self.assertEqual(len(self.problems(self.job({'from': short}), self.job({'from': short}))), 2)
        chain = {**self.job({'from': good}), 'then': [{**self.job({'from': short}), 'name': 'y'}]}
        self.assertRegex(self.problems(chain)[0], r'^then\[0\]\.train\.seq_length is 32; allowed: at most 16')

    def test_a_resumed_job_needs_its_checkpoint_alone(self):
        def cut(folder):
            os.truncate(os.path.join(folder, 'model.safetensors'), 9)
        resumed = {**self.job({'from': self.model('gone', cut)}), 'kind': 'resume', 'resume': {'job': 3}}
        self.assertEqual(self.problems(resumed), [])


if __name__ == '__main__':
    unittest.main()
