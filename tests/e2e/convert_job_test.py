#!/usr/bin/env python3
"""Conversions as jobs: --submit, progress, cancel, the checks before a start. Needs no trainer and no oracle."""
import json
import os
import shutil
import struct
import sys
import time
import unittest

from harness import RollTest, TwoWorkers, json_of, wait_until

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'oracle'))
from tiny_hf import SIZES, write_llama, write_safetensors  # noqa: E402


class Converts:

    def model(self, name='hf', **changes):
        path = os.path.join(self.work, name)
        write_llama(path, **changes)
        return path

    def leftovers(self):
        return [name for name in os.listdir(self.work) if 'staging' in name]


class ConvertJobs(Converts, RollTest):

    def test_submit_converts_with_the_layout_asked_for(self):
        self.up()
        self.model()
        done = self.ctl('convert', 'hf', 'mca', '--tp', 2, '--pp', '2', '--bf16', '--submit', '--wait')
        self.assertIn('convert-mca', done.stdout)
        config = json_of(self.work, 'mca/mca_config.json')
        self.assertEqual((config['tensor_model_parallel_size'], config['pipeline_model_parallel_size'],
                          config['bf16']), (2, 2, True))
        self.ctl('verify', 'mca')
        job = self.show('last')
        self.assertEqual(job['kind'], 'convert')
        back = self.ctl('convert', 'mca', 'back', '--dtype=fp32', '--submit', '--parsable',
                        '--after', f'ok:{job["id"]}').stdout.strip()
        self.wait_done(back)
        self.ctl('diff', 'hf', 'back', '--cast', check=False)
        self.ctl('diff', 'mca', 'back', '--cast')
        again = self.ctl('convert', 'hf', 'back', '--to', 'hf', '--submit', '--wait', check=False)
        self.assertEqual(again.returncode, 2)  # the target exists and --overwrite was not given
        self.assertIn('already exists', self.show('last')['reason'])
        self.ctl('convert', 'hf', 'back', '--to', 'hf', '--overwrite', '--submit', '--wait')
        self.ctl('diff', 'hf', 'back')

    def adapter(self):
        """Writes an adapter of rank 1 with ones only; it adds 1 to each weight of o_proj."""
        adapter = os.path.join(self.work, 'adapter')
        os.makedirs(adapter)
        self.write(os.path.join(adapter, 'adapter_config.json'), json.dumps(
            {'peft_type': 'LORA', 'r': 1, 'lora_alpha': 1, 'target_modules': ['o_proj']}))
        base = 'base_model.model.model.layers.{}.self_attn.o_proj.lora_{}.weight'
        one = struct.pack('<f', 1.0)
        tensors = {}
        for layer in range(SIZES['num_hidden_layers']):
            tensors[base.format(layer, 'A')] = ([1, 64], one * 64)
            tensors[base.format(layer, 'B')] = ([64, 1], one * 64)
        write_safetensors(os.path.join(adapter, 'adapter_model.safetensors'), tensors)

    def assert_merged(self, added=1.0):
        difference = self.ctl('diff', 'hf', 'merged', '--json', check=False)
        found = json.loads(difference.stdout)['differences']
        self.assertEqual({one['max_abs'] for one in found}, {added})
        self.assertEqual(len(found), SIZES['num_hidden_layers'])

    def test_a_merge_is_a_job_too(self):
        self.up()
        self.model()
        self.adapter()
        self.ctl('merge', 'hf', 'adapter', 'merged', '--submit', '--wait')
        self.assertEqual(self.show('last')['kind'], 'merge')
        self.assert_merged()

    def test_two_adapters_of_one_module_are_summed(self):
        self.up()
        self.model()
        self.adapter()
        self.wait_done(self.submit(self.write('merge.json', json.dumps({
            'name': 'two', 'kind': 'merge',
            'merge': {'base': 'hf', 'adapters': ['adapter', 'adapter'], 'target': 'merged'}}))))
        self.assert_merged(2.0)

    def test_a_merge_is_a_step_of_a_chain(self):
        self.up()
        self.model()
        self.adapter()
        first = self.submit(self.write('chain.json', json.dumps({
            'name': 'copy', 'kind': 'convert', 'convert': {'source': 'hf', 'target': 'copy', 'to': 'hf'},
            'then': [{'name': 'tuned', 'kind': 'merge',
                      'merge': {'base': '{previous.result}', 'adapters': ['adapter'], 'target': 'merged'}},
                     {'name': 'look', 'kind': 'command', 'command': ['test', '-e', '{tuned.result}/config.json']}]})))
        self.assertEqual([self.wait_done(first + i)['kind'] for i in range(3)], ['convert', 'merge', 'command'])
        self.assert_merged()

    def test_a_cancelled_conversion_leaves_nothing(self):
        self.up()
        self.model(hidden_size=1024, intermediate_size=4096, vocab_size=8192)
        cancelled = 0
        for delay in (0, 0.05, 0.1, 0.2, 0.4):
            job = self.ctl('convert', 'hf', 'out', '--submit', '--parsable').stdout.strip()
            wait_until(lambda: self.show(job)['state'] != 'queued' or delay == 0, 'the job to start')
            time.sleep(delay)
            self.ctl('cancel', job, check=False)
            state = self.wait(job)['state']
            self.assertEqual(self.leftovers(), [])
            self.assertEqual(os.path.exists(os.path.join(self.work, 'out')), state == 'done')
            cancelled += state == 'cancelled'
            shutil.rmtree(os.path.join(self.work, 'out'), ignore_errors=True)
        self.assertGreater(cancelled, 0)

    def test_what_cannot_work_is_said_before_anything_is_queued(self):
        self.up()
        self.model()
        for words, says in ((['hf', 'out', '--tp', '0'], '--tp: must be 1 to 4096, not 0'),
                            (['hf', 'out', '--to', 'gguf'], 'the format must be'),
                            (['nowhere', 'out'], 'which does not exist')):
            done = self.ctl('convert', *words, '--submit', check=False)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn(says, done.stderr)
        done = self.ctl('convert', 'hf', 'out', '--wait', check=False)
        self.assertEqual(done.returncode, 125)  # not 2, which is a job's exit code
        self.assertIn('--wait requires --submit', done.stderr)
        planned = json.loads(self.ctl('convert', 'hf', 'out', '--tp', 4, '--submit', '--dry-run').stdout)
        self.assertEqual(planned['jobs'][0]['document']['convert']['tp'], 4)
        self.assertEqual(self.json('jobs', '-a')['jobs'], [])


