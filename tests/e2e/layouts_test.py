#!/usr/bin/env python3
"""Real processes in many layouts train examples/kjv.yaml like one rank, in fp64.

ROLL_LAYOUTS=all runs every layout for 200 steps (`tests/run layouts`, half an hour on two cores); without it, the test
runs one layout for 8 steps. Rounding differs between layouts, so the difference grows with the steps. It is printed
at several steps, because a jump would be a mistake that the limits do not catch.
"""
import json
import os
import shutil
import struct
import subprocess
import unittest

from harness import RollTest, text_of

EXAMPLES = os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..', 'examples')
ALL = os.environ.get('ROLL_LAYOUTS') == 'all'
STEPS = 200 if ALL else 8
MORE_STEPS = 5 if ALL else 2  # from a checkpoint
LAYOUTS = {
    'dp 8': {'dp': 8},
    'dp 4, zero 2': {'dp': 4, 'zero': 2},
    'dp 4, zero 3': {'dp': 4, 'zero': 3},
    'tp 4, sequence': {'tp': 4, 'sequence': True},
    'tp 2 x dp 4, zero 1': {'tp': 2, 'dp': 4, 'zero': 1},
    'pp 4': {'pp': 4},
    'pp 4, ZB-H1': {'pp': 4, 'schedule': 'zb-h1'},
    'pp 2 x dp 2, interleaved': {'pp': 2, 'vpp': 2, 'dp': 2, 'schedule': 'interleaved'},
    'pp 2 x dp 2, ZB-V, zero 3': {'pp': 2, 'vpp': 2, 'dp': 2, 'schedule': 'zb-v', 'zero': 3},
    'tp 2 x pp 2, sequence, recompute': {'tp': 2, 'pp': 2, 'sequence': True, 'recompute': 'full'},
    'tp 4 x pp 2': {'tp': 4, 'pp': 2},
    'tp 2 x pp 2 x dp 2': {'tp': 2, 'pp': 2, 'dp': 2},
}
MAIN = 'tp 2 x pp 2 x dp 2'


def bf16_values(path):
    """Returns {name: list of floats} of a safetensors file whose tensors are bf16."""
    with open(path, 'rb') as file:
        size = struct.unpack('<Q', file.read(8))[0]
        header = json.loads(file.read(size))
        data = file.read()
    found = {}
    for name, entry in header.items():
        if name == '__metadata__':
            continue
        begin, end = entry['data_offsets']
        halves = struct.unpack(f'<{(end - begin) // 2}H', data[begin:end])
        found[name] = struct.unpack(f'<{len(halves)}f', struct.pack(f'<{len(halves)}I', *(h << 16 for h in halves)))
    return found


class Layouts(RollTest):

    def train(self, name, layout, *changes):
        """Trains kjv.yaml in a layout. Returns the number of the job."""
        ranks = layout.get('dp', 1) * layout.get('tp', 1) * layout.get('pp', 1)
        sets = [f'parallel={json.dumps({"dp": 1, **layout})}', f'resources.slots_per_node={ranks}', f'name={name}',
                'train.precision=fp64', 'train.micro_batch_size=2', f'train.steps={STEPS}', 'train.valid_every=0',
                f'train.optimizer.warmup_steps={min(20, STEPS // 2)}', 'train.sample.every=1000', 'data.valid=0.001',
                f'checkpoint.every={STEPS}', f'output={self.top}/runs/{{id}}', *changes]
        return self.submit(os.path.join(self.work, 'kjv.yaml'), *(part for one in sets for part in ('--set', one)))

    def resumed(self, job, layout):
        ranks = layout.get('dp', 1) * layout.get('tp', 1) * layout.get('pp', 1)
        sets = [f'parallel={json.dumps({"dp": 1, **layout})}', f'resources.slots_per_node={ranks}',
                f'train.steps={STEPS + MORE_STEPS}', 'export=none']
        words = [part for one in sets for part in ('--set', one)]
        return int(self.ctl('resume', job, *words, '--parsable').stdout.split()[0])

    def losses(self, job):
        self.wait_done(job, 3600)
        return {row['step']: row['loss'] for row in self.metrics(job) if 'loss' in row}

    def assert_close(self, name, seen, wanted):
        """Compares two curves, and prints how far they are apart. Rounding may grow to 1e-7 in 200 steps."""
        self.assertEqual(sorted(seen), sorted(wanted))
        apart = {step: abs(seen[step] - wanted[step]) / wanted[step] for step in seen}
        worst = {last: max(value for step, value in apart.items() if step <= last)
                 for last in (1, 5, 8, 20, 50, 100, 200) if last in apart}
        print(f'{name}: ' + ', '.join(f'{value:.1e} by step {step}' for step, value in worst.items()), flush=True)
        self.assertLessEqual(worst[max(step for step in worst if step <= 20)], 1e-10, name)
        self.assertLessEqual(max(apart.values()), 1e-7, name)

    def test_every_layout_trains_like_one_rank(self):
        bible = shutil.which('bible') or '/usr/games/bible'
        text = subprocess.run([bible, '-f', '-l', '1000', 'Gen1:1-Rev22:21'], check=True, capture_output=True,
                              text=True)
        os.mkdir(os.path.join(self.work, 'data'))
        self.write('data/kjv.txt', text.stdout)
        self.write('kjv.yaml', text_of(EXAMPLES, 'kjv.yaml'))
        self.up(slots=8)
        alone = self.train('one', {})
        wanted = self.losses(alone)
        jobs = {}
        for number, (name, layout) in enumerate(LAYOUTS.items()):
            if ALL or name == MAIN:
                jobs[name] = self.train(f'layout-{number}', layout)
        for name, job in jobs.items():
            self.assert_close(name, self.losses(job), wanted)
        self.compare_exports(alone, jobs[MAIN])
        one = self.resumed(jobs[MAIN], {})
        others = {'pp 1': {'tp': 2, 'dp': 2}, 'dp 8': {'dp': 8}}
        others = {name: self.resumed(jobs[MAIN], layout) for name, layout in others.items()}
        wanted = {step: loss for step, loss in self.losses(one).items() if step > STEPS}
        self.assertEqual(len(wanted), MORE_STEPS)
        for name, job in others.items():
            seen = self.losses(job)
            for step, loss in wanted.items():
                self.assertLessEqual(abs(seen[step] - loss) / loss, 1e-10, f'resumed at {name}, step {step}')

    def compare_exports(self, *jobs):
        """The exports may differ where rounding to bf16 turned a difference of 1e-10 into a step of bf16."""
        files = []
        for job in jobs:
            self.wait_done(self.show(job)['export_job'])
            files.append(bf16_values(os.path.join(self.output(job), 'export', 'hf', 'model.safetensors')))
        self.assertEqual(sorted(files[0]), sorted(files[1]))
        count = different = 0
        for name, values in files[0].items():
            for a, b in zip(values, files[1][name], strict=True):
                count += 1
                different += a != b
                self.assertLessEqual(abs(a - b), 2.0 ** -7 * max(abs(a), abs(b)), name)
        print(f'exports: {different} of {count} numbers are one step of bf16 apart', flush=True)
        self.assertLess(different, 1e-4 * count)


if __name__ == '__main__':
    unittest.main()
