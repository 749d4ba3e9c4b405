#!/usr/bin/env python3
"""Damaged checkpoints, as the source of a resumed job, of a new job and of a conversion; and disks without inodes."""
import glob
import itertools
import os
import shutil
import subprocess
import time
import unittest

from ranks import CONVERT, PATIENCE_S, Attempt, RankCase

FORMATS = {'torch_dist': ({'dp': 2}, 'iter_0000001/__1_0.distcp'),
           'mca': ({'dp': 1, 'parallel__tp': 2, 'resources__slots_per_node': 2},
                   'iter_0000001/mp_rank_01/model_optim_rng.pt')}


def flipped(path, at):
    with open(path, 'r+b') as file:
        file.seek(at)
        byte = file.read(1)[0]
        file.seek(at)
        file.write(bytes([byte ^ 1]))


def damages(path, other):
    """Yields (name, action) for each kind of damage to the file. `other`: the same file of another step."""
    size = os.path.getsize(path)
    yield 'missing', lambda: os.remove(path)
    for place, at in (('in a tensor', size // 3), ('in the directory', size - 30)):
        yield 'truncated ' + place, lambda at=at: os.truncate(path, at)
        yield 'flipped ' + place, lambda at=at: flipped(path, at)
    yield 'of another step', lambda: shutil.copyfile(other, path)


class Damage(RankCase):

    def setUp(self):
        super().setUp()
        self.numbers = itertools.count(50)

    def document_of(self, kind, **changes):
        return self.document(6, **FORMATS[kind][0], **{'checkpoint__every': 2, 'checkpoint__format': kind,
                                                       'checkpoint__keep': 9, **changes})

    def source(self, kind):
        """Returns {step: directory} of a new run's checkpoints of steps 2 and 4."""
        run = self.run_whole(next(self.numbers), 1, self.document_of(kind, train__steps=4))
        self.assertEqual([step for step, _ in run.published], [2, 4])
        return dict(run.published)

    def cases(self, kind):
        """Yields (damage, checkpoints, damaged file) for each kind of damage to a run's last checkpoint."""
        found, name = self.source(kind), FORMATS[kind][1]
        whole = os.path.join(self.top, 'whole-' + kind)
        shutil.copytree(found[4], whole)
        path = os.path.join(found[4], name)
        for damage, act in damages(path, os.path.join(found[2], name)):
            with self.subTest(kind=kind, damage=damage):
                act()
                yield damage, found, path
            shutil.rmtree(found[4])
            shutil.copytree(whole, found[4])

    def test_a_job_resumes_from_the_checkpoint_before_a_damaged_one(self):
        for number, (_, found, path) in enumerate(self.cases('torch_dist'), start=1):
            recorded = sorted(found.items(), reverse=True)
            document = self.document_of('torch_dist')
            run = self.run_whole(number, 1, document, recorded, kind='resume')
            self.assertIn(f'the checkpoint {found[4]} is skipped: {path} ', run.log())
            self.assertIn('resumed at step 2 ', run.log())
            alone = Attempt(self, 99, number, document, recorded[:1], kind='resume')
            self.assertEqual(set(alone.wait()), {1}, alone.log())
            self.assertRegex(alone.said('failed')[0]['message'],
                             'no recorded checkpoint passes verification .checked: 1.; the newest checkpoint: '
                             f'.*{path}.*; restore a copy')

    def test_a_new_job_does_not_take_weights_from_a_damaged_checkpoint(self):
        for kind in FORMATS:
            for damage, found, path in self.cases(kind):
                model = {'from': found[4], 'optimizer': kind == 'torch_dist'}

                def refused():
                    attempt = Attempt(self, next(self.numbers), 1, self.document_of(kind, model=model))
                    self.assertEqual(attempt.wait(), [2, 2], attempt.log())
                    message = attempt.said('failed')[0]['message']
                    self.assertIn(path, message)
                    if damage.startswith(('flipped', 'of another')):
                        self.assertRegex(message, '; copy the file again from its source, or use an earlier '
                                                  'checkpoint$')
                with self.subTest(checksums='manifest'):
                    refused()
                # Without the manifest, only torch's CRC-32s are left. They do not tell the step.
                if damage in ('of another step', 'flipped in the directory'):
                    continue
                with self.subTest(checksums='CRC-32'):
                    os.remove(os.path.join(found[4], 'roll/manifest.json'))
                    refused()

    def test_optimizer_state_is_checked_if_it_is_used(self):
        found = self.source('mca')
        model = {'from': found[4], 'optimizer': True}
        state = os.path.join(found[4], 'roll/optimizer/rank-00001.safetensors')
        flipped(state, os.path.getsize(state) - 100)
        self.refused(self.document_of('mca', model=model), 2,
                     f'{state} does not match its checksum in the manifest; copy the file again')
        self.run_whole(2, 1, self.document_of('mca', model={'from': found[4]}))
        os.remove(os.path.join(found[4], 'roll/manifest.json'))
        index = os.path.join(found[4], 'roll/optimizer/index.json')
        os.truncate(index, os.path.getsize(index) // 2)
        self.refused(self.document_of('mca', model=model), 2, index + ': ', output=os.path.join(self.top, 'other'))

    def test_a_conversion_refuses_a_damaged_checkpoint_and_leaves_no_target(self):
        target = os.path.join(self.top, 'target')

        def convert(source, *words):
            done = subprocess.run([CONVERT, 'convert', source, target, *words], capture_output=True, text=True,
                                  check=False)
            self.assertFalse(os.path.exists(target), done.stderr)
            return done.returncode, done.stderr
        for kind in FORMATS:
            for damage, found, path in self.cases(kind):
                for words in (['--verify'], [] if damage.startswith(('missing', 'truncated')) else ['--verify']):
                    code, text = convert(found[4], '--to', 'hf', *words)
                    self.assertIn(code, (1, 3), text)
                    self.assertIn(path, text)
                    self.assertIn('\n  next: copy the file again', text)
        found = self.source('mca')
        state = os.path.join(found[4], 'roll/optimizer/rank-00001.safetensors')
        flipped(state, os.path.getsize(state) - 100)
        code, text = convert(found[4], '--to', 'torch_dist', '--optimizer', '--verify')
        self.assertEqual((code, f'{state} does not match its checksum' in text), (1, True), text)

    def test_a_disk_that_fills_up_within_a_save_puts_the_save_off(self):
        small = os.path.join(self.top, 'small')
        os.mkdir(small)
        if subprocess.run(['mount', '-t', 'tmpfs', 'tmpfs', small], capture_output=True, check=False).returncode:
            self.skipTest('a small file system cannot be mounted here')
        self.addCleanup(subprocess.run, ['umount', small], check=True)

        def allow(inodes):
            """Lets `inodes` more files and directories be created; None: any number."""
            used = os.statvfs(small).f_files - os.statvfs(small).f_ffree
            number = 10 ** 5 if inodes is None else used + inodes
            subprocess.run(['mount', '-o', f'remount,nr_inodes={number}', small], check=True)

        def await_true(what):
            deadline = time.monotonic() + PATIENCE_S
            while not what():
                self.assertIsNone(attempt.ranks[0].poll(), attempt.log())
                self.assertLess(time.monotonic(), deadline, attempt.log())
                time.sleep(0.01)
        for number, kind in enumerate(FORMATS, start=1):
            allow(None)
            place = os.path.join(self.top, f'job-{number}', 'checkpoints')
            os.makedirs(os.path.dirname(place))
            os.makedirs(os.path.join(small, kind))
            os.symlink(os.path.join(small, kind), place)
            document = self.document_of(kind, train__steps=10 ** 6, checkpoint__every=0, checkpoint__keep=99)
            attempt = Attempt(self, number, 1, document)
            attempt.wait_step(1)
            attempt.say(0, {'t': 'save', 'asked': 1})
            await_true(lambda: attempt.published)
            whole = len(glob.glob(os.path.join(attempt.published[0][1], '**'), recursive=True))
            for inodes in range(whole):
                with self.subTest(kind=kind, inodes=inodes):
                    saved, put_off = len(attempt.published), attempt.log().count('is postponed')
                    allow(inodes)
                    attempt.say(0, {'t': 'save', 'asked': 2 + inodes})
                    await_true(lambda: attempt.log().count('is postponed') > put_off)
                    said = [line for line in attempt.log().splitlines() if 'is postponed' in line]
                    self.assertIn('No space left on device', said[-1])
                    allow(None)
                    await_true(lambda: len(attempt.published) > saved)
            for rank in (0, 1):
                attempt.ranks[rank].terminate()
            self.assertEqual(attempt.wait(), [75, 75], attempt.log())
            self.assertEqual(sorted(os.listdir(place)), sorted(os.path.basename(path) for _, path in attempt.published))
            self.assertGreater(whole, 8)
            for step, path in attempt.published[-2:]:
                resumed = self.run_whole(number + 2, step, self.document_of(kind, train__steps=step + 1),
                                         [(step, path)], kind='resume')
                self.assertIn(f'resumed at step {step} ', resumed.log())


if __name__ == '__main__':
    unittest.main()
