"""A private rolld and roll-worker for a test: real programs in their own folder.

Every process that they start inherits ROLL_E2E_ID; tear-down ends those and no others, and a test
that leaves one behind after `rollctl down` fails.
"""
import glob
import json
import os
import random
import shutil
import signal
import subprocess
import tempfile
import time
import unittest
import uuid

BIN = os.environ.get('ROLL_BIN') or os.path.join(
    os.path.dirname(os.path.abspath(__file__)), '..', '..', 'build', 'release', 'bin')
# Without the program, the tests that run it fail, and the error names this text.
ORACLE = os.environ.get('ROLL_ORACLE_PYTHON') or 'Python with transformers: packaging/setup --oracle'
PATIENCE_S = float(os.environ.get('ROLL_E2E_PATIENCE_S', '120'))
OVER = ('done', 'failed', 'cancelled')
TIMES = ('time', 'seconds', 'second', 'mfu', 'eta', 'at', 'ms', 'tflops', 'memory', 'wall', 'phases', 'early')


def required(program, path=None):
    """Returns the path of a program that a test runs. Fails if it is not installed: tests are never left out for it."""
    found = shutil.which(program, path=path)
    if not found:
        raise FileNotFoundError(f'{program} is not installed; packaging/setup --tests installs it')
    return found


def wait_until(condition, what, patience_s=PATIENCE_S):
    """Returns the first true value of condition(). The wait is bounded only to end a hung test."""
    deadline = time.monotonic() + patience_s
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            raise AssertionError(f'waited {patience_s:.0f} s in vain for: {what}')
        time.sleep(0.05)


def text_of(*path):
    with open(os.path.join(*path), encoding='utf-8') as file:
        return file.read()


def json_of(*path):
    return json.loads(text_of(*path))


def is_alive(pid):
    try:
        return text_of(f'/proc/{pid}/stat').rsplit(')', 1)[1].split()[0] not in 'ZX'
    except OSError:
        return False


def without_times(row):
    return {key: value for key, value in row.items()
            if not any(word in key.split('_') or key.endswith(word) for word in TIMES)}


