#!/usr/bin/env python3
"""Tasks in lm-evaluation-harness' format: scores as by transformers, at layouts, at the end of a job; refusals."""
import contextlib
import csv
import json
import os
import random
import re
import shutil
import subprocess
import tempfile
import unittest

from ranks import ORACLE, ORACLES, RANK, SHORT, RankCase, json_of, text_of, write_corpus, write_text

TASK = '''task: words
dataset_path: json
dataset_kwargs: {data_files: {test: words.jsonl}}
test_split: test
output_type: multiple_choice
description: "Choose for {{kind}}. "
doc_to_text: "Q: {{question}}\\nA:"
doc_to_choice: "{{[right] + wrong}}"
doc_to_target: 0
metric_list: [{metric: acc}, {metric: acc_norm}]
'''
ARC_EASY = '''tag:
  - ai2_arc
task: arc_easy
dataset_path: allenai/ai2_arc
dataset_name: ARC-Easy
output_type: multiple_choice
training_split: train
validation_split: validation
test_split: test
doc_to_text: "Question: {{question}}\\nAnswer:"
doc_to_target: "{{choices.label.index(answerKey)}}"
doc_to_choice: "{{choices.text}}"
should_decontaminate: true
doc_to_decontamination_query: "Question: {{question}}\\nAnswer:"
metric_list:
  - metric: acc
    aggregation: mean
    higher_is_better: true
  - metric: acc_norm
    aggregation: mean
    higher_is_better: true
metadata:
  version: 1.0
'''


