#!/usr/bin/env python3
"""SmolLM2-135M is tuned on chats, learns preferences, is exported and spoken to, as one queued chain.

A rank of each training is killed on the way. Then the held-out loss must have fallen, DPO must have raised the held-out
accuracy of the preferences, and PEFT must compute with the adapter what transformers computes with the merged model.
`tests/run chat` runs this on two cores; build/test-results/chat.xml then has what it printed.

ROLL_CHAT_STEPS: steps of each training (default: 24).
"""
import json
import os
import subprocess
import sys
import unittest

from harness import ORACLE, RollTest

HERE = os.path.dirname(os.path.abspath(__file__))
TOP = os.path.abspath(os.path.join(HERE, '..', '..'))
FOLDER = os.path.join(TOP, 'build', 'chat')
STEPS = int(os.environ.get('ROLL_CHAT_STEPS', '24'))
PATIENCE_S = 1700
LOSS_FALLS_TO = 0.95  # share of the held-out loss before training
ACCURACY = 0.6  # held-out; 0.5 would be chance
QUESTION = 'What does the noun "astronomer" mean?'
PROMPT = f'<|im_start|>user\n{QUESTION}<|im_end|>\n<|im_start|>assistant\n'
KILL = 'test -e "$ROLL_OUTPUT/killed" || { touch "$ROLL_OUTPUT/killed"; kill -9 $PPID; }'

PEFT_LOGITS = '''
import json, sys, torch
from peft import PeftModel
from transformers import AutoModelForCausalLM, AutoTokenizer
base, adapter, merged, prompt = sys.argv[1:]
read = lambda path: AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32).eval()
ids = AutoTokenizer.from_pretrained(merged)(prompt, return_tensors='pt').input_ids
with torch.no_grad():
    plain = read(base)(ids).logits
    ours = read(merged)(ids).logits
    tuned = PeftModel.from_pretrained(read(base), adapter).eval()(ids).logits
size = tuned.abs().max()
print(json.dumps({'off': ((ours - tuned).abs().max() / size).item(),
                  'moved': ((plain - tuned).abs().max() / size).item()}))
'''


def prepare():
    """Makes the model and the data if they are missing. Returns their folders."""
    model, data = os.path.join(FOLDER, 'smollm2'), os.path.join(FOLDER, 'data')
    environment = {**os.environ, 'PYTHONPATH': os.path.join(TOP, '.deps', 'chat')}
    for script, folder, last in (('make_smollm2.py', model, 'tokenizer.json'),
                                 ('make_chat.py', data, 'preference.eval.jsonl')):
        if not os.path.exists(os.path.join(folder, last)):
            subprocess.run([ORACLE, os.path.join(HERE, 'chat', script), folder], check=True, env=environment)
    return model, data


class ChatChain(RollTest):

    def setUp(self):
        super().setUp()
        del self.env['OMP_NUM_THREADS']  # the one rank has all cores
        self.model, self.data = prepare()

    def first_records(self, name, most):
        """Writes the first records of a file of the data. Returns the new file."""
        with open(os.path.join(self.data, name), encoding='utf-8') as file:
            return self.write(name, ''.join(line for line, _ in zip(file, range(most))))

    def stage(self, name, base, objective, files, samples, held_out, lr):
        """Returns a LoRA job of the chain. Its first attempt is killed halfway, after the first checkpoint: an earlier
        kill would only repeat more steps."""
        return {
            'name': name, 'kind': 'train', 'resources': {'nodes': 1, 'slots_per_node': 1}, 'model': {'from': base},
            'data': {'train': [self.first_records(f'{files}.jsonl', 4000)],
                     'valid': {'held_out': self.first_records(f'{files}.eval.jsonl', held_out)}},
            'objective': objective,
            'train': {'seq_length': 256, 'global_batch_size': samples, 'micro_batch_size': 4, 'steps': STEPS, 'seed': 1,
                      'precision': 'fp32', 'valid_every': STEPS, 'valid_at_start': True,
                      'lora': {'r': 16, 'alpha': 32},
                      'optimizer': {'lr': lr, 'schedule': 'cosine', 'warmup_steps': STEPS // 10, 'weight_decay': 0.0},
                      'hooks': {'save': {'command': ['sh', '-c', KILL], 'wait': True}}},
            'checkpoint': {'every': STEPS // 2, 'keep': 1},
            'export': {'merge': True, 'dtype': 'fp32'}}

    def answer(self, model):
        return self.ctl('generate', model, PROMPT, '--max-tokens', '40').stdout

    def test_the_chain_tunes_prefers_exports_and_speaks_although_ranks_die(self):
        self.up(slots=1)
        chain = self.stage('tuned', self.model, 'sft', 'sft', 4, 24, 5e-4)
        speak = ['rollctl', 'generate', '{prefers.result}', PROMPT, '--max-tokens', '40']
        chain['then'] = [self.stage('prefers', '{tuned.result}', 'dpo', 'preference', 8, 40, 1e-4),
                         {'name': 'speaks', 'kind': 'command', 'command': speak}]
        tuned, prefers, speaks = self.ctl('submit', '--parsable',
                                          self.write('chain.yaml', json.dumps(chain))).stdout.split()
        print('before training:', self.answer(self.model))
        self.assertEqual(self.ctl('wait', f'{tuned}-{speaks}', timeout=PATIENCE_S, check=False).returncode, 0)
        losses = self.held_out(tuned, 'valid_loss')
        self.assertLess(losses[-1], LOSS_FALLS_TO * losses[0])
        losses = self.held_out(prefers, 'valid_loss')
        self.assertLess(losses[-1], LOSS_FALLS_TO * losses[0])
        accuracies = self.held_out(prefers, 'valid_rewards/accuracies')
        self.assertGreater(accuracies[-1], max(accuracies[0], ACCURACY))
        said = self.ctl('logs', speaks).stdout
        print('after training:', said)
        self.assertIn(QUESTION, said)
        self.expect_peft(self.model, tuned)

    def held_out(self, job, key):
        """Returns the values of a validation's key, of a job that was killed once."""
        self.assertEqual(self.show(job)['attempt'], 2)
        values = [row[key] for row in self.metrics(job) if key in row]
        print(self.show(job)['name'], key, *(f'{value:.4f}' for value in values))
        return values

    def expect_peft(self, base, job):
        """Expects that PEFT computes with the job's adapter what transformers computes with the merged model."""
        newest = max(self.show(job)['checkpoints'], key=lambda checkpoint: checkpoint['step'])
        self.ctl('convert', newest['directory'], 'adapter', '--to', 'peft')
        merged = os.path.join(self.output(job), 'export', 'hf')
        told = subprocess.run([ORACLE, '-c', PEFT_LOGITS, base, os.path.join(self.work, 'adapter'), merged, PROMPT],
                              check=True, capture_output=True, text=True).stdout
        print('logits, relative to the largest:', told)
        told = json.loads(told)
        self.assertLess(told['off'], 1e-4)
        self.assertGreater(told['moved'], 1e-2)


if __name__ == '__main__':
    if not os.path.exists(ORACLE):
        sys.exit('chat_chain.py needs a Python with torch, transformers and peft: set ROLL_ORACLE_PYTHON')
    unittest.main()
