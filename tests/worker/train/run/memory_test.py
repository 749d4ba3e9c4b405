#!/usr/bin/env python3
"""Compares the memory that `roll-rank plan` predicts with the peak of the run.

The plan's `program` is the memory of the program with an almost empty model: code, LibTorch, threads.
"""
import json
import os
import pathlib
import resource
import sys
import unittest

from ranks import Attempt, RankCase, json_of

sys.path.append(str(pathlib.Path(__file__).resolve().parents[3]))
from shares import share  # noqa: E402

LARGE = {'model__hidden_size': 512, 'model__intermediate_size': 2048, 'model__num_hidden_layers': 8,
         'model__num_attention_heads': 8, 'model__num_key_value_heads': 8, 'model__vocab_size': 8192,
         'model__max_position_embeddings': 256}
SMALL = {'model__hidden_size': 16, 'model__intermediate_size': 16, 'model__num_hidden_layers': 1}


class MemoryTest(RankCase):

    def job(self, **changes):
        """Returns a job that saves after its first step of two, so that training goes on while the snapshot is in
        memory."""
        batch = changes.pop('batch', 8)
        return self.document(2, dp=1, **{'model__max_position_embeddings': 256, 'checkpoint__every': 1,
                                         'train__global_batch_size': batch, 'data__valid': 0.005, **changes})

    def large_base(self):
        return self.base_model(self.document(1, dp=1, train__global_batch_size=2, train__optimizer__kind='sgd',
                                             **LARGE))

    def planned(self, document):
        return json.loads(self.plan(document, '--json').stdout)['memory_per_rank_bytes']

    def peak(self, number, document):
        run = self.run_whole(number, 1, document)
        with open(os.path.join(run.output, 'metrics.jsonl'), encoding='utf-8') as file:
            return max(row.get('memory_peak_bytes', 0) for row in map(json.loads, file))

    def test_the_plan_is_within_a_twentieth_of_the_measured_peak(self):
        nothing = {precision: self.job(train__precision=precision, **SMALL)
                   for precision in ('fp32', 'fp64', 'bf16', 'fp16')}
        wide = {'model__hidden_size': 256, 'model__intermediate_size': 768, 'model__num_hidden_layers': 6,
                'model__num_attention_heads': 4, 'model__num_key_value_heads': 4}
        few = {'train__micro_batch_size': 1, 'train__seq_length': 64, 'batch': 2, **wide}
        many = {'train__micro_batch_size': 8, 'train__seq_length': 256, **wide}
        jobs = {
            'mostly parameters': self.job(**few),
            'mostly parameters, half offloaded': self.job(
                **few, model__vocab_size=32768, train__optimizer__offload='state',
                train__optimizer__offload_fraction=0.5),
            'mostly activations': self.job(**many),
            'mostly activations, offloaded': self.job(**many, train__activation_offload='saved'),
            'two micro-batches recomputed by twos, offloaded': self.job(
                **{**many, 'train__micro_batch_size': 4}, train__activation_offload='saved',
                parallel__recompute='full', parallel__recompute_layers=2),
            'mostly logits': self.job(**{**many, 'model__vocab_size': 16384, 'model__hidden_size': 64,
                                         'model__intermediate_size': 128}),
            'doubles': self.job(**{**many, 'train__micro_batch_size': 4, 'train__seq_length': 128,
                                   'train__precision': 'fp64'}),
            'bfloat16, mostly parameters': self.job(**few, train__precision='bf16'),
            'float16, mostly parameters': self.job(**few, train__precision='fp16'),
            'the update of adafactor': self.job(**few, train__optimizer__kind='adafactor', model__vocab_size=16384),
            'bfloat16, mostly activations': self.job(**many, train__precision='bf16'),
            'bfloat16, mostly logits': self.job(**many, train__precision='bf16', model__vocab_size=16384),
            'two micro-batches': self.job(**{**many, 'train__micro_batch_size': 4}),
            'norms of heads': self.job(**many, model__family='qwen3', model__head_dim=64),
            'norms after each part': self.job(**many, model__family='gemma2', model__head_dim=64),
            'documents apart': self.job(**many, data__attention='within_documents'),
            'all layers again': self.job(**many, parallel__recompute='full'),
            'attention again, two micro-batches': self.job(**{**many, 'train__micro_batch_size': 4},
                                                           parallel__recompute='attention'),
            'half frozen': self.job(**{**few, 'model__hidden_size': 512, 'model__intermediate_size': 1536},
                                    model__freeze=['decoder.layers.[0-2].*']),
        }
        for precision, document in nothing.items():
            jobs[f'nothing, {precision}'] = document
        worst = 0
        for number, (name, document) in enumerate(share(jobs.items()), start=1):
            planned = self.planned(document)
            measured = self.peak(number, document)
            off = planned['total'] / measured - 1
            parts = {key: round(value / 2**20, 1) for key, value in planned.items()}
            print(f'{name}: measured {measured / 2**20:.1f} MiB, off by {off:+.1%}, planned {parts}')
            worst = max(worst, abs(off))
        self.assertLess(worst, 0.05)

    def test_the_buffer_of_checkpoints_is_allocated_before_the_first_save(self):
        document = self.document(12, dp=1, model__hidden_size=256, model__intermediate_size=768,
                                 model__num_hidden_layers=6, train__micro_batch_size=1, train__global_batch_size=2)
        run = self.run_whole(1, 1, document)
        with open(os.path.join(run.output, 'metrics.jsonl'), encoding='utf-8') as file:
            rows = [row['memory_bytes'] for row in map(json.loads, file) if 'memory_bytes' in row]
        self.assertGreater(rows[-1] - rows[0], 0.9 * self.planned(document)['checkpoint_snapshot'])

    def test_each_rank_tells_its_memory_after_the_first_step(self):
        changes = {'model__hidden_size': 256, 'model__intermediate_size': 768, 'model__num_hidden_layers': 6,
                   'model__num_attention_heads': 4, 'model__num_key_value_heads': 4, 'train__micro_batch_size': 4,
                   'train__seq_length': 256, 'resources__slots_per_node': 2}
        for number, parallel in enumerate(({'dp': 2}, {'pp': 2}, {'dp': 2, 'zero': 3}),
                                          start=1):
            with self.subTest(**parallel):
                run = self.run_whole(number, 1, self.job(**changes, parallel=parallel))
                told = json_of(run.output, 'memory.json')
                self.assertEqual((told['schema'], told['step']), ('roll.memory/1', 1))
                self.assertEqual([one['rank'] for one in told['ranks']], [0, 1])
                for one in told['ranks']:
                    self.expect_categories(one, told['planned_stages'][one['stage']])
                most = max(told['ranks'], key=lambda one: one['peak'])
                self.assertRegex(run.log(), rf'memory after step 1, rank {most["rank"]} \(the rank with the most\): '
                                            rf'{most["peak"] / 2**20:.1f} MiB = weights .*; planned .*; free ')

    def expect_categories(self, told, planned):
        """Compares the measured memory of a rank with the plan of its stage."""
        parts = ('weights', 'main_weights', 'gradients', 'moments', 'activations', 'communication', 'other')
        self.assertEqual(sum(told[part] for part in parts), told['peak'])
        self.assertGreater(told['free'], 0)
        for part in ('main_weights', 'gradients', 'moments'):  # the same for all ranks of the plan's fullest stage
            self.assertAlmostEqual(told[part], planned[part], delta=0.03 * planned[part] + 2**18, msg=part)
        for part in ('weights', 'activations', 'communication'):
            self.assertAlmostEqual(told[part], planned[part], delta=0.15 * planned[part] + 2**21, msg=part)
        # What is left is the program, and the memory that the allocator does not use again.
        self.assertAlmostEqual(told['other'], planned['other'], delta=0.05 * told['peak'] + 2**23, msg='other')

    def expect_near(self, documents):
        """Compares the plans of the documents with the peaks of their runs."""
        for number, (name, document) in enumerate(documents.items(), start=1):
            planned, measured = self.planned(document), self.peak(number, document)
            off = planned['total'] / measured - 1
            parts = {key: round(value / 2**20, 1) for key, value in planned.items()}
            print(f'{name}: measured {measured / 2**20:.1f} MiB, off by {off:+.1%}, planned {parts}')
            with self.subTest(name):
                self.assertLess(abs(off), 0.05)

    def test_the_plan_of_ranks_that_share_a_frozen_base_is_near_the_peak(self):
        base = self.large_base()
        shared = {'model': {'from': base}, 'train__lora': {'r': 8, 'alpha': 8}, 'resources__slots_per_node': 2}
        self.expect_near({
            f'LoRA, zero {zero}, {precision}': self.job(**shared, train__precision=precision,
                                                        parallel={'dp': 2, 'zero': zero})
            for zero, precision in share(((1, 'bf16'), (2, 'fp32'), (3, 'fp32'), (3, 'bf16')))})

    def test_the_plan_of_a_frozen_base_is_near_the_peak(self):
        """The gradients have no room for the logits, so that their block adds to the heap's largest size."""
        base = self.large_base()
        job = {'model': {'from': base}, 'train__seq_length': 256, 'train__micro_batch_size': 2, 'batch': 2}
        self.expect_near({form: self.job(**job, train__lora={'r': 16, 'alpha': 32, 'base': form})
                          for form in ('full', 'nf4')})

    def test_the_plan_is_near_the_peak_of_every_rank_that_shares_its_state(self):
        """Also with samples, which no rank generates with the whole model."""
        sizes = {'model__hidden_size': 384, 'model__intermediate_size': 1024, 'model__num_hidden_layers': 4,
                 'model__num_attention_heads': 4, 'model__num_key_value_heads': 4, 'model__vocab_size': 12288,
                 'train__micro_batch_size': 2, 'train__seq_length': 128, 'resources__slots_per_node': 2}
        sample = {'train__sample': {'every': 3, 'prompts': ['the '], 'max_tokens': 4}}
        jobs = {f'zero {zero}': ({'dp': 2, 'zero': zero}, {}) for zero in (1, 2)}
        jobs['zero 2, one micro-batch'] = ({'dp': 2, 'zero': 2}, {'batch': 4})
        jobs['zero 3, samples'] = ({'dp': 2, 'zero': 3}, sample)
        jobs['stages, samples'] = ({'pp': 2}, sample)
        jobs['tensors, samples'] = ({'tp': 2}, sample)
        for number, (name, (parallel, changes)) in enumerate(share(jobs.items()), start=1):
            document = self.job(**sizes, **changes, parallel=parallel)
            planned = json.loads(self.plan(document, '--json').stdout)
            stages = planned.get('memory_per_stage_bytes', [planned['memory_per_rank_bytes']])
            measured = self.peak(number, document)
            ranks = json_of(self.top, f'job-{number}', 'memory.json')['ranks']
            pairs = [(rank['peak'], stages[rank['stage']]['total'] - stages[rank['stage']]['checkpoint_snapshot'])
                     for rank in ranks] + [(measured, stages[0]['total'])]
            for peak, total in pairs:
                print(f'{name}: measured {peak / 2**20:.1f} MiB, off by {total / peak - 1:+.1%}')
                with self.subTest(name):
                    self.assertLess(abs(total / peak - 1), 0.05, (planned['memory_per_rank_bytes'], ranks))

    def test_the_plan_counts_a_teacher_that_is_larger_than_its_student(self):
        teacher = self.large_base()
        sizes = {**LARGE, 'model__hidden_size': 64, 'model__intermediate_size': 128}
        distill = {'kind': 'distill', 'base': 'pretrain', 'teacher': {'from': teacher, 'top_k': 8}}
        document = self.job(**sizes, objective=distill)
        self.assertGreater(self.planned(document)['teacher'], 100 << 20)
        self.expect_near({'a large teacher': document})

    def test_auto_finds_layers_that_fit_and_refuses_a_limit_that_nothing_fits(self):
        sizes = {'train__micro_batch_size': 4, 'train__seq_length': 256, 'batch': 8, 'parallel__recompute': 'auto',
                 'model__num_hidden_layers': 6, 'model__hidden_size': 256, 'model__intermediate_size': 768}
        most = self.planned(self.job(**sizes, parallel__memory_limit='1TiB'))['total']
        limit = most - (40 << 20)
        document = self.job(**sizes, parallel__memory_limit=str(limit))
        plan = json.loads(self.plan(document, '--json').stdout)
        self.assertLessEqual(plan['memory_per_rank_bytes']['total'], limit)
        self.assertGreater(plan['recompute']['flops_per_token'], 0)
        self.assertLess(self.peak(1, document), 1.05 * limit)
        with open(os.path.join(self.top, 'job-1', 'logs', 'attempt-1', 'rank-0.log'), encoding='utf-8') as log:
            self.assertIn(f"recompute: {plan['recompute']['layers']}", log.read())
        self.refused(self.job(**sizes, parallel__memory_limit='16MiB'), 2,
                     'parallel.memory_limit is 16 MiB (16777216 bytes), but a rank of stage 0 needs at least')

    def test_a_rank_without_memory_says_which_settings_need_less(self):
        document = self.job(model__num_hidden_layers=6, model__hidden_size=256, model__intermediate_size=768,
                            train__micro_batch_size=8, train__seq_length=1024, model__max_position_embeddings=1024)
        limit = 400 << 20

        def lower():
            resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
        attempt = Attempt(self, 1, 1, document, setup=lower)
        self.assertEqual(attempt.wait(), [1], attempt.log())
        text = attempt.said('failed')[0]['message']
        print(text)
        self.assertIn('out of memory during step 1, forward of micro-batch 0: no room for ', text)
        self.assertIn('the largest parts: activations ', text)
        self.assertIn('parallel.recompute full saves ', text)
        self.assertEqual(text.count(' saves '), 3)

    def test_validation_needs_no_more_than_training(self):
        sizes = {'train__micro_batch_size': 8, 'train__seq_length': 256, 'model__vocab_size': 16384,
                 'model__hidden_size': 64, 'model__intermediate_size': 128}
        plain = self.peak(1, self.job(data__valid=0.0, **sizes))
        valid = self.peak(2, self.job(data__valid=0.05, train__valid_every=1, **sizes))
        print(f'peak {plain / 2**20:.1f} MiB, with validation {valid / 2**20:.1f} MiB')
        self.assertLess(valid, 1.02 * plain)


if __name__ == '__main__':
    unittest.main()
