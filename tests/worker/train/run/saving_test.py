#!/usr/bin/env python3
"""Retention of checkpoints, and a full disk: at the start, for a while, until the end."""
import os
import re
import signal
import subprocess
import time
import unittest

from ranks import CONVERT, PATIENCE_S, Attempt, RankCase, write_text


class MixedProcessors(Attempt):
    """An attempt whose rank 1 has a processor without AVX2."""

    def start(self, rank, log, setup):
        self.env.pop('ROLL_PROCESSOR', None)
        if rank == 1:
            self.env['ROLL_PROCESSOR'] = 'default'
        super().start(rank, log, setup)


def await_true(what, attempt, condition):
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        if time.monotonic() > deadline or attempt.ranks[0].poll() is not None:
            raise AssertionError(f'{what}: {attempt.log()}')
        time.sleep(0.01)


class Saving(RankCase):

    def small_disk(self, kib):
        small = os.path.join(self.top, 'small')
        os.mkdir(small)
        if subprocess.run(['mount', '-t', 'tmpfs', '-o', f'size={kib}k', 'tmpfs', small],
                          capture_output=True, check=False).returncode:
            self.skipTest('a small file system cannot be mounted here')
        self.addCleanup(subprocess.run, ['umount', small], check=True)
        return small

    def test_a_disk_without_room_is_found_at_the_start(self):
        document = self.document(9, dp=1, checkpoint__every=1)
        attempt = Attempt(self, 9, 1, document, output=self.small_disk(400))
        self.assertEqual(attempt.wait(), [4], attempt.log())
        message = attempt.said('failed')[0]['message']
        self.assertRegex(message, r'^output: no space for a checkpoint: \S+/checkpoints has \S+ MiB free, but '
                                  r'the checkpoint needs (\S+) MiB; free disk space')
        needed = float(re.search(r'needs (\S+) MiB', message).group(1))
        run = self.run_whole(1, 1, self.document(1, dp=1))
        folder = run.published[0][1]
        whole = sum(os.path.getsize(os.path.join(place, name)) for place, _, names in os.walk(folder) for name in names)
        self.assertLessEqual(whole, needed * 2 ** 20)
        self.assertGreater(whole, needed * 2 ** 20 - (128 << 10))
        self.assertEqual(attempt.metrics(), [])

    def test_a_full_disk_to_the_end_is_4_and_keeps_the_last_checkpoint(self):
        small = self.small_disk(700)
        document = self.document(9, dp=1, checkpoint__every=1, checkpoint__keep=9, checkpoint__wait_for_space='2s')
        begun = time.monotonic()
        attempt = Attempt(self, 9, 1, document, output=small)
        self.assertEqual(attempt.wait(), [4], attempt.log())
        self.assertGreater(time.monotonic() - begun, 2)
        message = attempt.said('failed')[0]['message']
        self.assertRegex(message, r'^the last checkpoint could not be written: no space for a checkpoint: \S+ has \S+ '
                                  r'MiB free, but the checkpoint needs \S+ MiB; the newest saved checkpoint is of step '
                                  r'1; free some disk space, then continue from this checkpoint with rollctl resume$')
        self.assertNotIn('\n', message)
        self.assertEqual(attempt.log().count('is postponed, and training continues'), 1)
        self.assertRegex(attempt.log(), r"warning: \S+ has \S+ MiB free, but the job's checkpoints will need \S+ MiB\n")
        left = os.listdir(os.path.join(small, 'checkpoints'))
        self.assertEqual(left, ['step-00000001.1-1'])
        self.assertEqual([row['step'] for row in attempt.metrics() if 'loss' in row], list(range(1, 10)))

    def filled_at_the_end(self, dp):
        """Returns a run that has finished its steps and waits with its last checkpoint, because the disk is full."""
        small = self.small_disk(3000)
        ballast = os.path.join(small, 'ballast')
        with open(ballast, 'wb') as file:
            file.write(bytes(2100 << 10))
        document = self.document(12, dp=dp, checkpoint__every=6, checkpoint__wait_for_space='1h')
        attempt = Attempt(self, 9, 1, document, output=small)
        await_true('does not wait', attempt,
                   lambda: any(report['p'].get('phase') == 'wait for disk space'
                               for report in attempt.said('progress')))
        return attempt, ballast

    def test_the_last_checkpoint_waits_for_room_and_the_run_ends_as_if_there_had_been(self):
        attempt, ballast = self.filled_at_the_end(2)
        self.assertEqual([step for step, _ in attempt.published], [6])
        os.remove(ballast)
        self.assertEqual(attempt.wait(), [0, 0], attempt.log())
        self.assertEqual([step for step, _ in attempt.published], [6, 12])
        whole = self.run_whole(1, 1, self.document(12, dp=2, checkpoint__every=6))
        self.assertEqual(attempt.weights(12), whole.weights(12))
        self.assertEqual(attempt.metrics(), whole.metrics())

    def test_a_run_that_waits_for_room_can_be_stopped_and_goes_on_later(self):
        attempt, ballast = self.filled_at_the_end(2)
        attempt.ranks[1].send_signal(signal.SIGTERM)
        self.assertEqual(attempt.wait(), [75, 75], attempt.log())
        self.assertIn('stopped at step 12 while waiting for disk space for its checkpoint', attempt.log())
        os.remove(ballast)
        again = self.run_whole(9, 2, self.document(12, dp=2, checkpoint__every=6), attempt.published,
                               output=attempt.output)
        self.assertIn('resumed at step 6 ', again.log())
        self.assertEqual(again.published[-1][0], 12)

    def test_a_disk_that_is_full_for_a_while_puts_saving_off_and_loses_nothing(self):
        small = self.small_disk(3000)
        ballast, rest = os.path.join(small, 'ballast'), os.path.join(small, 'rest')
        with open(ballast, 'wb') as file:
            file.write(bytes(2100 << 10))
        attempt = Attempt(self, 9, 1, self.document(10 ** 6, dp=1, checkpoint__every=20, checkpoint__keep=1),
                          output=small)
        await_true('not put off', attempt, lambda: 'is postponed' in attempt.log())
        try:
            with open(rest, 'wb', buffering=0) as file:
                while file.write(bytes(4096)):
                    pass
        except OSError:
            pass
        full_at = attempt.metrics()[-1]['step']

        def postponed():
            return attempt.said('progress')[-1]['p'].get('checkpoint_postponed', '')
        await_true('not told', attempt, lambda: 'no space' in postponed())
        time.sleep(0.5)
        self.assertLessEqual(attempt.metrics()[-1]['step'], full_at + 20)
        for path in filter(os.path.exists, (ballast, rest)):
            os.remove(path)
        await_true('no checkpoint once there is room', attempt, lambda: len(attempt.published) > 1)
        await_true('still told', attempt, lambda: not postponed())
        attempt.ranks[0].send_signal(signal.SIGTERM)
        self.assertEqual(attempt.wait(), [75], attempt.log())
        steps = [row['step'] for row in attempt.metrics()]
        self.assertGreater(steps[-1], full_at)
        self.assertEqual(steps, list(range(1, steps[-1] + 1)))

    def test_a_checkpoint_asked_for_comes_once_it_can_be_written(self):
        small = self.small_disk(3000)
        place = os.path.join(self.top, 'job-9', 'checkpoints')
        os.makedirs(os.path.dirname(place))
        os.symlink(small, place)
        attempt = Attempt(self, 9, 1, self.document(10 ** 6, dp=1))
        attempt.wait_step(1)
        subprocess.run(['mount', '-o', 'remount,ro', small], check=True)
        attempt.say(0, {'t': 'save', 'asked': 3})
        await_true('not put off', attempt, lambda: 'is postponed' in attempt.log())
        subprocess.run(['mount', '-o', 'remount,rw', small], check=True)
        await_true('no checkpoint once it can be written', attempt, lambda: attempt.said('checkpoint'))
        time.sleep(0.5)
        self.assertEqual([report.get('asked') for report in attempt.said('checkpoint')], [3])

    def test_an_old_checkpoint_that_cannot_be_deleted_is_a_warning(self):
        document = {'checkpoint__every': 2, 'train__optimizer__schedule': 'constant'}
        first = self.run_whole(1, 1, self.document(4, dp=1, **document))
        stuck = os.path.join(os.path.dirname(first.published[0][1]), '.trash-step-00000002.1-1', 'stuck')
        os.makedirs(stuck)
        if subprocess.run(['mount', '-t', 'tmpfs', 'tmpfs', stuck], capture_output=True, check=False).returncode:
            self.skipTest('no file system can be mounted here')
        unmounted = ['umount', stuck]
        self.addCleanup(subprocess.run, unmounted, capture_output=True, check=False)
        second = self.run_whole(1, 2, self.document(8, dp=1, checkpoint__keep=1, **document),
                                reversed(first.published))
        self.assertEqual(second.log().count('warning: an old checkpoint cannot be deleted yet'), 1, second.log())
        self.assertEqual([report['step'] for report in second.said('pruned')], [4, 6])
        subprocess.run(unmounted, check=True)
        known = [*second.published[-1:], *first.published[:1]]
        third = self.run_whole(1, 3, self.document(10, dp=1, checkpoint__keep=1, **document), known)
        self.assertEqual({report['step'] for report in third.said('pruned')}, {2, 8})
        self.assertEqual(os.listdir(os.path.join(third.output, 'checkpoints')), ['step-00000010.1-3'])

    def test_multiples_stay_and_the_newest_alone_keep_optimizer_state(self):
        run = self.run_whole(1, 1, self.document(50, dp=1, checkpoint__every=5, checkpoint__keep=2,
                                                 checkpoint__keep_every=20, checkpoint__keep_optimizer=1))
        folder = os.path.join(run.output, 'checkpoints')
        left = sorted(os.listdir(folder))
        self.assertEqual(left, [f'step-000000{step}.1-1' for step in (20, 40, 45, 50)])
        have = [name for name in left if os.path.exists(os.path.join(folder, name, 'roll/optimizer'))]
        self.assertEqual(have, left[-1:])
        whole = self.run_whole(2, 1, self.document(60, dp=1, train__optimizer__decay_steps=50))
        more = self.document(60, dp=1, kind='resume', train__optimizer__decay_steps=50)
        again = self.run_whole(3, 1, more, reversed(run.published[-2:]), kind='resume')
        self.assertEqual(again.weights(60)['roll/optimizer/rank-00000.safetensors'],
                         whole.weights(60)['roll/optimizer/rank-00000.safetensors'])
        self.refused(more, 1, 'the optimizer state of this checkpoint was deleted', kind='resume',
                     checkpoints=run.published[-2:-1])

    def test_checkpoints_that_the_ledger_records_only_at_the_end_are_counted(self):
        attempt = Attempt(self, 1, 1, self.document(6, dp=1, checkpoint__every=2, checkpoint__keep=2), record=False)
        await_true('not all saved', attempt, lambda: len(attempt.published) == 3)
        for step in (2, 4, 6):
            attempt.say(0, {'t': 'recorded', 'step': step})
        self.assertEqual(attempt.wait(), [0], attempt.log())
        self.assertEqual(sorted(os.listdir(os.path.join(attempt.output, 'checkpoints'))),
                         ['step-00000004.1-1', 'step-00000006.1-1'])

    def test_replicas_on_other_processors_write_a_checkpoint_that_can_be_verified(self):
        """Their weights differ by rounding, so one replica must write all of them."""
        document = self.document(20, dp=4, model__hidden_size=256, model__vocab_size=4096, checkpoint__every=20)
        run = MixedProcessors(self, 1, 1, document)
        self.assertEqual(run.wait(), [0] * 4, run.log())
        checked = subprocess.run([CONVERT, 'verify', dict(run.published)[20]], capture_output=True, text=True,
                                 check=False)
        self.assertEqual(checked.returncode, 0, checked.stderr)

    def test_the_first_step_proves_that_saving_works(self):
        run = self.run_whole(1, 1, self.document(4, checkpoint__first_step=True))
        self.assertEqual([r['step'] for r in run.said('checkpoint')], [1, 4])
        self.assertIn('checkpoint of step 1 staged, and read back\n', run.log())
        self.assertIn('checkpoint of step 4 staged\n', run.log())
        self.assertIn('warning: checkpoint.every is 0: if the job is killed before step 4', run.log())

    def test_a_directory_that_cannot_be_written_is_found_before_the_first_step(self):
        output = os.path.join(self.top, 'job-9')
        os.makedirs(output)
        write_text(os.path.join(output, 'checkpoints'), 'no directory')
        attempt = Attempt(self, 9, 1, self.document(4, dp=1))
        self.assertNotEqual(attempt.wait(), [0])
        self.assertIn(os.path.join(output, 'checkpoints'), attempt.said('failed')[0]['message'])
        self.assertEqual(attempt.metrics(), [])


if __name__ == '__main__':
    unittest.main()
