#!/usr/bin/env python3
"""`parallel.layout: auto` and `train.micro_batch_size: auto`: the chosen layout is legal, fits the memory and is the
fastest of those listed; the same job gets the same layout; keys of the file are kept; what cannot work is refused in
one sentence.

usage: layout_test.py ROLLCTL          with roll-rank beside it
"""
import json
import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import unittest

ROLLCTL = os.path.abspath(sys.argv.pop(1))
MIB = 1 << 20


def job(**changes):
    """A job of 8 slots whose layout is chosen. Keys of `changes` with a dot set a key of a section."""
    spec = {'name': 'auto', 'kind': 'train', 'resources': {'nodes': 1, 'slots_per_node': 8},
            'model': {'family': 'llama', 'hidden_size': 256, 'num_hidden_layers': 8, 'num_attention_heads': 8,
                      'num_key_value_heads': 4, 'intermediate_size': 768, 'vocab_size': 4096},
            'tokenizer': 'bytes', 'data': {'train': ['text.txt']},
            'parallel': {'layout': 'auto', 'memory_limit': '2GiB'},
            'train': {'seq_length': 256, 'global_batch_size': 64, 'micro_batch_size': 'auto', 'steps': 10}}
    for key, value in changes.items():
        *path, last = key.split('__')
        section = spec
        for word in path:
            section = section[word]
        if value is None:
            section.pop(last)
        else:
            section[last] = value
    return spec


