#!/usr/bin/env python3
"""roll-rank-cuda starts on any machine. Without a visible GPU it fails with one sentence that blames the machine."""
import json
import os
import subprocess
import sys
import tempfile
import unittest

RANK = os.path.abspath(sys.argv.pop(1))
UNFIT = 77


class RankCudaTest(unittest.TestCase):

    def run_rank(self, top, gpus):
        corpus = os.path.join(top, 'corpus.txt')
        with open(corpus, 'w', encoding='utf-8') as file:
            file.write('one two three four five six seven ' * 100)
        document = {
            'name': 'tiny', 'kind': 'train', 'resources': {'nodes': 1, 'gpus_per_node': 1},
            'model': {'family': 'llama', 'hidden_size': 32, 'intermediate_size': 64, 'num_hidden_layers': 1,
                      'num_attention_heads': 2, 'vocab_size': 256, 'max_position_embeddings': 64},
            'tokenizer': 'bytes', 'data': {'train': [corpus]}, 'objective': 'pretrain',
            'train': {'seq_length': 32, 'global_batch_size': 2, 'micro_batch_size': 2, 'steps': 2, 'precision': 'fp32',
                      'optimizer': {'lr': 1e-3}}}
        launch = os.path.join(top, 'launch-0.json')
        with open(launch, 'w', encoding='utf-8') as file:
            json.dump({'v': 1, 'attempt': {'job': 1, 'token': '1-1'}, 'kind': 'train', 'document': json.dumps(document),
                       'output': top, 'logs': top, 'nodes': 1, 'node_rank': 0, 'ranks_per_node': 1, 'gpus': gpus,
                       'nonce': 'n', 'checkpoints': []}, file)
        read, write = os.pipe()
        with open(read, encoding='utf-8') as reports:
            run = subprocess.run(
                [RANK, '--launch', launch, '--rank', '0'], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                timeout=120, check=False, close_fds=False, preexec_fn=lambda: os.dup2(write, 3),
                env={'PATH': '/usr/bin:/bin', 'OMP_NUM_THREADS': '1', 'CUDA_VISIBLE_DEVICES': ''})
            os.close(write)
            return run, [json.loads(line) for line in reports]

    def test_without_a_gpu_it_says_so(self):
        with tempfile.TemporaryDirectory(prefix='roll-cuda-') as top:
            run, reports = self.run_rank(top, [0])
        self.assertEqual(run.returncode, UNFIT, run.stderr)
        lines = run.stderr.splitlines()
        self.assertEqual(len(lines), 1, run.stderr)
        self.assertEqual(['error: ' + report['message'] for report in reports], lines)
        self.assertRegex(lines[0], r'^error: cannot use GPU 0: .+; run the job on a node that offers GPUs, or ')


if __name__ == '__main__':
    unittest.main()
