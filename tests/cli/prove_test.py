#!/usr/bin/env python3
"""`rollctl prove`: the layouts of the examples and of others are proven, bugs in the communication are found by the
tensor that they make wrong, and what `plan` refuses is refused in the same words.

usage: prove_test.py ROLLCTL          with roll-rank beside it
"""
import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

TOP = os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..'))
EXAMPLES = os.path.join(TOP, 'examples')
ROLLCTL = os.path.abspath(sys.argv.pop(1))
SMOLLM2 = {'model_type': 'llama', 'hidden_size': 576, 'num_hidden_layers': 30, 'vocab_size': 49152,
           'num_attention_heads': 9, 'num_key_value_heads': 3, 'intermediate_size': 1536, 'rope_theta': 100000,
           'tie_word_embeddings': True, 'max_position_embeddings': 8192, 'torch_dtype': 'bfloat16'}
RECORDS = {'questions': {'prompt': 'Why?', 'completion': 'Because.'}, 'books': {'body': 'Once.'},
           'poems': {'body': 'A rose.'}}


def setUpModule():  # noqa: N802
    """Makes a copy of the examples, with a little of the data and with the config of the model that they name."""
    global WORK  # noqa: PLW0603
    WORK = tempfile.mkdtemp(prefix='roll-prove-')
    for name in os.listdir(EXAMPLES):
        if name.endswith('.yaml'):
            shutil.copy(os.path.join(EXAMPLES, name), WORK)
    subprocess.run([os.path.join(EXAMPLES, 'chat-data'), os.path.join(WORK, 'data', 'chat')], check=True,
                   capture_output=True)
    with open(os.path.join(WORK, 'data', 'kjv.txt'), 'w', encoding='ascii') as file:
        file.write('In the beginning')
    for name, record in RECORDS.items():
        with open(os.path.join(WORK, 'data', name + '.jsonl'), 'w', encoding='ascii') as file:
            file.write(json.dumps(record) + '\n')
    model = os.path.join(WORK, 'models', 'SmolLM2-135M')
    os.makedirs(model)
    with open(os.path.join(model, 'config.json'), 'w', encoding='ascii') as file:
        json.dump(SMOLLM2, file)
    shutil.copy(os.path.join(WORK, 'data', 'chat', 'tokenizer.json'), model)


def tearDownModule():  # noqa: N802
    shutil.rmtree(WORK, ignore_errors=True)


def run(command, *words, plant=None, **variables):
    env = {'PATH': '/usr/bin:/bin', 'HOME': WORK, 'ROLL_DIR': WORK + '/state', 'OMP_NUM_THREADS': '1',
           **({'ROLL_PROVE_PLANT': plant} if plant else {}), **variables}
    return subprocess.run([ROLLCTL, command, *words], cwd=WORK, capture_output=True, text=True, check=False, env=env,
                          stdin=subprocess.DEVNULL)


def layout(**axes):
    """The options that give an example with one process another layout."""
    ranks = axes.get('dp', 1) * axes.get('tp', 1) * axes.get('pp', 1) * axes.get('cp', 1)
    pairs = {**{'parallel.' + key: value for key, value in axes.items()}, 'resources.slots_per_node': ranks}
    return [word for key, value in pairs.items() for word in ('--set', f'{key}={json.dumps(value).strip(chr(34))}')]


