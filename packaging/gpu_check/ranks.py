"""Runs a training rank without roll-worker: publishes its checkpoints, kills it, reads its metrics."""
import glob
import json
import os
import subprocess
import threading
import time

from machine import Late, Programs, last_line

# Fields of metrics.jsonl that differ between two runs of the same job.
TIMES = ('tokens_per_second', 'tokens_per_second_per_rank', 'tflops', 'mfu', 'mfu_full', 'peak_tflops',
         'data_wait_seconds', 'memory_bytes', 'memory_peak_bytes', 'gpu_memory_bytes', 'gpu_memory_peak_bytes',
         'eta_seconds', 'time', 'wall_s', 'phases', 'reduced_early')


class Failed(Exception):
    """A program failed. The message is one sentence."""


def tiny_document(corpus, steps, on_gpu, **train):
    """Returns a job whose model trains in milliseconds."""
    return {
        'name': 'tiny', 'kind': 'train',
        'resources': {'nodes': 1, **({'gpus_per_node': 1} if on_gpu else {'slots_per_node': 1})},
        'model': {'family': 'llama', 'hidden_size': 64, 'intermediate_size': 176, 'num_hidden_layers': 3,
                  'num_attention_heads': 4, 'num_key_value_heads': 2, 'vocab_size': 256,
                  'max_position_embeddings': 128},
        'tokenizer': 'bytes', 'data': {'train': [corpus], 'valid': 0.02}, 'objective': 'pretrain',
        'train': {'seq_length': 64, 'global_batch_size': 8, 'micro_batch_size': 4, 'steps': steps, 'seed': 1,
                  'precision': 'fp32',
                  'optimizer': {'lr': 3e-3, 'min_lr': 3e-4, 'warmup_steps': 3, 'schedule': 'cosine',
                                'weight_decay': 0.1, 'clip_grad': 1.0}, **train},
        'checkpoint': {'every': 0, 'keep': 2, 'format': 'mca'}, 'export': 'none'}


class Rank:
    """One rank of one launch."""

    def __init__(self, program, env, document, output, attempt=1, checkpoints=()):
        self.output = output
        logs = os.path.join(output, 'logs', f'attempt-{attempt}')
        os.makedirs(logs, exist_ok=True)
        on_gpu = document['resources'].get('gpus_per_node', 0) > 0
        launch = {'v': 1, 'attempt': {'job': 1, 'token': f'1-{attempt}'}, 'kind': 'train',
                  'document': json.dumps(document), 'output': output, 'logs': logs, 'nodes': 1, 'node_rank': 0,
                  'ranks_per_node': 1, 'gpus': [0] if on_gpu else [], 'nonce': f'nonce{attempt}',
                  'checkpoints': [{'step': step, 'directory': path, 'deleted': False} for step, path in checkpoints]}
        path = os.path.join(logs, 'launch-0.json')
        with open(path, 'w', encoding='utf-8') as file:
            json.dump(launch, file)
        self.log_path = os.path.join(logs, 'rank-0.log')
        self.published, self.failure = [], ''
        up, down = os.pipe()
        with open(self.log_path, 'wb') as out:
            # The rank reports on descriptor 3.
            self.process = Programs.start(
                ['/bin/sh', '-c', f'exec "$0" "$@" 3>&{down}', program, '--launch', path, '--rank', '0'],
                stdin=subprocess.PIPE, stdout=out, stderr=out, pass_fds=[down], env=env)
        os.close(down)
        self.listener = threading.Thread(target=self._listen, args=(up,), daemon=True)
        self.listener.start()

    def _listen(self, descriptor):
        with os.fdopen(descriptor, encoding='utf-8') as lines:
            for line in lines:
                report = json.loads(line)
                if report['t'] == 'checkpoint':
                    self._publish(report)
                if report['t'] == 'failed':
                    self.failure = report['message']

    def _publish(self, report):
        staged = report['directory']
        final = os.path.join(os.path.dirname(staged), os.path.basename(staged)[1:])
        os.rename(staged, final)
        self.published.append((report['step'], final))
        try:
            self.process.stdin.write((json.dumps({'t': 'recorded', 'step': report['step']}) + '\n').encode())
            self.process.stdin.flush()
        except OSError:
            pass

    def kill(self):
        Programs.end(self.process)
        self.listener.join(10)
        try:
            self.process.stdin.close()
        except BrokenPipeError:  # an answer to a checkpoint came after the rank's end
            pass

    def wait(self, deadline):
        """Waits for success. Raises Failed with the rank's own sentence."""
        try:
            code = self.process.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            self.kill()
            raise Late from None
        self.kill()
        if code != 0:
            raise Failed(f'the rank ended with status {code}: {self.failure or last_line(self.log())}')
        return self

    def wait_published(self, step, deadline):
        """Waits until the checkpoint of `step` is published."""
        while not any(number >= step for number, _ in self.published):
            if time.monotonic() > deadline:
                self.kill()
                raise Late
            if self.process.poll() is not None and not self.listener.is_alive():
                self.wait(deadline)
                raise Failed(f'the rank ended before it wrote a checkpoint at step {step}')
            time.sleep(0.01)

    def log(self):
        with open(self.log_path, encoding='utf-8', errors='replace') as file:
            return file.read()

    def rows(self):
        with open(os.path.join(self.output, 'metrics.jsonl'), encoding='utf-8') as file:
            rows = [json.loads(line) for line in file if line.endswith('\n')]
        return [row for row in rows if 'step' in row]

    def timeless_rows(self):
        return [{key: value for key, value in row.items() if key not in TIMES} for row in self.rows()]

    def losses(self):
        return [row['loss'] for row in self.rows() if 'loss' in row]

    def state_bytes(self, step):
        """Returns {file: bytes} of the files needed to resume."""
        folder = dict(self.published)[step]
        found = {}
        for pattern in ('iter_0000001/*/model_optim_rng.pt', 'roll/optimizer/*', 'roll/state.json'):
            for path in glob.glob(os.path.join(folder, pattern)):
                with open(path, 'rb') as file:
                    found[os.path.relpath(path, folder)] = file.read()
        return found
