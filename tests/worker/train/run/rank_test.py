#!/usr/bin/env python3
"""roll-rank as real processes: trains, saves, stops, resumes bitwise, fails in one sentence."""
import array
import json
import math
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import zipfile

RANK = os.path.abspath(sys.argv.pop(1)) if len(sys.argv) > 1 else 'roll-rank'
CONVERT = os.path.join(os.path.dirname(RANK), 'roll-convert')
CONVERT = CONVERT if os.path.exists(CONVERT) else ''
ORACLE = os.environ.get('ROLL_ORACLE_PYTHON', '')
HF_START = os.path.join(os.path.dirname(os.path.abspath(__file__)), '../../../oracle/hf_start.py')
PATIENCE_S = 120
TIMES = ('tokens_per_second', 'tflops', 'data_wait_seconds', 'eta_seconds', 'time')

# What a validation is: the tail of round(fraction * size) bytes, cut into windows of seq_length inputs
# (the last may be shorter), every token but the tail's first predicted once.
BITS_PER_BYTE = '''
import math, sys, torch
from transformers import AutoModelForCausalLM
model = AutoModelForCausalLM.from_pretrained(sys.argv[1], dtype=torch.float32).eval()
text = open(sys.argv[2], 'rb').read()
tail = list(text[len(text) - math.floor(float(sys.argv[3]) * len(text) + 0.5):])
length, nll, count = int(sys.argv[4]), 0.0, 0
with torch.no_grad():
    for begin in range(0, len(tail) - 1, length):
        window = torch.tensor(tail[begin:begin + length + 1])
        logp = model(window[None, :-1]).logits[0].double().log_softmax(-1)
        nll -= float(logp.gather(1, window[1:, None]).sum())
        count += len(window) - 1
print(nll / count / math.log(2))
'''


class Attempt:
    """The ranks of one launch, and a stand-in for roll-worker: publishes and records checkpoints."""

    def __init__(self, test, job, attempt, document, checkpoints=(), output=None, record=True, kind='train',
                 setup=None):
        self.output = output or os.path.join(test.top, f'job-{job}')
        self.record = record
        logs = os.path.join(self.output, 'logs', f'attempt-{attempt}')
        os.makedirs(logs, exist_ok=True)
        world = document['resources']['slots_per_node']
        launch = {'v': 1, 'attempt': {'job': job, 'token': f'1-{attempt}'}, 'kind': kind,
                  'document': json.dumps(document), 'output': self.output, 'logs': logs, 'nodes': 1, 'node_rank': 0,
                  'ranks_per_node': world, 'gpus': [], 'nonce': f'nonce{job}x{attempt}',
                  'checkpoints': [{'step': step, 'directory': path, 'deleted': False} for step, path in checkpoints]}
        self.launch = os.path.join(logs, 'launch-0.json')
        with open(self.launch, 'w', encoding='utf-8') as file:
            json.dump(launch, file)
        self.reports, self.ranks, self.threads, self.published = [], [], [], []
        for rank in range(world):
            self.start(rank, os.path.join(logs, f'rank-{rank}.log'), setup)
        test.addCleanup(self.kill)

    def start(self, rank, log, setup):
        up, down = os.pipe()

        def child():
            os.dup2(down, 3)
            if setup:
                setup()
        with open(log, 'wb') as out:
            process = subprocess.Popen([RANK, '--launch', self.launch, '--rank', str(rank)], stdin=subprocess.PIPE,
                                       stdout=out, stderr=out, close_fds=False, preexec_fn=child,
                                       env={'PATH': '/usr/bin:/bin', 'OMP_NUM_THREADS': '1'})
        os.close(down)
        self.ranks.append(process)
        self.threads.append(threading.Thread(target=self.listen, args=(rank, up)))
        self.threads[-1].start()

    def listen(self, rank, fd):
        with os.fdopen(fd, encoding='utf-8') as lines:
            for line in lines:
                report = json.loads(line)
                if report['t'] == 'checkpoint':
                    self.publish(report)
                self.reports.append((rank, report))

    def publish(self, report):
        staged = report['directory']
        final = os.path.join(os.path.dirname(staged), os.path.basename(staged)[1:])
        os.rename(staged, final)
        self.published.append((report['step'], final))
        if self.record:
            self.say(0, {'t': 'recorded', 'step': report['step']})

    def say(self, rank, command):
        try:
            self.ranks[rank].stdin.write((json.dumps(command) + '\n').encode())
            self.ranks[rank].stdin.flush()
        except OSError:
            pass

    def kill(self):
        for process in self.ranks:
            if process.poll() is None:
                process.kill()
        self.wait()

    def wait(self):
        codes = [process.wait(PATIENCE_S) for process in self.ranks]
        for thread in self.threads:
            thread.join()
        for process in self.ranks:
            try:
                process.stdin.close()
            except OSError:
                pass
        return codes

    def wait_step(self, step):
        deadline = time.monotonic() + PATIENCE_S
        while not any(row.get('step', 0) >= step for row in self.metrics()):
            if time.monotonic() > deadline or self.ranks[0].poll() is not None:
                raise AssertionError(f'never came to step {step}: {self.log()}')
            time.sleep(0.01)

    def metrics(self):
        path = os.path.join(self.output, 'metrics.jsonl')
        if not os.path.exists(path):
            return []
        with open(path, encoding='utf-8') as file:
            rows = [json.loads(line) for line in file if line.endswith('\n')]
        return [{key: value for key, value in row.items() if key not in TIMES} for row in rows if 'step' in row]

    def log(self, rank=0):
        with open(os.path.join(os.path.dirname(self.launch), f'rank-{rank}.log'), encoding='utf-8') as file:
            return file.read()

    def said(self, kind):
        return [report for _, report in self.reports if report['t'] == kind]

    def doubles(self, step):
        """{name: numbers} of an fp64 checkpoint: each storage of the weights, each moment."""
        folder = dict(self.published)[step]
        found = {}
        with zipfile.ZipFile(os.path.join(folder, 'iter_0000001/mp_rank_00/model_optim_rng.pt')) as archive:
            for name in archive.namelist():
                if '/data/' in name:
                    found[name] = array.array('d', archive.read(name))
        with open(os.path.join(folder, 'roll/optimizer.safetensors'), 'rb') as file:
            header = json.loads(file.read(int.from_bytes(file.read(8), 'little')))
            body = file.read()
        for name, tensor in header.items():
            if name != '__metadata__' and tensor['dtype'] == 'F64':
                found[name] = array.array('d', body[slice(*tensor['data_offsets'])])
        return found

    def weights(self, step):
        """{file: bytes} of what resumes: weights, moments, state."""
        folder = dict(self.published)[step]
        names = ('iter_0000001/mp_rank_00/model_optim_rng.pt', 'roll/optimizer.safetensors', 'roll/state.json')
        found = {}
        for name in names:
            with open(os.path.join(folder, name), 'rb') as file:
                found[name] = file.read()
        return found