class RollTest(unittest.TestCase):
    """One state directory and one set of processes for each test."""

    maxDiff = None

    def setUp(self):
        self.id = uuid.uuid4().hex
        self.top = tempfile.mkdtemp(prefix='roll-e2e-')
        self.state = os.path.join(self.top, 'state')
        self.work = os.path.join(self.top, 'work')
        os.makedirs(self.work)
        os.makedirs(os.path.join(self.top, 'run'), mode=0o700)
        self.env = {'PATH': f'{os.path.abspath(BIN)}:/usr/bin:/bin', 'HOME': self.top,
                    'USER': os.environ.get('USER', 'tester'), 'NO_COLOR': '1', 'LC_ALL': 'C.UTF-8',
                    'XDG_RUNTIME_DIR': os.path.join(self.top, 'run'), 'ROLL_DIR': self.state,
                    'OMP_NUM_THREADS': '1', 'ROLL_E2E_ID': self.id}
        self.addCleanup(self._clean)

    def _clean(self):
        left = self.processes()
        for pid in left:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        failed = any(error for _, error in self._outcome.errors) if hasattr(
            self._outcome, 'errors') else not self._outcome.success
        if failed:
            self._print_logs()
        shutil.rmtree(self.top, ignore_errors=True)

    def _print_logs(self):
        for folder, _, names in os.walk(self.top):
            for name in names:
                if name.endswith('.log'):
                    path = os.path.join(folder, name)
                    with open(path, encoding='utf-8', errors='replace') as file:
                        lines = file.read().splitlines()[-15:]
                    print(f'--- {path[len(self.top) + 1:]}')
                    print('\n'.join(line[:400] for line in lines))

    def tearDown(self):
        """Ends rolld and roll-worker as a user does, and checks that no process is left."""
        if os.path.exists(os.path.join(self.state, 'rolld.pid')):
            self.ctl('down', '--now', check=False)
        wait_until(lambda: not self.processes(), 'every process to end after `rollctl down`: '
                   + ', '.join(self.describe(pid) for pid in self.processes()), 60)

    # --- processes ---

    def processes(self):
        """Returns the pids of all running processes that this test started, directly or not."""
        mark, found = f'ROLL_E2E_ID={self.id}'.encode(), []
        for name in os.listdir('/proc'):
            if name.isdigit():
                try:
                    with open(f'/proc/{name}/environ', 'rb') as file:
                        if mark in file.read().split(b'\0') and is_alive(name):
                            found.append(int(name))
                except OSError:
                    pass
        return found

    def describe(self, pid):
        try:
            with open(f'/proc/{pid}/cmdline', encoding='utf-8', errors='replace') as file:
                return f'{pid} ({file.read().replace(chr(0), " ").strip()})'
        except OSError:
            return str(pid)

    def pids_of(self, program):
        """Returns the pids of this test's processes whose program has this name."""
        found = []
        for pid in self.processes():
            try:
                if os.path.basename(os.readlink(f'/proc/{pid}/exe')) == program:
                    found.append(pid)
            except OSError:
                pass
        return found

    def pid_file(self, program):
        return int(text_of(self.state, program + '.pid').split()[0])

    def kill(self, pid):
        os.kill(pid, signal.SIGKILL)
        wait_until(lambda: not is_alive(pid), f'{pid} to be gone after SIGKILL')

    def kill_rolld(self):
        self.kill(self.pid_file('rolld'))

    def kill_worker(self):
        self.kill(self.pid_file('worker'))

    # --- rollctl ---

    def ctl(self, *args, check=True, timeout=PATIENCE_S, env=None, text_in=None):
        """Runs rollctl with these arguments. If `check`, fails the test unless it exits with 0."""
        done = subprocess.run([os.path.join(BIN, 'rollctl'), *map(str, args)], cwd=self.work,
                              env=env or self.env, capture_output=True, text=True, timeout=timeout,
                              **({'input': text_in} if text_in else {'stdin': subprocess.DEVNULL}))
        if check and done.returncode != 0:
            self.fail(f'rollctl {" ".join(map(str, args))}: exit {done.returncode}\n'
                      f'{done.stdout}{done.stderr}')
        return done

    def json(self, *args, **options):
        return json.loads(self.ctl(*args, '--json', **options).stdout)

    def up(self, slots=2):
        return self.ctl('up', '--slots', slots)

    def submit(self, *args):
        """Submits a job. Returns its number."""
        return int(self.ctl('submit', '--parsable', *args).stdout.split()[0])

    def show(self, job):
        return self.json('show', job)['job']

    def events(self, job=None):
        return self.json('events', *([job] if job else []))['events']

    def wait(self, job, patience_s=PATIENCE_S):
        """Waits until the job is over. Returns its summary."""
        def over():
            now = self.show(job)
            return now if now['state'] in OVER else None
        return wait_until(over, f'job {job} to end', patience_s)

    def wait_done(self, job, patience_s=PATIENCE_S):
        ended = self.wait(job, patience_s)
        self.assertEqual(ended['state'], 'done', ended.get('reason'))
        return ended

    def wait_step(self, job, step):
        """Waits until the job's metrics show this step."""
        def reached():
            return any(row['step'] >= step for row in self.metrics(job))
        wait_until(reached, f'job {job} to reach step {step}')

    def wait_checkpoint(self, job, count=1):
        wait_until(lambda: len(self.show(job)['checkpoints']) >= count,
                   f'{count} recorded checkpoints of job {job}')

    # --- a job's files ---

    def output(self, job):
        return self.show(job)['output']

    def metrics(self, job):
        """Returns the rows of metrics.jsonl that have a step, without a torn last line."""
        path = os.path.join(self.output(job), 'metrics.jsonl')
        rows = []
        if os.path.exists(path):
            with open(path, encoding='utf-8') as file:
                for line in file:
                    if line.endswith('\n'):
                        rows.append(json.loads(line))
        return [row for row in rows if 'step' in row]

    def weights(self, job):
        """Returns the bytes of the last checkpoint's weights and optimizer state."""
        newest = max(self.show(job)['checkpoints'], key=lambda c: c['step'])
        folder = newest['directory']
        found = {}
        for pattern in ('iter_0000001/*/model_optim_rng.pt', 'roll/optimizer/*'):
            for path in glob.glob(os.path.join(folder, pattern)):
                with open(path, 'rb') as file:
                    found[os.path.relpath(path, folder)] = file.read()
        return found

    def assert_same(self, job, calm):
        """Checks that the two jobs took the same steps to the same bits."""
        self.assertEqual([without_times(row) for row in self.metrics(job)],
                         [without_times(row) for row in self.metrics(calm)])
        self.assertTrue(self.weights(job) == self.weights(calm), 'other weights than undisturbed')

    def write(self, name, text):
        path = os.path.join(self.work, name)
        with open(path, 'w', encoding='utf-8') as file:
            file.write(text)
        return path

    def corpus(self, name='corpus.txt', words=30000):
        """Writes text with a little structure, the same each time."""
        rng = random.Random(7)
        lexicon = [''.join(rng.choice('etaoinshrdlu') for _ in range(rng.randint(2, 7)))
                   for _ in range(200)]
        text = ' '.join(lexicon[min(int(rng.expovariate(0.03)), 199)] for _ in range(words))
        return self.write(name, text + '\n')

    def train_job(self, name='tiny', steps=40, **changes):
        """Writes the job file of a model that trains in seconds. `changes` are named like train__steps=9."""
        document = {
            'name': name, 'kind': 'train', 'resources': {'nodes': 1, 'slots_per_node': 2},
            'model': {'family': 'llama', 'hidden_size': 32, 'intermediate_size': 64,
                      'num_hidden_layers': 2, 'num_attention_heads': 2, 'num_key_value_heads': 2,
                      'vocab_size': 256, 'max_position_embeddings': 64},
            'tokenizer': 'bytes', 'data': {'train': ['corpus.txt'], 'valid': 0.05},
            'objective': 'pretrain', 'parallel': {'dp': 2},
            'train': {'seq_length': 32, 'global_batch_size': 8, 'micro_batch_size': 2,
                      'steps': steps, 'seed': 1, 'precision': 'fp32',
                      'optimizer': {'lr': 3e-3, 'min_lr': 3e-4, 'warmup_steps': 5,
                                    'schedule': 'cosine', 'weight_decay': 0.1, 'clip_grad': 1.0}},
            'checkpoint': {'every': 10, 'keep': 2, 'format': 'mca'},
            'export': {'format': 'hf', 'dtype': 'fp32'},
        }
        for key, value in changes.items():
            place, *path = document, *key.split('__')
            for part in path[:-1]:
                place = place.setdefault(part, {})
            place[path[-1]] = value
        return self.write(f'{name}.yaml', json.dumps(document, indent=1))  # valid YAML too, because JSON is a subset


class TwoWorkers(RollTest):
    """A rolld with a second roll-worker, `other`, on this host."""
    SLOTS = 2

    def words_before_other(self):
        """Returns the words that start the command of the other roll-worker."""
        return []

    def setUp(self):
        super().setUp()
        if os.path.exists(ORACLE):
            self.env['PATH'] = f'{os.path.dirname(ORACLE)}:{self.env["PATH"]}'
        self.up(slots=self.SLOTS)
        ours = os.path.join(self.state, 'worker.pid')  # the worker that `rollctl down` ends
        self.pid = text_of(ours)
        with open(os.path.join(self.top, 'other.log'), 'wb') as log:
            words = [os.path.join(BIN, 'roll-worker'), '--dir', self.state, '--node', 'other',
                     '--slots', str(self.SLOTS)]
            self.other = subprocess.Popen([*self.words_before_other(), *words], env=self.env, stdout=log, stderr=log)
        self.addCleanup(lambda: (self.other.kill(), self.other.wait()))
        wait_until(lambda: len(self.json('nodes')['nodes']) == 2, 'the other worker')

    def tearDown(self):
        self.other.terminate()
        self.other.wait(60)
        self.write(os.path.join(self.state, 'worker.pid'), self.pid)
        super().tearDown()
