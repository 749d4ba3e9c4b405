#!/usr/bin/env python3
"""roll-rank-cuda starts on any machine. Without a visible GPU it fails with one sentence that blames the machine."""
import unittest

from ranks import Attempt, RankCase

UNFIT = 77


class RankCudaTest(RankCase):

    def test_without_a_gpu_it_says_so(self):
        attempt = Attempt(self, 1, 1, self.document(2, dp=1, resources__gpus_per_node=1), gpus=[0],
                          env={'CUDA_VISIBLE_DEVICES': ''})
        self.assertEqual(attempt.wait(), [UNFIT], attempt.log())
        lines = attempt.log().splitlines()
        self.assertEqual(len(lines), 1, lines)
        self.assertEqual(['error: ' + report['message'] for report in attempt.said('failed')], lines)
        self.assertRegex(lines[0], r'^error: cannot use GPU 0: .+; run the job on a node that offers GPUs, or ')


if __name__ == '__main__':
    unittest.main()
