"""Shared by the tests of roll-rank as real processes: attempts, and a small corpus with a job."""
import array
import glob
import hashlib
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

RANK = os.path.abspath(sys.argv.pop(1)) if len(sys.argv) > 1 else 'roll-rank'
CONVERT = os.path.join(os.path.dirname(RANK), 'roll-convert')
# Without the program, the tests that run it fail, and the error names this text.
ORACLE = os.environ.get('ROLL_ORACLE_PYTHON') or 'Python with transformers: packaging/setup --oracle'
ORACLES = os.path.join(os.path.dirname(os.path.abspath(__file__)), '../../../oracle')
PATIENCE_S = 300  # enough for a busy machine with half the speed
TIMES = ('tokens_per_second', 'tokens_per_second_per_rank', 'tflops', 'mfu', 'mfu_full', 'peak_tflops',
         'data_wait_seconds', 'memory_bytes', 'memory_peak_bytes', 'eta_seconds', 'time',
         'wall_s', 'phases', 'reduced_early')
# clip_grad is below the norm of every step, so a wrong norm changes the weights.
DOUBLE = {'train__precision': 'fp64', 'train__optimizer__clip_grad': 0.5, 'train__optimizer__warmup_steps': 0,
          'train__global_batch_size': 8, 'train__metrics': {'grad_zeros': True}, 'model__num_hidden_layers': 4,
          'data__valid': 0.005}
# One rank needs more micro-batches for the validation data than are evaluated at a time.
SHORT = {'train__valid_every': 3, 'train__sample': {'every': 3, 'prompts': ['the '], 'max_tokens': 8},
         'export': {'format': 'hf', 'dtype': 'bf16'}, 'data__valid': 0.011}


def text_of(*path):
    with open(os.path.join(*path), encoding='utf-8') as file:
        return file.read()


def json_of(*path):
    return json.loads(text_of(*path))


def write_text(path, text):
    with open(path, 'w', encoding='utf-8') as file:
        file.write(text)


class Files(dict):
    """Bytes of files by their names. When two differ, a test prints hashes, because a diff of the bytes takes hours."""

    def __repr__(self):
        return str({name: hashlib.sha256(data).hexdigest()[:8] for name, data in self.items()})


class Attempt:
    """The ranks of one launch, and a substitute for roll-worker that publishes and records checkpoints."""

    def __init__(self, test, job, attempt, document, checkpoints=(), output=None, record=True, kind='train',
                 setup=None, env=None, emulator=(), allow_faults=False, gpus=()):
        self.emulator = emulator
        forced = {name: value for name, value in os.environ.items() if name == 'ROLL_PROCESSOR'}
        self.env = {'PATH': '/usr/bin:/bin', 'OMP_NUM_THREADS': '1', **forced, **(env or {})}
        self.output = output or os.path.join(test.top, f'job-{job}')
        self.record = record
        logs = os.path.join(self.output, 'logs', f'attempt-{attempt}')
        os.makedirs(logs, exist_ok=True)
        world = document['resources']['slots_per_node']
        launch = {'v': 1, 'attempt': {'job': job, 'token': f'1-{attempt}'}, 'kind': kind,
                  'document': json.dumps(document), 'output': self.output, 'logs': logs, 'nodes': 1, 'node_rank': 0,
                  'ranks_per_node': world, 'gpus': gpus, 'nonce': f'nonce{job}x{attempt}',
                  'checkpoints': [{'step': step, 'directory': path, 'deleted': False} for step, path in checkpoints],
                  'allow_faults': allow_faults}
        self.launch = os.path.join(logs, 'launch-0.json')
        write_text(self.launch, json.dumps(launch))
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
            process = subprocess.Popen([*self.emulator, RANK, '--launch', self.launch, '--rank', str(rank)],
                                       stdin=subprocess.PIPE, stdout=out, stderr=out, close_fds=False,
                                       preexec_fn=child, env=self.env)
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

    def pause(self):
        for process in self.ranks:
            process.send_signal(signal.SIGSTOP)

    def go_on(self):
        for process in self.ranks:
            process.send_signal(signal.SIGCONT)

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
        return text_of(os.path.dirname(self.launch), f'rank-{rank}.log')

    def said(self, kind):
        return [report for _, report in self.reports if report['t'] == kind]

    def doubles(self, step):
        """Returns {name: numbers} of the whole model in an fp64 checkpoint: the weights as the converter reads them,
        each moment."""
        folder = dict(self.published)[step]
        export = os.path.join(self.output, f'export-{step}')
        subprocess.run([CONVERT, 'convert', folder, export, '--to', 'hf', '--overwrite'], check=True,
                       capture_output=True)
        found = dict(tensors_of(os.path.join(export, 'model.safetensors')))
        found = {name: array.array('d', data) for name, (_, data) in found.items()}
        return {**found, **moments_of(folder)}

    def weights(self, step):
        """Returns {file: bytes} of the files needed to resume: weights, moments, state."""
        folder = dict(self.published)[step]
        found = Files()
        for pattern in ('iter_0000001/*/model_optim_rng.pt', 'iter_0000001/*.*', 'iter_0000001/.metadata',
                        'roll/optimizer/*', 'roll/state.json'):
            for path in glob.glob(os.path.join(folder, pattern)):
                with open(path, 'rb') as file:
                    found[os.path.relpath(path, folder)] = file.read()
        return found


def tensors_of(path):
    """Returns {name: (shape, bytes)} of a safetensors file."""
    with open(path, 'rb') as file:
        header = json.loads(file.read(int.from_bytes(file.read(8), 'little')))
        body = file.read()
    return {name: (tensor['shape'], body[slice(*tensor['data_offsets'])]) for name, tensor in header.items()
            if name != '__metadata__'}


