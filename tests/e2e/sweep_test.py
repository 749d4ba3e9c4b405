#!/usr/bin/env python3
"""Sweeps: one job file makes many trials, rolld stops the worse ones, a table compares them."""
import csv
import io
import json
import os
import subprocess
import unittest

from harness import OVER, RollTest, wait_until

# Writes a row of metrics every 30 ms: the loss is what LOSS says, and falls a little.
TRIAL = '''i=0; while [ $i -lt $STEPS ]; do i=$((i + 1));
echo "{\\"step\\": $i, \\"loss\\": $LOSS.$((999 - i))}" >> $ROLL_OUTPUT/metrics.jsonl; sleep 0.03; done'''


class Sweep(RollTest):

    def sweep_file(self, sweep, steps=40):
        return self.write('sweep.yaml', json.dumps({
            'name': 'search', 'kind': 'command', 'command': ['sh', '-c', TRIAL],
            'env': {'STEPS': steps}, 'sweep': sweep}))

    def trials(self, job):
        return self.json('sweep', 'show', job)['trials']

    def test_halving_stops_the_worse_trials_and_survives_a_killed_rolld(self):
        self.up(slots=9)
        losses = [5, 3, 8, 1, 9, 2, 7, 4, 6]
        path = self.sweep_file({'grid': {'env.LOSS': losses}, 'halving': {
            'min_steps': 20, 'reduction': 3}}, steps=150)
        ids = self.ctl('sweep', '--parsable', path).stdout.split()
        self.assertEqual(ids, [str(i) for i in range(1, 10)])
        after = self.submit('--after', 'ok:1', '--', 'true')
        # All start at once. Six stop at step 20, and two at step 60, where one goes on.
        wait_until(lambda: any(t['state'] == 'cancelled' for t in self.trials(1)), 'a stopped trial')
        self.kill_rolld()
        self.ctl('up')
        states = wait_until(lambda: all(t['state'] in OVER for t in self.trials(1)) and
                            self.trials(1), 'all trials to end')
        done = [t['parameters']['env.LOSS'] for t in states if t['state'] == 'done']
        self.assertEqual(done, [1])
        for trial in states:
            loss = trial['parameters']['env.LOSS']
            if loss != 1:
                rung = 60 if loss <= 3 else 20
                self.assertIn(f'stopped by halving at step {rung}: loss {loss}.', trial['reason'])
        self.assertEqual(self.ctl('wait', '1-9').returncode, 0)
        self.assertEqual(self.wait(after)['state'], 'done')
        row = self.ctl('jobs', '-a').stdout.splitlines()[1]
        self.assertRegex(row, r'^ *1\[0-8\] +search +\S+ +done ')
        self.assertEqual([self.show(t['id'])['halved'] for t in states], [t['id'] != 4 for t in states])
        shown = self.json('sweep', 'show', 5)
        self.assertEqual((shown['best'], shown['percent'], shown['metric']), (4, 100, 'loss'))
        self.assertEqual(self.ctl('sweep', 'best', 'search', '--parsable').stdout, '4\n')
        self.assertIn('env.LOSS: 1', self.ctl('sweep', 'best', 'search').stdout)
        rows = list(csv.DictReader(io.StringIO(self.ctl('sweep', 'show', 1, '--csv').stdout)))
        self.assertEqual([row['env.LOSS'] for row in rows], [str(loss) for loss in losses])
        self.assertEqual(rows[3]['best'], '1.849')
        self.assertIn('sweep 1 search: 9 trials, 100 % done', self.ctl('sweep', 'show', 1).stdout)
        steps = self.json('sweep', 'show', 1, '--metric', 'step', '--mode', 'max')
        self.assertEqual((steps['metric'], steps['mode'], steps['best']), ('step', 'max', 4), 'the longest trial')
        self.assertIn('best trial: job 4 with step 150', self.ctl('sweep', 'best', 1, '--metric', 'step', '--mode',
                                                                  'max').stdout)
        none = self.ctl('sweep', 'show', 1, '--metric', 'lost', check=False)
        self.assertEqual((none.returncode, none.stdout), (3, ''))
        self.assertIn('no trial of sweep 1 has a value of lost', none.stderr)

    def test_at_most_so_many_run_at_once_and_problems_name_the_trial(self):
        self.up(slots=4)
        first = self.submit(self.sweep_file({'at_once': 2, 'random': {
            'trials': 6, 'seed': 3, 'parameters': {'env.LOSS': {'choice': [1, 2]}}}}, steps=8))
        most = 0
        while not all(t['state'] in OVER for t in self.trials(first)):
            most = max(most, sum(t['state'] == 'running' for t in self.trials(first)))
        self.assertLessEqual(most, 2)
        self.assertEqual([t['state'] for t in self.trials(first)], ['done'] * 6)
        bad = self.ctl('sweep', self.sweep_file({'list': [{'resources.nodes': 1},
                                                          {'resources.nodes': 2}]}), check=False)
        self.assertEqual(bad.returncode, 2)
        self.assertIn('changes what the scheduler reads', bad.stderr)
        self.assertIn('trial 1: resources.nodes=2', bad.stderr)
        silent = self.write('silent.yaml', json.dumps({
            'name': 'silent', 'kind': 'command', 'command': ['true'], 'sweep': {'grid': {'env.A': [1, 2]}}}))
        ids = self.ctl('sweep', '--parsable', silent).stdout.split()
        self.assertEqual(self.ctl('wait', *ids).returncode, 0)
        none = self.ctl('sweep', 'best', ids[0], check=False)
        self.assertEqual(none.returncode, 3)
        self.assertIn(f'no trial of sweep {ids[0]} has a value of loss\n', none.stderr)
        plain = self.submit('--', 'true')
        for verb in ('show', 'best'):
            refused = self.ctl('sweep', verb, plain, check=False)
            self.assertEqual(refused.returncode, 2)
            self.assertIn(f'job {plain} is not part of a sweep', refused.stderr)
        again = self.submit_again(first + 2)
        self.assertEqual(self.wait(again)['state'], 'done')

    def submit_again(self, job):
        return int(self.ctl('resubmit', job, '--parsable').stdout.split()[0])

    def git(self, *args):
        subprocess.run(['git', '-c', 'user.name=a', '-c', 'user.email=a@b', *args], cwd=self.work,
                       env=self.env, check=True, capture_output=True)

    def test_the_commit_and_the_diff_of_the_work_tree_stay_with_the_job(self):
        self.up()
        outside = self.submit('--', 'true')
        self.assertNotIn('git', self.show(outside)['spec'])
        self.git('init', '-q', '-b', 'main')
        self.write('code.py', 'one\n')
        self.git('add', 'code.py')
        self.git('commit', '-qm', 'first')
        clean = self.submit('--key', 'k', '--', 'true')
        self.write('code.py', 'two\n')
        self.assertEqual(self.submit('--key', 'k', '--', 'true'), clean)
        dirty = self.submit('--', 'true')
        os.remove(os.path.join(self.work, 'code.py'))
        state = self.show(clean)['spec']['git']
        self.assertEqual((state['branch'], state['dirty'], len(state['commit'])), ('main', False, 40))
        self.assertIn(f'git             {state["commit"][:12]} on main, with changes',
                      self.ctl('show', dirty).stdout)
        self.assertIn('-one\n+two\n', self.ctl('show', dirty, '--diff').stdout)
        self.assertEqual(self.ctl('show', clean, '--diff', check=False).returncode, 3)
        left_out = self.submit('--no-git', '--', 'true')
        self.assertNotIn('git', self.show(left_out)['spec'])
        self.write('code.py', 'three\n' * 200_000)
        large = self.show(self.submit('--', 'true'))['spec']['git']
        self.assertEqual(large['diff_left_out'], 'the diff is longer than 1048576 bytes')
        self.assertNotIn('diff', large)

    def test_a_work_tree_runs_none_of_its_commands_at_submit(self):
        self.up()
        mark = os.path.join(self.top, 'ran')
        self.git('init', '-q', '-b', 'main')
        self.write('code.py', 'one\n')
        self.write('.gitattributes', 'code.py filter=evil diff=evil\n')
        self.git('add', '.')
        self.git('commit', '-qm', 'first')
        for key in ('filter.evil.clean', 'diff.evil.textconv', 'core.fsmonitor'):
            self.git('config', key, f'touch {mark}; cat')
        self.git('config', 'diff.external', f'touch {mark}; true')
        self.write('code.py', 'two\n')
        state = self.show(self.submit('--', 'true'))['spec']['git']
        self.assertTrue(state['dirty'])
        self.assertIn('-one\n+two\n', state['diff'])
        self.assertFalse(os.path.exists(mark))
        self.git('diff', 'HEAD')
        self.assertTrue(os.path.exists(mark), 'git itself runs them')


if __name__ == '__main__':
    unittest.main()
