#!/usr/bin/env python3
"""Configurations of other trainers: each honoured key changes the plan, the training or what the entry names.

foreign_keys.json has, for each key that Roll honours, values that change something: in `keys` the keys of
trainer.json, in `pipelines` those of ROLL's pipelines, with WORKER for actor_train. `of` and `with` are the other
keys with which the value counts: those of a kind of configuration, and more. `shows` says where the change must be
seen:
    plan            in the output of `roll-rank plan`
    loss, valid     in the losses of the steps; in the losses of the validation data
    log             in the log of the training
    saved, files    in the steps of the checkpoints; in the files of the metrics
    job.KEY         in a key of the job which other programs than the trainer read
    refused         nowhere: Roll accepts only a value that changes nothing

The test trains or plans a share of the keys that must change the training or the plan (shares.py). Of the others, it
only sees that the key changes the job.
"""
import array
import concurrent.futures
import itertools
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

from ranks import RANK, RankCase

sys.path.append(str(pathlib.Path(__file__).resolve().parents[3]))
from shares import share  # noqa: E402

FOLDER = os.path.dirname(os.path.abspath(__file__))
TOP = os.path.abspath(os.path.join(FOLDER, '../../../..'))
ROLLCTL = os.path.join(os.path.dirname(RANK), 'rollctl')
CONFIG = {'model_name_or_path': 'model', 'stage': 'pt', 'finetuning_type': 'full', 'dataset': 'wiki', 'cutoff_len': 64,
          'output_dir': 'out', 'per_device_train_batch_size': 2, 'max_steps': 3, 'save_strategy': 'no'}
AXES = {'tensor_model_parallel_size', 'pipeline_model_parallel_size', 'context_parallel_size',
        'expert_model_parallel_size'}
# Keys of ROLL's pipelines that lead to keys of trainer.json without an effect, or with one on the remarks only
WITHOUT_EFFECT = {'resume_from_checkpoint', 'logging_steps', 'global_template'}
# How LLaMA-Factory names the fields of the files that write_data() makes
DATA_SETS = {
    'wiki': {'file_name': 'wiki.jsonl', 'columns': {'prompt': 'text', 'response': 'output'}},
    'books': {'file_name': 'books.jsonl', 'columns': {'prompt': 'text', 'response': 'output'}},
    'pairs': {'file_name': 'pairs.jsonl', 'ranking': True,
              'columns': {'prompt': 'prompt', 'chosen': 'chosen', 'rejected': 'rejected'}},
    'labelled': {'file_name': 'labelled.jsonl', 'columns': {'prompt': 'text', 'response': 'output', 'kto_tag': 'good'}},
    'chats': {'file_name': 'chats.jsonl', 'formatting': 'sharegpt', 'columns': {'messages': 'messages'},
              'tags': {'role_tag': 'role', 'content_tag': 'content', 'user_tag': 'user', 'assistant_tag': 'assistant'}}}


def write_rows(path, rows):
    with open(path, 'w', encoding='utf-8') as file:
        file.write(''.join(json.dumps(row) + '\n' for row in rows))


def write_data(folder):
    """Writes small data sets about numbers, and the file with which LLaMA-Factory describes them."""
    subprocess.run([os.path.join(TOP, 'examples/chat-data'), folder], check=True, capture_output=True)
    for name, step in (('wiki', 3), ('books', 7)):
        write_rows(f'{folder}/{name}.jsonl', ({'text': f'{i} and {step} is', 'output': f' {i + step}, after {i}'}
                                              for i in range(60)))
    write_rows(f'{folder}/pairs.jsonl', ({'prompt': f'{i} and 3 is', 'chosen': f' {i + 3}', 'rejected': ' not known'}
                                         for i in range(60)))
    write_rows(f'{folder}/labelled.jsonl', ({'text': f'{i} and 3 is', 'output': f' {i + i % 2}', 'good': i % 2 == 1}
                                            for i in range(60)))
    write_rows(f'{folder}/labels.jsonl', ({'prompt': f'{i} and 3 is', 'completion': f' {i + i % 2}',
                                           'label': i % 2 == 1} for i in range(60)))
    write_rows(f'{folder}/answers.jsonl', ({'prompt': f'{i} and 3 is', 'completion': f' {i + 3}'} for i in range(60)))
    write_rows(f'{folder}/more.jsonl', ({'prompt': f'{i} and 7 is', 'chosen': f' {i + 7}', 'rejected': ' no'}
                                        for i in range(40)))
    write_rows(f'{folder}/questions.jsonl', ({'q': f'{i} and 3', 'more': 'is', 'who': 'You add', 'a': f' {i + 3}',
                                              'other': f'{i} times 3'} for i in range(60)))
    with open(f'{folder}/dataset_info.json', 'w', encoding='ascii') as file:
        json.dump(DATA_SETS, file)


