#!/usr/bin/env python3
"""data.weights, curriculum and Megatron's order in jobs: exact resume at other layouts, shares, refusals."""
import os
import random
import struct
import unittest

from ranks import DOUBLE, SHORT, RankCase


class OrderTest(RankCase):

    def tokens(self, name, seed, documents=120):
        """Writes a .bin of single bytes with its .idx, as Megatron's IndexedDatasetBuilder does."""
        draw = random.Random(seed)
        texts = [bytes(draw.randrange(97, 97 + 20) for _ in range(draw.randrange(1, 60))) for _ in range(documents)]
        path = os.path.join(self.top, name + '.bin')
        with open(path, 'wb') as file:
            file.write(b''.join(texts))
        offsets = [sum(map(len, texts[:i])) for i in range(documents)]
        with open(path[:-3] + 'idx', 'wb') as file:
            file.write(struct.pack('<9sQBQQ', b'MMIDIDX\0\0', 1, 1, documents, documents + 1)
                       + struct.pack(f'<{documents}i', *map(len, texts)) + struct.pack(f'<{documents}q', *offsets)
                       + struct.pack(f'<{documents + 1}q', *range(documents + 1)))
        return path

    def of(self, data, steps=6, dp=1, **changes):
        document = self.document(steps, dp=dp, resources__slots_per_node=dp, checkpoint__every=3, checkpoint__keep=9,
                                 **{**SHORT, **DOUBLE, **changes})
        document['data'].update(data)
        return document

    def test_resumes_with_the_exact_sample(self):
        files = [self.tokens('a', 1), self.tokens('b', 2)]
        orders = ({'order': 'megatron', 'split': [9, 1, 0]}, {},
                  {'curriculum': [{'step': 0, 'weights': [1, 0]}, {'step': 2, 'weights': [1, 3]}]})
        losses = []
        for job, order in enumerate(orders):
            data = {'train': files, **order}
            if 'curriculum' not in order:
                data['weights'] = [0.3, 0.7]
            whole = self.run_whole(10 * job, 1, self.of(data))
            at_3 = [pair for pair in whole.published if pair[0] == 3]
            same = self.run_whole(10 * job, 2, self.of(data), at_3)
            self.assertIn('resumed at step 3', same.log())
            self.assertEqual(same.weights(6), whole.weights(6), order)
            other = self.run_whole(10 * job + 1, 1, self.of(data, dp=2))  # no sample depends on the layout
            losses.append([row['loss'] for row in whole.metrics() if 'loss' in row])
            for ours, theirs in zip(losses[-1], [row['loss'] for row in other.metrics() if 'loss' in row]):
                self.assertAlmostEqual(ours, theirs, delta=1e-9)
        self.assertEqual(len({losses[0][0], losses[1][0], losses[2][0]}), 3)  # three orders

    def test_refuses_a_damaged_index(self):
        path = self.tokens('a', 1)
        with open(path[:-3] + 'idx', 'r+b') as file:
            file.seek(34 + 4 * 120 + 8 * 7)
            file.write(struct.pack('<q', 10**12))
        self.refused(self.of({'train': [path]}), 2, f'{self.top}/a.idx: has sequence 7 at byte 1000000000000 of its '
                     '.bin; expected: ')


if __name__ == '__main__':
    unittest.main()
