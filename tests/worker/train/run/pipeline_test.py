#!/usr/bin/env python3
"""Pipeline stages as real processes: ends of attempts, schedules from files, and plans."""
import json
import os
import shlex
import signal
import subprocess
import unittest
import xml.etree.ElementTree

from ranks import DOUBLE, RANK, Attempt, RankCase, json_of, write_text


class Pipeline(RankCase):

    def staged(self, steps, dp=1, pp=2, vpp=1, schedule='auto', **changes):
        """Returns a document for dp x pp ranks."""
        return self.document(steps, dp=dp, parallel__pp=pp, parallel__vpp=vpp, parallel__schedule=schedule,
                             resources__slots_per_node=dp * pp, **{**DOUBLE, **changes})

    def test_a_killed_stage_ends_the_attempt_and_a_stopped_one_saves(self):
        killed = Attempt(self, 1, 1, self.staged(1000000, dp=2))
        killed.wait_step(2)
        killed.ranks[2].kill()
        self.assertEqual([code for rank, code in enumerate(killed.wait()) if rank != 2], [76, 76, 76], killed.log())
        stopped = Attempt(self, 2, 1, self.staged(1000000, dp=2))
        stopped.wait_step(2)
        stopped.ranks[3].send_signal(signal.SIGTERM)
        self.assertEqual(stopped.wait(), [75] * 4, stopped.log())
        self.assertEqual(len(stopped.published), 1)

    def test_a_step_that_is_not_finite_is_named_on_its_stage(self):
        rates = {'lr': 1e30, 'schedule': 'constant', 'clip_grad': 0.0}
        attempt = Attempt(self, 1, 1, self.staged(40, train__precision='fp32', train__optimizer=rates))
        codes = attempt.wait()
        message, = [report['message'] for report in attempt.said('failed') if 'at step' in report['message']]
        self.assertRegex(message, r'is not finite at step \d+ on rank [01] \(samples \d+ to \d+\); first non-finite '
                                  r'value: the (weight|loss|gradient)')
        self.assertEqual(sorted(codes), [3, 76], attempt.log())

    def test_layout_strings_stages_by_cost_and_schedule_files_train_as_one_rank_does(self):
        one = self.run_whole(1, 1, self.staged(2, pp=1, checkpoint__every=1, checkpoint__keep=9))
        rows = [['0F0', '0F1', '0B0', '0F2', '0B1', '0F3', '0B2', '0B3'] + [''] * 2,
                ['', '1F0', '1I0', '1W0', '1F1', '1B1', '1F2', '1B2', '1F3', '1B3']]
        schedule = os.path.join(self.top, 'mine.csv')
        write_text(schedule, '\n'.join(map(','.join, rows)) + '\n')
        layouts = {'string': {'parallel__pipeline_layout': 'Et*3|tL'},
                   'empty stage': {'parallel__pipeline_layout': 'E(t|)*2,ttL', 'pp': 3},
                   'chunks': {'parallel__pipeline_layout': 'Et||(t|t)*1tL', 'vpp': 2},
                   'cost': {'parallel__stages': 'cost', 'model__vocab_size': 256},
                   'file': {'parallel__schedule_file': schedule}}
        for job, (name, layout) in enumerate(layouts.items(), 2):
            with self.subTest(name):
                run = self.run_whole(job, 1, self.staged(2, checkpoint__every=1, checkpoint__keep=9, **layout))
                self.expect_close(run.metrics(), one.metrics())
                self.expect_close_tensors(run.doubles(2), one.doubles(2))
                # The checkpoint resumes on one rank, whatever the layout was.
                flat = self.run_whole(20 + job, 1, self.staged(2, pp=1, kind='resume'), run.published[:1],
                                      kind='resume')
                self.assertEqual(flat.metrics()[-1]['step'], 2)
                self.assertLess(abs(flat.metrics()[-1].get('loss', 0) - run.metrics()[-1].get('loss', 0)), 1e-9)

    def test_plans_the_stages(self):
        document = self.staged(1, dp=2, vpp=2, model__tie_word_embeddings=True, train__global_batch_size=16)
        plan = json.loads(self.plan(document, '--json').stdout)
        self.assertEqual([(stage['stage'], stage['chunk'], stage['layers']) for stage in plan['stages']],
                         [(0, 0, [0, 1]), (1, 0, [1, 2]), (0, 1, [2, 3]), (1, 1, [3, 4])])
        self.assertEqual(plan['mesh']['world_size'], 4)
        self.assertEqual(plan['ranks'][2], {'rank': 2, 'dp': 0, 'tp': 0, 'pp': 1, 'cp': 0})
        copies = 256 * 32  # of the tied embedding
        self.assertEqual(sum(stage['weights'] for stage in plan['memory_per_stage_bytes']),
                         8 * (plan['parameters'] + copies))
        # Each stage's weights and moments, which two replicas divide; the moments of the copy are not written
        held = [stage['weights'] for stage in plan['memory_per_stage_bytes']]
        self.assertEqual([stage['checkpoint_snapshot'] for stage in plan['memory_per_stage_bytes']],
                         [3 * held[0] // 2, (3 * held[1] - 2 * 8 * copies) // 2])
        # 4 micro-batches of 2 x 32 tokens, over 3 edges, in both directions
        self.assertEqual(plan['communication_bytes_per_step']['activations'], 4 * 64 * 32 * 8 * 3 * 2)
        self.assertIn('stage 1     layer 3, loss\n', self.plan(document).stdout)

    def test_prints_the_pipeline_in_80_columns(self):
        told = self.plan(self.staged(1, schedule='1f1b', train__global_batch_size=16)).stdout
        self.assertIn('memory       weights   gradients   optimizer activations       other       total\n'
                      'stage 0 ', told)
        table = told[told.index('pipeline  '):]
        self.assertRegex(table, r'^pipeline    1f1b, bubble [0-9.]+ % of the ideal time, busiest stage [0-9.]+ x the')
        self.assertIn('links       bytes per replica and step\n'
                      '  stage 0 to 1  activations: 8 messages, 128 KiB\n'
                      '  stage 1 to 0  gradients: 8 messages, 128 KiB\n', told)
        self.assertEqual([line for line in table.splitlines() if len(line) > 80], [])
        self.assertRegex(table.splitlines()[2], r'^0 \|F0 +F1 ')
        # On a terminal, the other lines are broken, too.
        command = f'stty cols 80; {shlex.quote(RANK)} plan --spec {shlex.quote(self.top)}/plan.json'
        shown = subprocess.run(['script', '-qec', command, '/dev/null'], stdin=subprocess.DEVNULL, capture_output=True,
                               text=True, check=True).stdout.splitlines()
        self.assertEqual([line for line in shown if len(line) > 80], [])
        self.assertEqual(' '.join(' '.join(shown).split()).partition('time ')[0],
                         ' '.join(told.split()).partition('time ')[0])
        self.assertGreater(len(shown), len(told.splitlines()))

    def test_writes_the_schedule_to_files(self):
        svg, trace = (os.path.join(self.top, name) for name in ('plan.svg', 'plan.json'))
        document = self.staged(1, vpp=2, schedule='zb-v', train__global_batch_size=16)
        plan = json.loads(self.plan(document, '--json', '--svg', svg, '--trace', trace).stdout)
        rows = plan['pipeline']['operations']
        self.assertEqual([len(row) for row in rows], [48, 48])  # F, B and W of 8 micro-batches in 2 chunks
        self.assertEqual((plan['pipeline']['schedule'], rows[0][0]), ('zb-v', ['F0', 0.0, rows[0][0][2]]))
        self.assertEqual([(stage['stage'], stage['chunk'], stage['loss']) for stage in plan['stages']],
                         [(0, 0, False), (1, 0, False), (1, 1, False), (0, 1, True)])
        events = [event for event in json_of(trace)['traceEvents'] if event['ph'] == 'X']
        self.assertEqual([event['name'] for event in events if event['tid'] == 1], [op[0] for op in rows[1]])
        drawn = xml.etree.ElementTree.parse(svg).getroot()
        texts = [text.text for text in drawn.iter('{http://www.w3.org/2000/svg}text')]
        self.assertTrue(texts[0].startswith('tiny: zb-v, pp 2 x vpp 2, 8 micro-batches, bubble '), texts[0])
        self.assertEqual(texts.count('F0\''), 2)

    def test_plans_a_model_of_which_only_the_config_exists(self):
        sizes = self.staged(1)['model']
        family = {'model_type': 'llama', 'architectures': ['LlamaForCausalLM'], 'vocab_size': 256,
                  'hidden_act': 'silu', 'rms_norm_eps': 1e-5, 'rope_theta': 10000.0, 'tie_word_embeddings': False}
        with open(os.path.join(self.top, 'config.json'), 'w', encoding='utf-8') as file:
            json.dump({**family, **{key: value for key, value in sizes.items() if key != 'family'}}, file)
        told = self.plan(self.staged(1, model={'from': self.top}))
        self.assertEqual(told.returncode, 0, told.stderr)
        self.assertIn('stage 1     layers 2 to 3, loss\n', told.stdout)


if __name__ == '__main__':
    unittest.main()