def write_adapter(folder, scale):
    """Writes a LoRA adapter of the query projections in PEFT's format."""
    os.makedirs(folder)
    with open(f'{folder}/adapter_config.json', 'w', encoding='ascii') as file:
        json.dump({'peft_type': 'LORA', 'task_type': 'CAUSAL_LM', 'r': 2, 'lora_alpha': 4, 'target_modules': ['q_proj'],
                   'use_rslora': False, 'use_dora': False, 'rank_pattern': {}, 'alpha_pattern': {},
                   'base_model_name_or_path': 'model'}, file)
    header, body = {}, b''
    for layer in range(4):
        for part, shape in (('A', [2, 32]), ('B', [32, 2])):
            data = array.array('f', [scale * (i % 7 - 3) for i in range(64)]).tobytes()
            header[f'base_model.model.model.layers.{layer}.self_attn.q_proj.lora_{part}.weight'] = {
                'dtype': 'F32', 'shape': shape, 'data_offsets': [len(body), len(body) + len(data)]}
            body += data
    head = json.dumps(header).encode()
    with open(f'{folder}/adapter_model.safetensors', 'wb') as file:
        file.write(len(head).to_bytes(8, 'little') + head + body)


def changed(config, key, value):
    """Returns the configuration with another value of a key. A dot leads to a key of an inner mapping."""
    first, _, rest = key.partition('.')
    return {**config, first: changed(config.get(first, {}), rest, value) if rest else value}


def found(seen, shows):
    """Returns the part of what is seen that has the name `shows`, such as `loss` or `job.checkpoint.keep`."""
    for key in shows.removeprefix('job.').split('.'):
        seen = seen.get(key, {})
    return seen


