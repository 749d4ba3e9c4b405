#!/usr/bin/env python3
"""bfloat16 weights with float32 main weights: loss curve, checkpoint, export. layout_jobs_test.py and
reshard_test.py resume such jobs."""
import os
import subprocess
import unittest
import zipfile

from ranks import CONVERT, RankCase



class Bf16Test(RankCase):

    def test_the_loss_goes_down_as_in_fp32(self):
        losses = {}
        for job, precision in enumerate(('fp32', 'bf16'), start=1):
            run = self.run_whole(job, 1, self.document(60, train__precision=precision))
            losses[precision] = [row['loss'] for row in run.metrics() if 'loss' in row]
        off = [abs(b - a) / a for a, b in zip(losses['fp32'], losses['bf16'], strict=True)]
        print(f'60 steps: fp32 ends at {losses["fp32"][-1]:.4f}, bf16 at {losses["bf16"][-1]:.4f}; at most '
              f'{max(off):.2%} apart')
        self.assertLess(losses['fp32'][-1], 0.7 * losses['fp32'][0])
        self.assertTrue(0 < max(off) < 0.02, max(off))

    def test_a_checkpoint_holds_the_main_weights(self):
        whole = self.run_whole(1, 1, self.document(40, train__precision='bf16'))
        self.refused(self.document(60, dp=1), 2, 'train.precision: fp32 cannot continue', kind='resume',
                     checkpoints=whole.published)
        # The stored weights are float32, and few of them are exact in bfloat16.
        weights = os.path.join(whole.published[-1][1], 'iter_0000001/mp_rank_00/model_optim_rng.pt')
        with zipfile.ZipFile(weights) as file:
            largest = max((info for info in file.infolist() if '/data/' in info.filename), key=lambda i: i.file_size)
            words = memoryview(file.read(largest)).cast('H')[::2]
        self.assertGreater(sum(word != 0 for word in words) / len(words), 0.9)

    def test_what_it_computed_with_is_its_export_in_bf16(self):
        run = self.run_whole(1, 1, self.document(20, dp=1, train__precision='bf16'))
        told = [row['valid_loss'] for row in run.metrics() if 'valid_loss' in row][-1]
        export = os.path.join(self.top, 'export')
        subprocess.run([CONVERT, 'convert', run.published[-1][1], export, '--to', 'hf', '--dtype', 'bf16'], check=True,
                       capture_output=True)
        with open(self.corpus, 'rb') as file:
            size = len(file.read())
        held_out = size - int(0.02 * size + 0.5)
        theirs = float(self.oracle('hf_start.py', 'loss', export, 'float32', self.corpus, 32, f'{held_out}:{size}'))
        print(f'held-out loss: roll in bf16 {told:.6f}, transformers in fp32 on the bf16 export {theirs:.6f}')
        self.assertLess(abs(theirs - told), 3e-3 * told)


if __name__ == '__main__':
    unittest.main()