class ProveTest(unittest.TestCase):

    def proven(self, *words):
        done = run('prove', *words, '--json')
        self.assertEqual(done.returncode, 0, done.stderr + done.stdout)
        proof = json.loads(done.stdout)
        self.assertEqual((proof['schema'], proof['proven'], proof['differing']), ('roll.prove/1', True, 0))
        self.assertLess(proof['worst']['error'], proof['limit'])
        return proof

    def test_every_example_that_trains_is_proven(self):
        for name in sorted(os.listdir(WORK)):
            if not name.endswith('.yaml'):
                continue
            with open(os.path.join(WORK, name), encoding='utf-8') as file:
                text = file.read()
            if '\nkind: train\n' in text:  # of a chain, the first job is proven
                proof = self.proven(name)
                self.assertGreater(proof['tensors'], 100, name)
            else:
                self.assertEqual(run('prove', name).returncode, 2, name)

    def test_preferences_are_proven(self):
        with open(os.path.join(WORK, 'pairs.jsonl'), 'w', encoding='utf-8') as file:
            for i in range(100):
                pair = {'prompt': f'say {i} ', 'chosen': f'yes {i}', 'rejected': f'no {7 * i}'}
                file.write(json.dumps(pair) + '\n')
        for kind, axes in (('orpo', {'dp': 2, 'zero': 2}), ('simpo', {'dp': 1, 'tp': 2, 'sequence': True}),
                           ('cpo', {'dp': 1, 'pp': 2, 'recompute': 'full'})):
            proof = self.proven('kjv.yaml', *layout(**axes), '--set', f'objective={kind}', '--set',
                                'data.train=[pairs.jsonl]', '--set', 'train.micro_batch_size=4')
            self.assertGreater(proof['numbers'], 30, kind)  # with the sums over pairs
        with open(os.path.join(WORK, 'labelled.jsonl'), 'w', encoding='utf-8') as file:
            for i in range(100):
                file.write(json.dumps({'prompt': f'say {i} ', 'completion': f'yes {i}', 'label': i % 2 == 0}) + '\n')
        proof = self.proven('kjv.yaml', *layout(dp=2, tp=2, pp=2), '--set', 'objective={kind: kto, reference: '
                            'models/SmolLM2-135M}', '--set', 'data.train=[labelled.jsonl]', '--set',
                            'train.micro_batch_size=2')
        self.assertGreater(proof['numbers'], 30)

    def test_options_of_the_token_loss_are_proven(self):
        self.proven('kjv.yaml', *layout(dp=2, tp=2, sequence=True, zero=1), '--set', 'train.micro_batch_size=2',
                    '--set', 'objective={kind: pretrain, label_smoothing: 0.1, z_loss: 0.01, neftune_alpha: 5}')

    def test_other_layouts_are_proven(self):
        for file, axes in (('kjv.yaml', {'dp': 2, 'tp': 2, 'pp': 2, 'sequence': True}),
                           ('kjv.yaml', {'dp': 2, 'cp': 2, 'zero': 1}),
                           ('pipeline.yaml', {'pp': 2, 'vpp': 2, 'dp': 1, 'schedule': 'zb-v'}),
                           ('lora.yaml', {'dp': 2, 'tp': 3, 'zero': 2}),
                           ('smollm2.yaml', {'dp': 2, 'pp': 4, 'first_layers': 7, 'last_layers': 7, 'zero': 1})):
            words = layout(**axes)
            if file == 'kjv.yaml':
                words += ['--set', 'train.micro_batch_size=2']
            proof = self.proven(file, *words)
            for axis in ('dp', 'tp', 'pp', 'vpp', 'cp', 'zero', 'sequence', 'schedule'):
                if axis in axes:
                    self.assertEqual(proof['layout'][axis], axes[axis], (file, axis))
            cuts = {cut['key'] for cut in proof['cut']}
            self.assertIn('hidden_size', cuts)
            self.assertNotIn('parallel.tp', cuts)

    def test_a_wide_job_is_cut_and_says_so(self):
        wide = layout(dp=64, tp=4, pp=2, zero=1)
        proof = self.proven('kjv.yaml', *wide, '--set', 'train.global_batch_size=512', '--set',
                            'train.micro_batch_size=2')
        self.assertEqual([proof['layout'][axis] for axis in ('ranks', 'dp', 'tp', 'pp')], [16, 2, 4, 2])
        self.assertIn({'key': 'parallel.dp', 'from': 64.0, 'to': 2.0}, proof['cut'])

    def test_the_report_says_what_was_cut_and_compared(self):
        done = run('prove', 'pipeline.yaml')
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, r'^kjv-pipeline: proven\nlayout      dp 1 x pp 2 x tp 1 = 2 ranks, 1f1b; '
                                      r'micro-batches of a replica: 4; layers of the chunks: 2 x 1\n')
        self.assertRegex(done.stdout, r'\ncut         .*hidden_size 128 to 18')
        self.assertRegex(done.stdout, r'\ncompared    \d+ tensors and \d+ numbers of 3 steps and an evaluation')
        self.assertRegex(done.stdout, r'\nworst error \S+ \(step \d, ')

    def test_a_bug_is_found_and_its_tensor_named(self):
        words = ['pipeline.yaml', '--set', 'model.tie_word_embeddings=true']
        done = run('prove', *words, plant="drop|tied embedding's gradient")
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertTrue(done.stdout.startswith('kjv-pipeline: NOT proven\n'), done.stdout)
        self.assertRegex(done.stderr, r'roll-rank: .*: step 1, gradient of embedding\.word_embeddings\.weight, element '
                                      r'\[\d+,\d+\]: .*; error \d')
        proof = json.loads(run('prove', *words, '--json', plant='delay|activation').stdout)
        self.assertEqual((proof['proven'], proof['first']['step'], proof['first']['quantity']), (False, 1, 'loss'))
        self.assertGreater(proof['first']['error'], proof['limit'])
        self.assertEqual(run('prove', *words, plant='lose|everything').returncode, 2)
        done = run('prove', *words, plant='drop|partial gradients')
        self.assertEqual((done.returncode, done.stdout), (1, ''))
        self.assertIn('roll-rank: the planted bug changed nothing, because ', done.stderr)

    def test_each_of_eight_bugs_ends_with_1_and_names_its_tensor(self):
        words = ['kjv.yaml', *layout(dp=2, tp=2, pp=2), '--set', 'train.micro_batch_size=2', '--set',
                 'model.family=qwen3', '--set', 'model.tie_word_embeddings=true']
        embedding = 'embedding.word_embeddings.weight'
        for plant, quantity, tensor in (("drop|tied embedding's gradient", 'gradient', embedding),
                                        ("double|tied embedding's gradient", 'gradient', embedding),
                                        ('average|gradients', 'gradient', 'decoder.'),
                                        ('drop|partial gradients', 'gradient', 'decoder.layers.1.self_attention.'),
                                        ("drop|column input's gradient|0", 'gradient', 'decoder.layers.0.'),
                                        ('delay|gradient of an activation', 'gradient', 'decoder.layers.0.'),
                                        ('double|row output|1', 'loss', 'decoder.'),
                                        ('drop|loss and gradient norm||world', 'loss', embedding)):
            with self.subTest(plant):
                done = run('prove', *words, '--json', plant=plant)
                self.assertEqual(done.returncode, 1, done.stderr)
                proof = json.loads(done.stdout)
                self.assertEqual((proof['first']['step'], proof['first']['quantity']), (1, quantity))
                self.assertTrue(proof['first_tensor']['tensor'].startswith(tensor), proof['first_tensor'])
                self.assertIn(proof['first_tensor']['tensor'], done.stderr)

    def test_a_directory_for_temporary_files_that_does_not_exist_is_one_sentence(self):
        done = run('prove', 'kjv.yaml', TMPDIR=WORK + '/nowhere')
        self.assertEqual((done.returncode, done.stdout), (1, ''))
        self.assertRegex(done.stderr, r'the directory \S*/nowhere/roll-prove-\w+ cannot be made: No such file or '
                                      r'directory; set TMPDIR to another directory\n$')

    def test_a_layout_that_is_not_legal_is_refused_as_by_plan(self):
        for words in (layout(tp=3), layout(pp=3), layout(pp=2, vpp=2, schedule='1f1b'), layout(ep=2),
                      ['--set', 'train.global_batch_size=7']):
            proven, planned = run('prove', 'kjv.yaml', *words), run('plan', 'kjv.yaml', *words)
            self.assertEqual((proven.returncode, planned.returncode), (2, 2), proven.stdout)
            self.assertEqual(proven.stderr, planned.stderr)
            self.assertEqual(proven.stdout, '')


if __name__ == '__main__':
    unittest.main()