class OnTwoNodes(Converts, TwoWorkers):

    def test_several_nodes_write_one_target(self):
        self.model(hidden_size=512, intermediate_size=2048, vocab_size=8192)
        self.ctl('convert', 'hf', 'mca', '--tp', 2, '--submit', '--nodes', 2, '--wait')
        self.assertEqual(len(self.show('last')['attempts'][0]['nodes']), 2)
        self.ctl('diff', 'hf', 'job:last')
        self.assertEqual(sorted(os.listdir(os.path.join(self.work, 'mca/iter_0000001'))), ['mp_rank_00', 'mp_rank_01'])
        job = self.ctl('convert', 'mca', 'out', '--submit', '--nodes', 2, '--parsable').stdout.strip()
        wait_until(lambda: self.show(job)['state'] != 'queued', 'the job to start')
        self.ctl('cancel', job, check=False)
        state = self.wait(job)['state']
        self.assertEqual((self.leftovers(), os.path.exists(os.path.join(self.work, 'out'))), ([], state == 'done'))
        done = self.ctl('convert', 'mca', 'out2', '--part', '0/2', '--run', 'x', '--submit', check=False)
        self.assertEqual(done.returncode, 2)
        self.assertIn('--nodes N', done.stderr)


if __name__ == '__main__':
    unittest.main(verbosity=2)