class TasksTest(RankCase):

    @classmethod
    def setUpClass(cls):
        cls.made = tempfile.mkdtemp(prefix='roll-tasks-')
        cls.addClassCleanup(shutil.rmtree, cls.made, ignore_errors=True)
        corpus = write_corpus(os.path.join(cls.made, 'corpus.txt'))
        script, model = os.path.join(ORACLES, 'hf_text.py'), os.path.join(cls.made, 'model')
        subprocess.run([ORACLE, script, 'make', model, corpus, 'bos=1'], check=True, capture_output=True)
        words = text_of(corpus).split(' ')
        draw = random.Random(5)
        for name, count in (('words', 12), ('known', 40)):
            with open(os.path.join(cls.made, name + '.jsonl'), 'w', encoding='utf-8') as file:
                for _ in range(count):
                    some = [' '.join(draw.choices(words, k=draw.randrange(1, 5))) for _ in range(5)]
                    file.write(json.dumps({'question': some[0], 'right': some[1], 'wrong': some[2:], 'kind': 'é ✓',
                                           'target': some[1]}) + '\n')
                if name == 'words':
                    cls.again(file)
        cls.task = cls.written('words.yaml', TASK)
        cls.field = cls.written('field.yaml', TASK.replace('words\n', 'fields\n', 1).replace(
            'doc_to_target: 0', 'doc_to_target: target').replace('description', 'doc_to_decontamination_query'))

    @staticmethod
    def again(file):
        """Writes a record twice, so that an example may be equal to a question that is not itself."""
        twice = {'question': 'the', 'right': 'word', 'wrong': ['of'], 'kind': 'é ✓', 'target': 'word'}
        file.write(2 * (json.dumps(twice) + '\n'))

    @classmethod
    def written(cls, name, text):
        path = os.path.join(cls.made, name)
        write_text(path, text)
        return path

    def eval(self, *words, env=None):
        return subprocess.run([RANK, 'eval', os.path.join(self.made, 'model'), *words], capture_output=True, text=True,
                              check=False, env=env)

    def eval_on_terminal(self, *words):
        """Returns what eval writes to stdout, and what a terminal as its stderr gets."""
        terminal, stderr = os.openpty()
        with open(stderr, 'wb') as file:
            done = subprocess.run([RANK, 'eval', os.path.join(self.made, 'model'), *words], stdout=subprocess.PIPE,
                                  text=True, stderr=file, check=False)
        shown = b''
        with open(terminal, 'rb', buffering=0) as file, contextlib.suppress(OSError):  # EIO is the end
            while part := file.read(4096):
                shown += part
        self.assertEqual(done.returncode, 0, shown)
        return done.stdout, shown

    def test_scores_and_examples_are_those_of_transformers_and_lm_evaluation_harness(self):
        base = TASK.replace('words.jsonl}', 'words.jsonl, known: known.jsonl}') + 'dataset_name: null\n'
        files = [self.task] + [
            self.written(f'shots{i}.yaml', base.replace('task: words', f'task: shots{i}') + more) for i, more in
            enumerate(('fewshot_split: known\nnum_fewshot: 3\n', 'fewshot_split: test\nnum_fewshot: 2\n',
                       'training_split: known\nnum_fewshot: 1\nfewshot_delimiter: " / "\n',
                       'num_fewshot: 2\nfewshot_config: {sampler: first_n, split: test, target_delimiter: ": "}\n'))]
        told, shown = self.eval_on_terminal('--data', self.corpus, '--log-probs', '--json',
                                            *(word for file in files for word in ('--task', file)))
        ours = json.loads(told)
        self.assertEqual(ours['schema'], 'roll.eval/1')
        mine = [ours['tasks'][name] for name in ('words', *(f'shots{i}' for i in range(4)))]
        self.assertEqual([one.get('num_fewshot', 0) for one in mine], [0, 3, 2, 1, 2])
        self.same_as_transformers(mine, files)
        self.assertGreater(ours['data'][self.corpus]['perplexity'], 1)
        # The progress, of which nothing stays
        self.assertRegex(shown, rb'^\rwords: 0 of \d\d choices\x1b\[K')
        self.assertRegex(shown, b'\r' + re.escape(self.corpus.encode()) + rb': 0 of \d+ windows\x1b\[K')
        self.assertTrue(shown.endswith(b'\r\x1b[K'), shown)
        self.assertIn('words: 14 questions, acc ', self.eval('--task', self.task).stdout)
        more = self.eval('--task', self.task, '--num-fewshot', '15')
        self.assertEqual(more.returncode, 2)
        self.assertIn('words.yaml: num_fewshot is 15, but only 14 records can be examples', more.stderr)

    def same_as_transformers(self, mine, tasks):
        theirs = json.loads(self.oracle('task_scores.py', os.path.join(self.made, 'model'), *tasks))
        for ours, other in zip(mine, theirs, strict=True):
            for one, two in zip(ours['log_probs'], other['log_probs'], strict=True):
                for a, b in zip(one, two, strict=True):
                    self.assertAlmostEqual(a, b, delta=1e-5 * abs(b))
            self.assertEqual((ours['acc'], ours['acc_norm']), (other['acc'], other['acc_norm']))

    def test_a_task_reads_a_data_set_of_the_hub_in_the_cache(self):
        """arc_easy.yaml of lm-evaluation-harness, with few questions in its data set."""
        cache = os.path.join(self.made, 'hub')
        of_split = os.path.join(cache, 'datasets--allenai--ai2_arc', 'snapshots', 'c1', 'ARC-Easy')
        os.makedirs(of_split)
        rows = [{'id': str(i), 'question': 'the ' * i + 'word',
                 'choices': {'text': ['of', 'and', 'in'], 'label': ['A', 'B', 'C']}, 'answerKey': 'ABC'[i % 3]}
                for i in range(6)]
        for path in (os.path.join(of_split, 'test-00000-of-00001.jsonl'), os.path.join(self.made, 'arc.jsonl')):
            with open(path, 'w', encoding='utf-8') as file:
                file.writelines(json.dumps(row) + '\n' for row in rows)
        files = [self.written('hub.yaml', ARC_EASY),
                 self.written('own.yaml', ARC_EASY.replace('allenai/ai2_arc', 'json').replace(
                     'dataset_name: ARC-Easy', 'dataset_kwargs: {data_files: {test: arc.jsonl}}'))]
        environment = dict(os.environ, HF_HUB_CACHE=cache)
        found = []
        for file in files:
            done = self.eval('--task', file, '--log-probs', '--json', env=environment)
            self.assertEqual(done.returncode, 0, done.stderr)
            found.append(json.loads(done.stdout)['tasks']['arc_easy'])
        self.assertEqual(found[0]['questions'], 6)
        self.assertEqual(found[0], found[1])
        done = self.eval('--task', files[0], env=dict(environment, HF_HUB_CACHE=self.made))
        self.assertEqual(done.returncode, 2)
        self.assertIn(f'hub.yaml: dataset_path is "allenai/ai2_arc", which is not in HuggingFace\'s cache {self.made}; '
                      'run: hf download --repo-type dataset allenai/ai2_arc', done.stderr)

    def test_a_job_measures_at_every_layout(self):
        found = []
        for job, layout in enumerate(({}, {'dp': 2, 'zero': 3}, {'tp': 2, 'sequence': True}, {'pp': 2}, {'cp': 2})):
            dp = layout.get('dp', 1)
            others = layout.get('tp', 1) * layout.get('pp', 1) * layout.get('cp', 1)
            document = self.document(4, dp=dp, **SHORT, train__precision='fp64',
                                     train__evaluation={'tasks': [self.task, self.field], 'every': 2},
                                     train__metrics={'csv': True},
                                     resources__slots_per_node=dp * others)
            document['parallel'] = {'dp': dp, **layout}
            run = self.run_whole(job, 1, document)
            found.append([row for row in run.metrics() if 'task_acc/words' in row])
            self.assertEqual([row['step'] for row in found[-1]], [2, 4])
            self.assertEqual(found[-1], found[0])
            with open(os.path.join(run.output, 'metrics.csv'), encoding='utf-8', newline='') as file:
                cells = [cell for cell in csv.DictReader(file) if cell['task_acc/words']]
            for key in ('task_acc/words', 'task_acc_norm/words', 'task_acc/fields'):
                self.assertEqual([float(cell[key]) for cell in cells], [row[key] for row in found[-1]])
            written = json_of(run.output, 'eval.json')
            self.assertEqual((written['schema'], written['step']), ('roll.eval/1', 4))
            self.assertEqual(written['tasks']['fields']['acc'], found[-1][-1]['task_acc/fields'])

    def test_refuses_in_one_sentence(self):
        for change, wanted in ((('output_type: multiple_choice', 'output_type: generate_until'),
                                'output_type is "generate_until"; allowed: multiple_choice'),
                               (('doc_to_target: 0', 'process_docs: f\ndoc_to_target: 0'),
                                'process_docs needs Python and is not supported; write the records'),
                               (('dataset_path: json', 'dataset_path: Rowan/hellaswag'),
                                'dataset_kwargs.data_files is not supported with a data set of the HuggingFace Hub'),
                               (('doc_to_target: 0', 'doc_to_target: !function a.b'), '!function needs Python'),
                               (('[right] + wrong', '[right]'), 'words.jsonl:1: has 1 choice; allowed: 2 or more'),
                               (('{metric: acc}', '{metric: f1}'), 'metric_list has "f1"; allowed: acc, acc_norm'),
                               (('doc_to_target: 0', 'doc_to_target: 0\nnum_fewshot: -1'),
                                'num_fewshot is -1; allowed: an integer from 0 to 1000'),
                               (('doc_to_target: 0', 'doc_to_target: 9\nnum_fewshot: 1'),
                                'its answer is not one of its choices'),
                               (('doc_to_target: 0', 'doc_to_target: 0\nfewshot_config: {samples: []}'),
                                'fewshot_config.samples is not supported')):
            done = self.eval('--task', self.written('bad.yaml', TASK.replace(*change)))
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn(wanted, done.stderr)
            self.assertEqual(done.stderr.count('\n'), 1)
        self.assertIn('nothing to measure', self.eval().stderr)

    def test_a_missing_file_has_the_exit_code_of_rollctl(self):
        for words in (('eval', 'none', '--data', self.task), ('eval', self.made, '--task', 'none'),
                      ('eval', self.made, '--data', 'none'), ('generate', 'none', 'In')):
            done = subprocess.run([RANK, *words], capture_output=True, text=True, check=False)
            self.assertEqual((done.returncode, done.stderr), (3, 'roll-rank: none does not exist\n'), words)


if __name__ == '__main__':
    unittest.main()