class RankTest(unittest.TestCase):

    def setUp(self):
        self.top = tempfile.mkdtemp(prefix='roll-rank-')
        self.addCleanup(shutil.rmtree, self.top, ignore_errors=True)
        rng = random.Random(7)
        words = [''.join(rng.choice('etaoinshrdlu') for _ in range(rng.randint(2, 7))) for _ in range(200)]
        text = ' '.join(words[min(int(rng.expovariate(0.03)), 199)] for _ in range(20000))
        self.corpus = os.path.join(self.top, 'corpus.txt')
        with open(self.corpus, 'w', encoding='utf-8') as file:
            file.write(text)

    def document(self, steps, dp=2, **changes):
        document = {
            'name': 'tiny', 'kind': 'train', 'resources': {'nodes': 1, 'slots_per_node': dp},
            'model': {'family': 'llama', 'hidden_size': 32, 'intermediate_size': 64, 'num_hidden_layers': 2,
                      'num_attention_heads': 2, 'num_key_value_heads': 2, 'vocab_size': 256,
                      'max_position_embeddings': 64},
            'tokenizer': 'bytes', 'data': {'train': [self.corpus], 'valid': 0.02}, 'objective': 'pretrain',
            'parallel': {'dp': dp},
            'train': {'seq_length': 32, 'global_batch_size': 8, 'micro_batch_size': 2, 'steps': steps, 'seed': 1,
                      'precision': 'fp32',
                      'optimizer': {'lr': 3e-3, 'min_lr': 3e-4, 'warmup_steps': 5, 'schedule': 'cosine',
                                    'weight_decay': 0.1, 'clip_grad': 1.0}},
            'checkpoint': {'every': 0, 'keep': 2, 'format': 'mca'}, 'export': 'none'}
        for key, value in changes.items():
            place, *path = document, *key.split('__')
            for part in path[:-1]:
                place = place.setdefault(part, {})
            place[path[-1]] = value
        return document

    def run_whole(self, *args, **options):
        attempt = Attempt(self, *args, **options)
        codes = attempt.wait()
        self.assertEqual(set(codes), {0}, attempt.log())
        return attempt

    def test_trains_validates_samples_and_keeps_two_checkpoints(self):
        run = self.run_whole(1, 1, self.document(
            60, checkpoint__every=20, train__valid_every=30, train__sample={'every': 30, 'prompts': ['the ']}))
        steps = [row for row in run.metrics() if 'loss' in row]
        self.assertEqual([row['step'] for row in steps], list(range(1, 61)))
        self.assertLess(steps[-1]['loss'], 0.7 * steps[0]['loss'])
        valid = [row for row in run.metrics() if 'valid_loss' in row]
        self.assertEqual([row['step'] for row in valid], [30, 60])
        for row in valid:
            self.assertAlmostEqual(row['valid_bits_per_byte'], row['valid_loss'] / math.log(2), places=12)
            self.assertTrue(1 < row['ngram2_bits_per_byte'] < 5, row)
        self.assertEqual(len([row for row in run.metrics() if 'text' in row]), 2)
        self.assertEqual(len(run.said('ready')), 2)
        self.assertEqual([r['step'] for r in run.said('checkpoint')], [20, 40, 60])
        self.assertEqual([r['step'] for r in run.said('pruned')], [20])
        left = sorted(os.listdir(os.path.join(run.output, 'checkpoints')))
        self.assertEqual(left, ['step-00000040.1-1', 'step-00000060.1-1'])

    def test_stopped_by_sigterm_and_resumed_is_bitwise_the_same(self):
        whole = self.run_whole(1, 1, self.document(40))
        first = Attempt(self, 2, 1, self.document(40, checkpoint__every=7))
        first.wait_step(10)
        for process in first.ranks:
            process.send_signal(signal.SIGTERM)
        self.assertEqual(first.wait(), [75, 75], first.log())
        at = first.published[-1][0]
        self.assertLess(at, 40)
        second = self.run_whole(2, 2, self.document(40, checkpoint__every=7), reversed(first.published[-2:]))
        self.assertEqual(second.metrics(), whole.metrics())
        self.assertEqual(second.weights(40), whole.weights(40))
        self.assertIn(f'resumed at step {at} ', second.log())

    def test_killed_ranks_resume_and_a_damaged_checkpoint_is_skipped(self):
        whole = self.run_whole(1, 1, self.document(40))
        first = Attempt(self, 2, 1, self.document(40, checkpoint__every=5, checkpoint__keep=9))
        first.wait_step(17)
        first.ranks[1].kill()
        self.assertEqual(first.wait()[0], 76, first.log())
        damaged = os.path.join(first.published[-1][1], 'roll', 'optimizer.safetensors')
        with open(damaged, 'r+b') as file:
            file.seek(1000)
            byte = file.read(1)[0]
            file.seek(1000)
            file.write(bytes([byte ^ 1]))
        second = self.run_whole(2, 2, self.document(40, checkpoint__every=5), reversed(first.published))
        self.assertIn('optimizer.safetensors has other bytes', second.log())
        self.assertEqual(second.metrics(), whole.metrics())
        self.assertEqual(second.weights(40), whole.weights(40))

    def test_a_resume_job_goes_further_with_more_steps(self):
        changes = {'train__optimizer__schedule': 'constant'}
        whole = self.run_whole(1, 1, self.document(40, **changes))
        first = self.run_whole(2, 1, self.document(20, **changes))
        more = self.run_whole(3, 1, self.document(40, kind='resume', **changes), first.published, kind='resume')
        self.assertEqual([row for row in more.metrics() if 'loss' in row],
                         [row for row in whole.metrics() if 'loss' in row])
        self.assertEqual(more.weights(40), whole.weights(40))
        self.assertTrue(os.path.exists(first.published[-1][1]), 'another job\'s checkpoint was deleted')

    def test_another_dp_gives_the_same_numbers_in_fp64(self):
        double = {'train__precision': 'fp64'}
        whole = self.run_whole(1, 1, self.document(20, dp=1, **double))
        first = Attempt(self, 2, 1, self.document(20, dp=2, checkpoint__every=10, **double))
        self.assertEqual(first.wait(), [0, 0], first.log())
        second = self.run_whole(2, 2, self.document(20, dp=1, **double), first.published[:1])
        for mine, theirs in zip(second.metrics(), whole.metrics()):
            for key, value in theirs.items():
                if isinstance(value, float):
                    self.assertLess(abs(mine[key] - value), 1e-10 * abs(value) + 1e-14, (key, mine, theirs))
        ours, wanted = second.doubles(20), whole.doubles(20)
        self.assertEqual(ours.keys(), wanted.keys())
        self.assertGreater(len(wanted), 20)
        for name, numbers in wanted.items():
            worst = max(abs(a - b) for a, b in zip(ours[name], numbers, strict=True))
            self.assertLess(worst, 1e-10 * max(map(abs, numbers)), name)

    def refused(self, document, code, text, rank=0, **options):
        attempt = Attempt(self, 9, 1, document, **options)
        self.assertEqual(attempt.wait()[rank], code, attempt.log(rank))
        message = attempt.said('failed')[0]['message']
        self.assertIn(text, message)
        self.assertNotIn('\n', message)

    def test_bad_inputs_end_with_2_and_one_sentence(self):
        def one(**changes):
            return self.document(5, dp=1, **changes)
        empty = os.path.join(self.top, 'empty')
        open(empty, 'w', encoding='utf-8').close()
        self.refused(one(data__train=[os.path.join(self.top, 'none')]), 2, 'No such file')
        self.refused(one(data__train=[empty]), 2, 'is empty')
        self.refused(one(train__seq_length=65), 2, 'max_position_embeddings')
        self.refused(one(train__global_batch_size=3), 2, 'global_batch_size')
        self.refused(one(model__vocab_size=100), 2, 'vocab_size')
        self.refused(one(), 2, 'no recorded checkpoint', kind='resume')

    def test_a_loss_that_is_not_finite_is_named_and_the_last_checkpoint_stays(self):
        document = self.document(40, dp=1, checkpoint__every=1, train__optimizer__lr=1e30,
                                 train__optimizer__clip_grad=0.0, train__optimizer__warmup_steps=0)
        attempt = Attempt(self, 9, 1, document)
        self.assertEqual(attempt.wait(), [1], attempt.log())
        message = attempt.said('failed')[0]['message']
        self.assertRegex(message, r'is not finite at step \d+ on rank 0 \(samples \d+ to \d+\); first not finite: ')
        self.assertTrue(attempt.published)

    def test_a_full_disk_ends_with_4_and_keeps_the_last_checkpoint(self):
        small = os.path.join(self.top, 'small')
        os.mkdir(small)
        if subprocess.run(['mount', '-t', 'tmpfs', '-o', 'size=600k', 'tmpfs', small],
                          capture_output=True, check=False).returncode:
            self.skipTest('a small file system cannot be mounted here')
        self.addCleanup(subprocess.run, ['umount', small], check=True)
        document = self.document(9, dp=1, checkpoint__every=1, checkpoint__keep=9)
        attempt = Attempt(self, 9, 1, document, output=small)
        self.assertEqual(attempt.wait(), [4], attempt.log())
        message = attempt.said('failed')[0]['message']
        self.assertIn('No space left on device', message)
        self.assertNotIn('\n', message)
        left = os.listdir(os.path.join(small, 'checkpoints'))
        self.assertTrue(left)
        self.assertEqual([name for name in left if name.startswith('.')], [], 'a staged directory stays')

    @unittest.skipUnless(ORACLE and CONVERT, 'needs roll-convert and a Python with transformers')
    def test_transformers_finds_the_same_bits_per_byte_in_the_export(self):
        run = self.run_whole(1, 1, self.document(30))
        export = os.path.join(self.top, 'export')
        subprocess.run([CONVERT, 'convert', run.published[-1][1], export, '--to', 'hf'], check=True,
                       capture_output=True)
        done = subprocess.run([ORACLE, '-c', BITS_PER_BYTE, export, self.corpus, '0.02', '32'], capture_output=True,
                              text=True, check=False, env={'PATH': '/usr/bin:/bin', 'HF_HUB_OFFLINE': '1'})
        self.assertEqual(done.returncode, 0, done.stderr[-2000:])
        told = [row['valid_bits_per_byte'] for row in run.metrics() if 'valid_loss' in row][-1]
        print(f'bits per byte: roll {told:.9f}, transformers {float(done.stdout):.9f}')
        self.assertAlmostEqual(float(done.stdout), told, delta=1e-5)

    def hf_start(self, *words):
        done = subprocess.run([ORACLE, HF_START, *map(str, words)], capture_output=True, text=True, check=False,
                              env={'PATH': '/usr/bin:/bin'})
        self.assertEqual(done.returncode, 0, done.stderr[-2000:])
        return done.stdout

    def started(self, start, **changes):
        """A document whose first step trains on every window of 257 bytes once, and holds 5 more out."""
        with open(self.corpus, 'r+b') as file:
            file.truncate(262)
        rates = {'train__optimizer__lr': 0.0, 'train__optimizer__min_lr': 0.0}
        return self.document(1, model={'from': start}, **rates, **changes)

    def exported(self, run, name):
        export = os.path.join(self.top, name)
        subprocess.run([CONVERT, 'convert', run.published[-1][1], export, '--to', 'hf'], check=True,
                       capture_output=True)
        return export

    @unittest.skipUnless(ORACLE and CONVERT, 'needs roll-convert and a Python with transformers')
    def test_starts_from_a_directory_with_the_loss_of_transformers_and_gives_the_weights_back(self):
        for job, (options, precision, bound) in enumerate([
                (('rope=new', 'tied=0', 'sharded=1'), 'fp32', 1e-5),
                (('rope=old', 'tied=1', 'sharded=0'), 'fp64', 1e-10)], start=1):
            start = os.path.join(self.top, f'start-{job}')
            self.hf_start('make', start, 'float32', *options)
            run = self.run_whole(job, 1, self.started(start, train__precision=precision))
            theirs = {'loss': (0, 257), 'valid_loss': (257, 262)}
            for key, (begin, end) in theirs.items():
                wanted = float(self.hf_start('loss', start, {'fp32': 'float32', 'fp64': 'float64'}[precision],
                                             self.corpus, begin, end, 32))
                ours = [row[key] for row in run.metrics() if key in row][0]
                print(f'{precision} {key}: roll {ours:.15f}, transformers {wanted:.15f}')
                self.assertLess(abs(ours - wanted), bound * wanted, key)
            if precision == 'fp32':
                self.hf_start('same', start, self.exported(run, f'export-{job}'))
                # Roll's own checkpoint is a directory to start from as well.
                again = self.run_whole(9, 1, self.started(run.published[-1][1]))
                self.hf_start('same', start, self.exported(again, 'export-again'))

    @unittest.skipUnless(ORACLE, 'needs a Python with transformers')
    def test_a_started_job_goes_on_without_what_it_started_from(self):
        start = os.path.join(self.top, 'start')
        self.hf_start('make', start, 'float32', 'rope=new', 'tied=0', 'sharded=0')
        first = self.run_whole(1, 1, self.document(2, model={'from': start}, train__optimizer__schedule='constant'))
        shutil.rmtree(start)
        document = self.document(4, model={'from': start}, train__optimizer__schedule='constant')
        second = self.run_whole(1, 2, document, first.published)
        self.assertIn('resumed at step 2 ', second.log())
        self.refused(document, 2, start + ' is not there')

    @unittest.skipUnless(ORACLE, 'needs a Python with transformers')
    def test_a_directory_that_disagrees_with_its_config_is_refused_by_name(self):
        start = os.path.join(self.top, 'start')
        self.hf_start('make', start, 'float32', 'rope=new', 'tied=0', 'sharded=0')
        path = os.path.join(start, 'config.json')
        with open(path, encoding='utf-8') as file:
            config = json.load(file)

        def refused(text, code=2, **changes):
            with open(path, 'w', encoding='utf-8') as file:
                json.dump({**config, **changes}, file)
            self.refused(self.started(start, dp=1), code, text)
        refused('has shape [260, 32]; the config says [300, 32]', code=1, vocab_size=300)
        refused(' and 4 more are missing', code=1, num_hidden_layers=4)
        refused('no rule of family llama names model.layers.2.', num_hidden_layers=2)
        refused('max_position_embeddings', max_position_embeddings=16)
        refused('rotary embeddings of type yarn',
                rope_parameters={'rope_type': 'yarn', 'rope_theta': 500.0, 'factor': 2.0})

    def test_generates_the_same_from_its_checkpoint_twice(self):
        run = self.run_whole(1, 1, self.document(10, dp=1))
        folder = run.published[-1][1]
        command = [RANK, 'generate', folder, 'the ', '--max-tokens', '8', '--temperature', '1', '--seed', '3', '--json']
        first = subprocess.run(command, capture_output=True, check=True, text=True).stdout
        self.assertEqual(json.loads(first)['schema'], 'roll.generate/1')
        self.assertEqual(first, subprocess.run(command, capture_output=True, check=True, text=True).stdout)

    def test_plans_without_running(self):
        path = os.path.join(self.top, 'spec.json')
        with open(path, 'w', encoding='utf-8') as file:
            json.dump(self.document(10), file)
        plan = json.loads(subprocess.run([RANK, 'plan', '--spec', path, '--json'], capture_output=True, check=True,
                                         text=True).stdout)
        self.assertEqual(plan['schema'], 'roll.plan/1')
        self.assertEqual(plan['parameters'], 2 * 256 * 32 + 2 * (4 * 32 * 32 + 3 * 32 * 64 + 2 * 32) + 32)
        self.assertLess(plan['flops_per_token']['causal'], plan['flops_per_token']['full'])


if __name__ == '__main__':
    unittest.main()