class Layout(unittest.TestCase):
    def setUp(self):
        self.work = tempfile.mkdtemp(prefix='roll-layout-')
        self.addCleanup(shutil.rmtree, self.work, ignore_errors=True)
        with open(self.work + '/text.txt', 'w', encoding='ascii') as file:
            file.write('In the beginning ' * 2000)

    def run_command(self, command, spec, *words):
        with open(self.work + '/job.json', 'w', encoding='ascii') as file:
            file.write(json.dumps(spec))
        env = {'PATH': '/usr/bin:/bin', 'HOME': self.work, 'ROLL_DIR': self.work + '/state', 'OMP_NUM_THREADS': '1'}
        return subprocess.run([ROLLCTL, command, 'job.json', *words], cwd=self.work, capture_output=True, text=True,
                              check=False, env=env, stdin=subprocess.DEVNULL)

    def plan(self, spec):
        done = self.run_command('plan', spec, '--json')
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return json.loads(done.stdout)

    def refusal(self, spec):
        done = self.run_command('plan', spec)
        self.assertEqual(done.returncode, 2, done.stdout)
        return done.stderr

    def test_a_tensor_parallel_group_on_two_nodes_is_a_warning(self):
        spec = job(parallel={'tp': 4, 'dp': 1}, train__micro_batch_size=1,
                   resources={'nodes': 2, 'slots_per_node': 2})
        warning = self.plan(spec)['warnings'][0]
        self.assertIn('parallel.tp is 4, but a node has 2 of the job\'s ranks: a tensor-parallel group is on 2 nodes',
                      warning)
        sent = self.plan(spec)['communication_bytes_per_step']['tensor'] / MIB
        self.assertRegex(warning, rf'sends {sent:.3g} MiB per rank and step over the network; .*: tp 1, 2, or 4 ranks')
        self.assertIn('warning     parallel.tp is 4', self.run_command('plan', spec).stdout)
        submitted = self.run_command('submit', spec, '--dry-run', '--no-git')
        self.assertEqual(json.loads(submitted.stdout)['notes'], ['warning: auto: ' + warning])
        self.assertIn(warning, submitted.stderr)
        for fits in ({'tp': 2, 'dp': 2}, {'tp': 2, 'pp': 2, 'dp': 1}):
            self.assertNotIn('warnings', self.plan(job(parallel=fits, train__micro_batch_size=1,
                                                       resources={'nodes': 2, 'slots_per_node': 2})))

    def test_choice_is_the_plan_of_the_best(self):
        plan = self.plan(job())
        found = plan['layout_search']
        best = found['best'][0]
        self.assertEqual(found['schema'], 'roll.layout/1')
        self.assertEqual(best['dp'] * best['tp'] * best['pp'], 8)
        for axis in ('dp', 'tp', 'cp', 'pp', 'vpp', 'sequence'):
            self.assertEqual(plan['mesh'][axis], best[axis])
        # What the search promises is what the plan of that layout says.
        self.assertEqual(plan['memory_per_rank_bytes']['total'], best['memory_bytes'])
        self.assertAlmostEqual(plan['pipeline']['bubble'], best['bubble'])
        self.assertLessEqual(best['memory_bytes'], 2048 * MIB)
        times = [one['relative_time'] for one in found['best']]
        self.assertEqual(times[0], 1)
        self.assertEqual(len(times), 5)
        self.assertTrue(all(time > 0.998 for time in times), times)

    def test_less_memory_gives_another_layout(self):
        wide = self.plan(job())['layout_search']
        least = wide['best'][0]['memory_bytes']
        limit = (least - 1 * MIB) // MIB
        tight = self.plan(job(parallel__memory_limit=f'{limit}MiB'))['layout_search']
        self.assertNotEqual(tight['best'][0], wide['best'][0])
        self.assertLessEqual(tight['best'][0]['memory_bytes'], limit * MIB)
        self.assertTrue(any('needs' in one['why'] for one in tight['refused']), tight['refused'])

    def test_keys_of_the_file_are_kept(self):
        found = self.plan(job(parallel__tp=2, parallel__dp=2, train__micro_batch_size=4))['layout_search']
        self.assertEqual({(one['tp'], one['dp'], one['pp'], one['micro_batch_size']) for one in found['best']},
                         {(2, 2, 2, 4)})
        self.assertNotIn('tp', found['searched'])
        only = self.plan(job(parallel__layout=None, parallel__tp=2, parallel__pp=2))
        self.assertEqual(only['layout_search']['searched'], ['micro_batch_size'])
        self.assertEqual((only['mesh']['tp'], only['mesh']['pp'], only['mesh']['dp']), (2, 2, 2))

    def pipelines(self, spec):
        """The plans of the job with each schedule, layout and micro-batch given; the fastest comes first."""
        plans = {}
        for schedule, vpp in (('1f1b', 1), ('zb-h1', 1), ('interleaved', 2), ('zb-v', 2), ('dualpipe-v', 2)):
            given = {**spec, 'parallel': {**spec['parallel'], 'layout': 'given', 'vpp': vpp, 'schedule': schedule}}
            plan = self.plan(given)
            plans[schedule] = (plan['pipeline']['bubble'], plan['memory_per_rank_bytes']['total'])
        return dict(sorted(plans.items(), key=lambda one: one[1]))

    def test_the_schedule_is_chosen_with_its_own_memory(self):
        spec = job(resources__slots_per_node=4, train__micro_batch_size=8, model__vocab_size=512,
                   parallel={'layout': 'auto', 'memory_limit': '2GiB', 'pp': 4, 'tp': 1, 'zero': 0,
                             'recompute': 'none'})
        plans = self.pipelines(spec)
        fastest = next(iter(plans))
        self.assertIn(fastest, ('zb-v', 'dualpipe-v'))
        chosen = self.plan(spec)
        best = chosen['layout_search']['best'][0]
        self.assertIn('schedule', chosen['layout_search']['searched'])
        self.assertEqual((best['schedule'], best['vpp'], best['bubble'], best['memory_bytes']),
                         (fastest, 2, *plans[fastest]))
        self.assertEqual(chosen['pipeline']['schedule'], fastest)
        submitted = self.run_command('submit', spec, '--dry-run')
        self.assertRegex(submitted.stderr, rf'(?m)^  1  1\.000 .*, {fastest}, ')
        document = json.loads(submitted.stdout)['jobs'][0]['document']
        self.assertEqual((document['parallel']['schedule'], document['parallel']['vpp']), (fastest, 2))
        self.assertEqual(self.plan(document)['pipeline']['schedule'], fastest)
        # A schedule that needs too much memory makes place for the best of those that fit.
        limit = min(memory for _, memory in plans.values())
        fits = [name for name, (_, memory) in plans.items() if memory <= limit]
        self.assertNotIn(fastest, fits)
        spec['parallel']['memory_limit'] = f'{limit // 1024 + 1}KiB'
        tight = self.plan(spec)
        self.assertLessEqual(tight['memory_per_rank_bytes']['total'], limit)
        self.assertLessEqual(tight['pipeline']['bubble'], plans[fits[0]][0])
        self.assertIn(fastest, ' '.join(one['why'] for one in tight['layout_search']['refused']))
        # What the file sets about the pipeline stays.
        for keys in ({'vpp': 2}, {'schedule': 'auto', 'vpp': 2}, {'group': 8, 'vpp': 2}):
            kept = self.plan(job(**{**{'resources__slots_per_node': 4, 'train__micro_batch_size': 8},
                                    'parallel': {'layout': 'auto', 'memory_limit': '2GiB', 'pp': 4, **keys}}))
            self.assertEqual(kept['pipeline']['schedule'], 'interleaved', keys)
            self.assertEqual('schedule' in kept['layout_search']['searched'], keys == {'vpp': 2})

    def test_vpp_is_chosen_for_a_given_schedule(self):
        for schedule, pp in (('zb-v', 4), ('dualpipe-v', None), ('interleaved', 2)):
            spec = job(resources__slots_per_node=4, train__micro_batch_size=8, model__vocab_size=512,
                       parallel__schedule=schedule, **({'parallel__pp': pp} if pp else {}))
            chosen = self.plan(spec)
            self.assertEqual((chosen['pipeline']['schedule'], chosen['mesh']['pp']),
                             (schedule, pp or chosen['mesh']['pp']))
            self.assertGreater(chosen['mesh']['pp'], 1)
            self.assertTrue(chosen['mesh']['vpp'] == 2 or schedule == 'interleaved' and chosen['mesh']['vpp'] > 2)
        told = self.refusal(job(parallel__schedule='zb-v', parallel__pp=8))
        self.assertIn('no layout of 8 ranks is possible for this job; ', told)
        self.assertIn('; pp 8: parallel.pp is 8, vpp 2, which does not divide the 8 layers', told)

    def test_a_given_cp_is_kept(self):
        """The replicas that share state are dp x cp, so the search also tries zero without dp."""
        spec = job(parallel__cp=2, train__micro_batch_size=4, train__global_batch_size=4)
        plan = self.plan(spec)
        found = plan['layout_search']
        self.assertNotIn('cp', found['searched'])
        for one in found['best'] + found['refused']:
            self.assertEqual((one['cp'], one['dp'], one['tp'] * one['pp']), (2, 1, 4), one)
        self.assertEqual((plan['mesh']['cp'], plan['mesh']['dp']), (2, 1))
        self.assertEqual(plan['memory_per_rank_bytes']['total'], found['best'][0]['memory_bytes'])
        document = json.loads(self.run_command('submit', spec, '--dry-run').stdout)['jobs'][0]['document']
        self.assertEqual((document['parallel']['cp'], self.plan(document)['mesh']), (2, plan['mesh']))
        limit = found['best'][0]['memory_bytes'] - 1
        tight = self.plan(job(parallel__cp=2, train__micro_batch_size=4, train__global_batch_size=4,
                              parallel__memory_limit=f'{limit}B'))
        self.assertLessEqual(tight['memory_per_rank_bytes']['total'], limit)

    def test_submit_writes_the_choice_into_the_job(self):
        outputs = []
        for _ in range(2):
            done = self.run_command('submit', job(), '--dry-run')
            self.assertEqual(done.returncode, 0, done.stderr)
            outputs.append(json.loads(done.stdout)['jobs'][0]['document'])
            self.assertIn('row 1 is used', done.stderr)
        self.assertEqual(outputs[0], outputs[1])
        parallel, train = outputs[0]['parallel'], outputs[0]['train']
        self.assertNotIn('layout', parallel)
        self.assertIsInstance(train['micro_batch_size'], int)
        ranks = 8 // (parallel['tp'] * parallel['pp'])
        self.assertEqual(64 % (ranks * train['micro_batch_size']), 0)
        # A resumed job has all keys and keeps them; `--set parallel.layout=auto` searches again.
        again = self.plan({**outputs[0], 'output': 'runs'})
        self.assertNotIn('layout_search', again)

    def test_what_cannot_work_is_refused_in_one_sentence(self):
        told = self.refusal(job(parallel__memory_limit='100MiB'))
        for words in ('no layout of 8 ranks fits into', 'parallel.memory_limit',
                      'the smallest memory that was found is', 'would help'):
            self.assertIn(words, told)
        told = self.refusal(job(train__global_batch_size=3, parallel__pp=1, parallel__tp=1))
        self.assertIn('train.global_batch_size 3 is not a multiple of dp', told)
        told = self.refusal(job(parallel__layout='fastest'))
        self.assertIn('parallel.layout is "fastest"; allowed: given or auto', told)
        told = self.refusal(job(sweep={'train.seed': [1, 2]}))
        self.assertIn('sweep', told)

    def test_a_job_that_cannot_fit_its_limit_is_not_queued(self):
        given = {'parallel__layout': 'given', 'train__micro_batch_size': 1}
        for recompute in ('none', 'auto'):
            done = self.run_command('submit', job(**given, parallel__memory_limit='1MiB',
                                                  parallel__recompute=recompute), '--dry-run')
            self.assertEqual(done.returncode, 2, done.stdout + done.stderr)
            self.assertRegex(done.stderr, r'auto cannot be queued: parallel\.memory_limit is 1 MiB \(1048576 bytes\), '
                                          'but a rank of stage 0 needs')
            # With the limit that the message gives, no other stage is refused.
            stages = {**given, 'parallel__recompute': recompute, 'parallel__pp': 4}
            done = self.run_command('submit', job(**stages, parallel__memory_limit='1MiB'), '--dry-run')
            needed = re.search(r'needs .*\(([0-9]+) bytes\)', done.stderr)[1]
            done = self.run_command('submit', job(**stages, parallel__memory_limit=needed + 'B'), '--dry-run')
            self.assertEqual(done.returncode, 0, done.stderr)
        done = self.run_command('submit', job(**given, parallel__pp=4, parallel__activation_limit='10KiB'), '--dry-run')
        self.assertEqual((done.returncode, done.stdout), (2, ''), done.stderr)
        self.assertIn('auto cannot be queued: parallel.activation_limit is 10240 bytes, but ', done.stderr)
        for schedule in ('1f1b', 'gpipe'):
            fixed = {**given, 'parallel__pp': 4, 'parallel__schedule': schedule}
            done = self.run_command('submit', job(**fixed, parallel__activation_limit='10KiB'), '--dry-run')
            self.assertEqual((done.returncode, done.stdout), (2, ''), done.stderr)
            held = re.search(rf'auto cannot be queued: parallel\.schedule: {schedule}: rank [01] would hold ([0-9]+) '
                             'bytes of activations; parallel.activation_limit is 10240 bytes; ', done.stderr)[1]
            done = self.run_command('submit', job(**fixed, parallel__activation_limit=held + 'B'), '--dry-run')
            self.assertEqual(done.returncode, 0, done.stderr)
        done = self.run_command('submit', job(**given), '--dry-run')
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_64_ranks_need_only_seconds_of_processor_time(self):
        spec = job(resources__nodes=8, model__num_hidden_layers=32, train__global_batch_size=512,
                   parallel__memory_limit='1GiB')
        before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
        found = self.plan(spec)['layout_search']
        self.assertGreater(found['legal'], 500)
        # One second is the search. The programs also start and make the plan, on slow machines, too.
        self.assertLess(resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before, 12)


if __name__ == '__main__':
    unittest.main(verbosity=2)