def numbers_of(shape, data):
    """Returns the numbers of a float64 or bfloat16 tensor."""
    if len(data) == 8 * math.prod(shape):
        return array.array('d', data)
    floats = array.array('I', [half << 16 for half in array.array('H', data)]).tobytes()
    return array.array('d', array.array('f', floats))


def moments_of(folder):
    """Returns {name: numbers} of the whole moments in an fp64 checkpoint, in which every element is stored once."""
    folder = os.path.join(folder, 'roll/optimizer')
    parameters = json_of(folder, 'index.json')['parameters']
    files = {name: tensors_of(os.path.join(folder, name)) for name in os.listdir(folder) if name != 'index.json'}
    found = {}
    for name, parameter in parameters.items():
        width = math.prod(parameter['shape'][1:])
        for moment in (name + ending for ending in ('.exp_avg', '.exp_avg_sq', '.momentum_buffer', '.ema', '')
                       if name + ending in files[parameter['boxes'][0]['file']]):
            whole = array.array('d', [math.nan]) * math.prod(parameter['shape'])
            for box in parameter['boxes']:
                shape, data = files[box['file']][moment]
                stored, columns = numbers_of(shape, data), math.prod(shape[1:])
                begin, size, local = ([*box[key], 0][1] if len(shape) > 1 else 0 for key in ('begin', 'size', 'local'))
                size = size if len(shape) > 1 else 1
                for row in range(box['size'][0]):
                    at = (box['begin'][0] + row) * width + begin
                    if not all(map(math.isnan, whole[at:at + size])):
                        raise AssertionError(f'{moment} is stored twice')
                    first = (box['local'][0] + row) * columns + local
                    whole[at:at + size] = stored[first:first + size]
            if any(map(math.isnan, whole)):
                raise AssertionError(f'{moment} is not whole')
            found[moment] = whole
    return found


def write_corpus(path):
    """Returns text with a little structure, always the same."""
    rng = random.Random(7)
    words = [''.join(rng.choice('etaoinshrdlu') for _ in range(rng.randint(2, 7))) for _ in range(200)]
    text = ' '.join(words[min(int(rng.expovariate(0.03)), 199)] for _ in range(20000))
    write_text(path, text)
    return path


class RankCase(unittest.TestCase):

    def setUp(self):
        self.top = tempfile.mkdtemp(prefix='roll-rank-')
        self.addCleanup(shutil.rmtree, self.top, ignore_errors=True)
        self.corpus = write_corpus(os.path.join(self.top, 'corpus.txt'))

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

    def expect_close(self, ours, wanted):
        """Compares the rows of two runs: floats to 1e-10, anything else must be equal."""
        self.assertEqual([row['step'] for row in ours], [row['step'] for row in wanted])
        for mine, theirs in zip(ours, wanted):
            self.assertEqual(mine.keys(), theirs.keys())
            for key, value in theirs.items():
                if isinstance(value, float):
                    self.assertLess(abs(mine[key] - value), 1e-10 * abs(value) + 1e-14, (key, mine, theirs))
                else:
                    self.assertEqual(mine[key], value, (key, mine, theirs))

    def expect_close_tensors(self, ours, wanted):
        self.assertEqual(ours.keys(), wanted.keys())
        for name, numbers in wanted.items():
            worst = max(abs(a - b) for a, b in zip(ours[name], numbers, strict=True))
            self.assertLess(worst, 1e-10 * max(map(abs, numbers)), name)

    def run_whole(self, *args, **options):
        attempt = Attempt(self, *args, **options)
        codes = attempt.wait()
        self.assertEqual(set(codes), {0}, attempt.log())
        return attempt

    def refused(self, document, code, text, rank=0, **options):
        attempt = Attempt(self, 9, 1, document, **options)
        self.assertEqual(attempt.wait()[rank], code, attempt.log(rank))
        message = attempt.said('failed')[0]['message']
        self.assertIn(text, message)
        self.assertNotIn('\n', message)

    def plan(self, document, *words):
        path = os.path.join(self.top, 'plan.json')
        write_text(path, json.dumps(document))
        return subprocess.run([RANK, 'plan', '--spec', path, *words], capture_output=True, text=True, check=False)

    def rank(self, *words):
        """Runs roll-rank with a command and returns how it ended."""
        return subprocess.run([RANK, *words], capture_output=True, text=True, check=False)

    def convert(self, source, name, *words):
        """Converts a checkpoint to a HuggingFace directory."""
        export = os.path.join(self.top, name)
        subprocess.run([CONVERT, 'convert', source, export, '--to', 'hf', *words], check=True, capture_output=True)
        return export

    @staticmethod
    def oracle(script, *words):
        """Returns the output of a script of tests/oracle."""
        # The models are tiny, so that several threads would only wait for each other.
        done = subprocess.run([ORACLE, os.path.join(ORACLES, script), *map(str, words)], capture_output=True, text=True,
                              check=False, env={'PATH': '/usr/bin:/bin', 'OMP_NUM_THREADS': '1'})
        if done.returncode != 0:
            raise AssertionError(f'{script}: {done.stderr[-2000:]}')
        return done.stdout

    def exported(self, run, name):
        return self.convert(run.published[-1][1], name)

    def base_model(self, document):
        """Returns the export of a job. The first test of a class trains it for all tests of the class."""
        cls = type(self)
        if 'trained_base' not in vars(cls):
            folder = tempfile.mkdtemp(prefix='roll-base-')
            cls.addClassCleanup(shutil.rmtree, folder, ignore_errors=True)
            export = self.exported(self.run_whole(99, 1, document), 'base')
            cls.trained_base = shutil.copytree(export, os.path.join(folder, 'base'))
        return cls.trained_base
