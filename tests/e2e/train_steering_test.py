#!/usr/bin/env python3
"""Training jobs that are steered from outside: a checkpoint on demand, and a chain in one file."""
import json
import os
import signal
import unittest

from harness import RollTest, json_of, text_of, wait_until


class TrainSteering(RollTest):

    def test_a_checkpoint_on_demand_and_training_goes_on(self):
        self.corpus(words=6000)
        self.up()
        job = self.submit(self.train_job(steps=100000, checkpoint__every=0, export='none'))
        self.wait_step(job, 3)
        folder = self.ctl('checkpoint', job).stdout.strip()
        self.assertIn('model_optim_rng.pt', os.listdir(
            os.path.join(folder, 'iter_0000001', 'mp_rank_00')))
        first = self.json('show', job)['job']['checkpoints']
        self.assertEqual([one['directory'] for one in first], [folder])
        again = json.loads(self.ctl('checkpoint', job, '--json').stdout)
        self.assertGreater(again['step'], first[0]['step'])
        # Exports while the job trains; the source is the checkpoint just asked for.
        self.ctl('convert', f'job:{job}', 'early')
        self.ctl('diff', again['directory'], 'early', '--cast')
        self.assertIn('model.safetensors', os.listdir(os.path.join(self.work, 'early')))
        self.assertEqual((self.show(job)['state'], self.show(job)['attempt']), ('running', 1))
        self.change_while_it_trains(job)
        self.ctl('requeue', job)
        wait_until(lambda: self.show(job)['attempt'] == 2 and self.show(job)['state'] == 'running', 'the next attempt')
        saved = self.show(job)['checkpoints'][-1]['step']
        self.assertGreater(saved, again['step'], 'a checkpoint was saved before the attempt ended')
        self.wait_step(job, saved + 1)
        # Ends as at its last step, although only the first rank proposes the step.
        told = json.loads(self.ctl('tell', job, 'stop-at-epoch', '--json').stdout)
        self.assertEqual(self.wait(job)['state'], 'done')
        last = self.metrics(job)[-1]['step']
        self.assertEqual(told['answer'], f'the training ends after step {last} of 100000')
        with open(os.path.join(self.output(job), 'metrics.jsonl'), encoding='utf-8') as file:
            windows = (json.loads(file.readline())['train_tokens'] - 1) // 32
        self.assertLess(last * 8 % windows, 8)
        self.assertLess(last * 8, (told['step'] * 8 // windows + 1) * windows + 8)
        self.assertEqual(self.show(job)['checkpoints'][-1]['step'], last)
        self.assertIn('valid_loss', self.metrics(job)[-1])
        for command in (['checkpoint'], ['tell', 'evaluate']):
            refused = self.ctl(command[0], job, *command[1:], check=False)
            self.assertEqual(refused.returncode, 4)
            self.assertIn('has ended', refused.stderr)

    def change_while_it_trains(self, job):
        """Evaluates, profiles and logs less often, on request; two ranks train."""
        told = json.loads(self.ctl('tell', job, 'evaluate', '--json').stdout)
        row, = [row for row in self.metrics(job) if row['step'] == told['step'] and 'valid_loss' in row]
        self.assertEqual(told['answer'], f'valid_loss {row["valid_loss"]:.4f}')
        told = json.loads(self.ctl('tell', job, 'profile', 3, '--json').stdout)
        first = told['step'] - 2
        self.assertIn(f'profile-{first}-{told["step"]}.json', told['answer'])
        events = [one for one in json_of(told['answer'].split(' is in ')[1])['traceEvents'] if one['ph'] == 'X']
        self.assertEqual([one['name'] for one in events if one['tid'] == 0],
                         [f'step {step}' for step in range(first, first + 3)])
        for rank in (0, 1):
            spans = sorted((one['ts'], one['dur'], one['name']) for one in events if one['tid'] == 1 + rank)
            # Two micro-batches of a step run forward and backward, and no two phases overlap.
            for phase in ('forward', 'backward'):
                self.assertGreaterEqual([name for _, _, name in spans].count(phase), 3 * 2)
            for (begin, length, _), (after, _, _) in zip(spans, spans[1:]):
                self.assertLessEqual(begin + length, after + 0.2)
        self.ctl('tell', job, 'log-every', 50)
        attempt, = self.show(job)['attempts']
        self.assertEqual([one['what'] for one in attempt['requests']], ['evaluate', 'profile', 'log-every'])
        step = attempt['requests'][2]['step']
        self.wait_step(job, (step // 50 + 1) * 50)
        self.assertEqual([row['step'] for row in self.metrics(job) if row['step'] > step and row['step'] % 50], [])
        self.assertIn('request 2 done at step', self.ctl('events', job).stdout)
        wrong = self.ctl('tell', job, 'profile', 0, check=False)
        self.assertEqual(wrong.returncode, 2)
        self.assertIn('request profile: the value is 0; allowed: 1 to 100', wrong.stderr)

    def test_hooks_run_beside_the_training_and_can_stop_it(self):
        self.corpus()
        self.up()
        say = 'echo "$ROLL_HOOK $ROLL_STEP/$ROLL_STEPS ${ROLL_LOSS:-none} $ROLL_CHECKPOINT" >> $ROLL_OUTPUT/said'
        hooks = {name: {'command': ['sh', '-c', say], 'wait': name in ('save', 'evaluation')}
                 for name in ('start', 'save', 'evaluation', 'end')}
        hooks['step'] = {'every': 5, 'command': ['sh', '-c', say + '; exit 3'], 'wait': True}
        calm = self.submit(self.train_job('calm', steps=20, train__valid_every=10, export='none'))
        job = self.submit(self.train_job(steps=20, train__valid_every=10, train__hooks=hooks, export='none'))
        for one in (calm, job):
            self.wait_done(one)
        self.assert_same(job, calm)
        with open(os.path.join(self.output(job), 'said'), encoding='utf-8') as file:
            said = [line.split() for line in file]
        # Hooks that nobody waits for may write in any order.
        self.assertIn(['start', '0/20', 'none'], said)
        end, = [line for line in said if line[0] == 'end']
        self.assertEqual(end[1], '20/20')
        self.assertEqual([line[1] for line in said if line[0] == 'step'], ['5/20', '10/20', '15/20', '20/20'])
        self.assertEqual([line[1] for line in said if line[0] == 'evaluation'], ['10/20', '20/20'])
        saved = {line[1]: line[3] for line in said if line[0] == 'save'}
        self.assertEqual(sorted(saved), ['10/20', '20/20'])
        self.assertIn(saved['20/20'], [c['directory'] for c in self.show(job)['checkpoints']])
        loss = {row['step']: row['loss'] for row in self.metrics(job) if 'loss' in row}
        self.assertAlmostEqual(float(end[2]), loss[20], 4)
        self.assertIn('hook step at step 5 exited with 3; training goes on', self.ctl('logs', job).stdout)
        # A hook that hangs is killed at its time limit with what it started, and ends the job.
        hooks = {'step': {'every': 2, 'command': ['sh', '-c', 'sleep 600 & sleep 600'], 'timeout': '1s',
                          'wait': True, 'on_fail': 'stop'},
                 'start': {'command': ['sh', '-c', 'sleep 600'], 'timeout': '10m'}}
        job = self.submit(self.train_job('stops', steps=2000, train__hooks=hooks))
        ended = self.wait(job)
        self.assertEqual((ended['state'], ended['exit_code'], ended['attempt']), ('failed', 2, 1))
        self.assertIn('hook step at step 2 took longer than 1 s and was killed', ended['reason'])
        wait_until(lambda: not self.pids_of('sleep'), 'the processes of the hooks to end')

    def test_a_chain_in_one_file_goes_from_training_to_a_command_on_the_export(self):
        self.corpus()
        self.up()
        path = self.train_job('first', steps=6)
        document = json_of(path)
        document['then'] = [
            {'name': 'as-mca', 'kind': 'convert',
             'convert': {'source': '{previous.result}', 'target': '{first.output}/again', 'to': 'mca'}},
            {'name': 'look', 'kind': 'command',
             'command': ['sh', '-c', 'ls {first.result} {as-mca.result}; echo after {first.id}']}]
        self.write('first.yaml', json.dumps(document))
        ids = self.ctl('submit', '--parsable', path).stdout.split()
        self.assertEqual(ids, ['1', '2', '3'])
        self.assertEqual(self.ctl('wait', '1-3').returncode, 0)
        log = self.ctl('logs', 3).stdout
        for name in ('model.safetensors', 'mca_config.json', 'after 1'):
            self.assertIn(name, log)
        export = self.show(1)['export_job']
        self.assertGreaterEqual(self.show(2)['started_at'], self.show(export)['ended_at'])

    def test_a_chain_falls_with_its_first_job(self):
        self.up()
        path = self.write('chain.yaml', json.dumps({
            'name': 'a', 'kind': 'command', 'command': ['sh', '-c', 'exit 3'],
            'then': [{'name': 'b', 'kind': 'command', 'command': ['true']}]}))
        self.assertEqual(self.ctl('submit', '--wait', path, check=False).returncode, 3, "the failed job's own")
        self.assertEqual(self.wait(1)['state'], 'failed')
        self.assertEqual(self.wait(2)['state'], 'cancelled')
        self.assertEqual([len(self.show(job)['attempts']) for job in (1, 2)], [1, 0], 'no command is tried again')
        self.assertEqual(self.ctl('wait', 2, check=False).returncode, 125, 'it never ran')
        wrong = self.write('wrong.yaml', json.dumps({
            'name': 'a', 'kind': 'command', 'command': ['true'],
            'then': [{'name': 'b', 'kind': 'command', 'command': ['{c.output}']}]}))
        done = self.ctl('submit', wrong, check=False)
        self.assertEqual(done.returncode, 2)
        self.assertIn('no earlier job of the chain is named c', done.stderr)

    def test_a_line_of_the_log_stops_a_job_and_labels_it(self):
        self.up()
        path = self.write('logs.yaml', json.dumps({
            'name': 'logs', 'kind': 'command', 'retry': {
                'app': 5, 'on_log': [{'match': 'CUDA error.*ECC', 'label': 'ecc'},
                                     {'match': '^FATAL', 'then': 'stop'}, {'match': 'never'}]},
            'command': ['sh', '-c', 'echo CUDA error: bad ECC; echo FATAL x >&2; exit 3']}))
        ended = self.wait(self.submit(path))
        self.assertEqual((ended['state'], ended['attempt'], ended['exit_code']), ('failed', 1, 3))
        self.assertEqual(ended['labels'], ['ecc'])
        self.assertIn('the log contains: ^FATAL', ended['reason'])

    def test_ranks_that_hang_leave_their_stacks_and_are_tried_again(self):
        self.corpus()
        self.up()
        job = self.submit(self.train_job(steps=100000, checkpoint__every=20, export='none',
                                         hang_after='3s'))
        self.wait_checkpoint(job)
        ranks = self.json('show', job)['job']['ranks']
        self.assertEqual([rank['rank'] for rank in ranks], [0, 1])
        self.assertEqual(max(rank['score'] for rank in ranks), 1)
        os.kill(self.pids_of('roll-rank')[1], signal.SIGSTOP)
        wait_until(lambda: self.show(job)['attempt'] == 2, 'the attempt that hangs to be replaced')
        first = self.json('show', job)['job']['attempts'][0]
        self.assertEqual((first['outcome'], first['exit_code']), ('infra', 79))
        self.assertRegex(first['reason'], r'^no step for \d+ s after step \d+ \(at most 3 s\)')
        for rank in (0, 1):
            path = os.path.join(self.output(job), 'logs', 'attempt-1', f'rank-{rank}.log')
            log = text_of(path)
            self.assertIn('stacks of all threads', log)
            self.assertIn('end of stacks', log)
            self.assertIn('roll::train::', log)
        self.ctl('cancel', job)

    def test_a_node_is_checked_before_an_attempt_starts_on_it(self):
        self.up()
        flag, ran = os.path.join(self.work, 'flag'), os.path.join(self.work, 'ran')
        path = self.write('checked.yaml', json.dumps({
            'name': 'checked', 'kind': 'command', 'command': ['sh', '-c', f'echo x >> {ran}'],
            'check': {'command': ['sh', '-c', f'mkdir {flag} && echo unfit && exit 1; exit 0']}}))
        ended = self.wait_done(self.submit(path))
        self.assertEqual(ended['attempt'], 2)
        attempts = self.json('show', ended['id'])['job']['attempts']
        self.assertEqual(attempts[0]['exit_code'], 77)
        self.assertIn('the check of this node failed: sh ended with exit status 1',
                      attempts[0]['reason'])
        self.assertEqual(text_of(ran), 'x\n')
        slow = self.write('slow.yaml', json.dumps({
            'name': 'slow', 'kind': 'command', 'command': ['true'], 'retry': {'infra': 0},
            'check': {'command': ['sleep', '60'], 'timeout': '1s'}}))
        self.assertIn('took longer than 1 s', self.wait(self.submit(slow))['reason'])
        builtin = self.write('fit.yaml', json.dumps({
            'name': 'fit', 'kind': 'command', 'command': ['true'], 'check': 'builtin'}))
        self.wait_done(self.submit(builtin))


if __name__ == '__main__':
    unittest.main()