class Foreign(RankCase):

    def setUp(self):
        super().setUp()
        self.numbers = itertools.count(1)
        data, more, letters = (os.path.join(self.top, name) for name in ('data', 'more', 'letters'))
        os.makedirs(data)
        write_data(data)
        shutil.copytree(data, more)
        shutil.copy(f'{more}/books.jsonl', f'{more}/wiki.jsonl')
        shutil.copytree(data, letters)
        with open(f'{data}/tokenizer.json', encoding='utf-8') as file:
            tokenizer = json.load(file)
        vocab = tokenizer['model']['vocab']
        vocab['a'], vocab['i'] = vocab['i'], vocab['a']
        with open(f'{letters}/tokenizer.json', 'w', encoding='utf-8') as file:
            json.dump(tokenizer, file)
        for name, scale in (('adapter', 0.1), ('adapter/last', 0.3)):
            write_adapter(os.path.join(self.top, name), scale)
        talk = os.path.join(self.top, 'hub/datasets--Ann--talk/snapshots/c')
        for i, split in enumerate(('main/train', 'main/test', 'other/train')):
            os.makedirs(os.path.dirname(f'{talk}/{split}'), exist_ok=True)
            write_rows(f'{talk}/{split}.jsonl', [{'prompt': f'{i} and', 'completion': f' {j}'} for j in range(60)])
        with open(f'{talk}/README.md', 'w', encoding='ascii') as file:
            file.write('---\nconfigs:\n- config_name: main\n  data_dir: main\n'
                       '- config_name: other\n  data_dir: other\n---\n')
        for name, seed in (('model', 901), ('other', 902)):
            made = self.run_whole(seed, 1, self.document(1, dp=1, tokenizer=data, model__vocab_size=258,
                                                         model__num_hidden_layers=4, train__seed=seed))
            self.convert(made.published[-1][1], name)
            for file in ('tokenizer.json', 'tokenizer_config.json', 'chat_template.jinja'):
                shutil.copy(f'{data}/{file}', os.path.join(self.top, name))

    def job(self, config, ranks=1):
        """Returns the job of a configuration on a number of ranks; {'refused': why} if Roll refuses it."""
        # Without --slots, a job with one of these axes has the ranks that it needs.
        slots = [] if config.keys() & AXES else ['--slots', str(ranks)]
        with tempfile.NamedTemporaryFile('w', dir=self.top, suffix='.yaml') as file:
            json.dump({key: value for key, value in config.items() if value is not None}, file)
            file.flush()
            done = subprocess.run([ROLLCTL, 'submit', file.name, '--dry-run', '--json', *slots], capture_output=True,
                                  text=True, check=False, cwd=self.top, stdin=subprocess.DEVNULL,
                                  env={'PATH': '/usr/bin:/bin', 'HOME': self.top, 'HF_HUB_CACHE': self.top + '/hub',
                                       'ROLL_DIR': self.top + '/state'})
        if done.returncode:
            return {'refused': done.stdout + done.stderr}
        return json.loads(done.stdout)['jobs'][0]['document']

    def planned(self, document):
        # With a given speed, the plan does not measure the speed of this machine, which varies.
        train = {**document['train'], 'peak_tflops': 1}
        with tempfile.NamedTemporaryFile('w', dir=self.top) as file:
            json.dump({**document, 'train': train}, file)
            file.flush()
            done = self.rank('plan', '--spec', file.name, '--json')
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def trained(self, document):
        """Trains the job, and returns what people and other programs see of that."""
        run = self.run_whole(next(self.numbers), 1, document)
        rows = run.metrics()
        return {'loss': [row['loss'] for row in rows if 'loss' in row],
                'valid': [(row['step'], key, row[key]) for row in rows for key in row if key.startswith('valid_loss')],
                'saved': [step for step, _ in run.published], 'log': run.log().count('deterministic'),
                'files': sorted(name for name in os.listdir(run.output) if 'tensorboard' in name)}

    def seen(self, what):
        """Returns what is seen of a configuration: `what` is its JSON, the number of ranks, and whether the job is
        planned (plan), trained (run) or only written (job)."""
        config, ranks, way = what
        document = self.job(json.loads(config), ranks)
        if 'refused' in document or way == 'job':
            return document
        return {'plan': self.planned(document)} if way == 'plan' else self.trained(document)

    def test_each_honoured_key_changes_what_its_entry_names(self):
        with open(os.path.join(TOP, 'schemas/foreign/trainer.json'), encoding='utf-8') as file:
            keys = json.load(file)['keys']
        with open(os.path.join(TOP, 'schemas/foreign/pipeline.json'), encoding='utf-8') as file:
            of_pipelines = json.load(file)['keys']
        with open(os.path.join(FOLDER, 'foreign_keys.json'), encoding='utf-8') as file:
            table = json.load(file)
        self.assertEqual({entry['key'] for entry in table['keys']},
                         {key for key, entry in keys.items() if 'to' in entry or 'rule' in entry})
        self.assertEqual({entry['key'] for entry in table['pipelines']} | WITHOUT_EFFECT,
                         {key for key, entry in of_pipelines.items() if 'to' in entry or 'column' in entry})
        # Only a key that Roll honours changes the job.
        self.assertEqual(self.job({**CONFIG, 'ddp_timeout': 7}), self.job(CONFIG))
        entries = table['keys'] + table['pipelines']
        tried = set(share(range(len(entries))))
        pairs = []
        for number, entry in enumerate(entries):
            place = entry['shows'].split('.')
            way = {'refused': 'job'}.get(place[0], place[0] if place[0] in ('job', 'plan') else 'run')
            before = {**CONFIG, **table['kinds'].get(entry.get('of'), {}), **entry.get('with', {})}
            key = entry['key'].replace('WORKER', 'actor_train')
            kind = (2 if way == 'plan' else 1, way if number in tried else 'job')
            pairs.append([(json.dumps(config), *kind) for config in (before, changed(before, key, entry['value']))])
        wanted = list(dict.fromkeys(one for pair in pairs for one in pair))
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            seen = dict(zip(wanted, pool.map(self.seen, wanted)))
        for entry, (before, after) in zip(entries, pairs):
            with self.subTest(**entry):
                if entry['shows'] == 'refused':
                    self.assertNotIn('refused', seen[before])
                    self.assertIn('refused', seen[after])
                    continue
                self.assertNotIn('refused', seen[after])
                is_whole = after[-1] == 'job' and not entry['shows'].startswith('job.')
                one, other = (seen[what] if is_whole else found(seen[what], entry['shows'])
                              for what in (after, before))
                self.assertNotEqual(one, other)


if __name__ == '__main__':
    unittest.main()
