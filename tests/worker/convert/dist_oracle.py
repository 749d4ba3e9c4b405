"""Compares distributed checkpoints with their own tools: torch.distributed.checkpoint and megatron-core.

usage: dist_oracle.py ROLL_CONVERT
"""
import argparse
import json
import os
import pathlib
import pickle
import shutil
import unittest
import warnings

import torch
import torch.distributed.checkpoint as dcp
import transformers
from safetensors.torch import load_file
from torch.distributed.checkpoint.format_utils import dcp_to_torch_save
from torch.distributed.checkpoint.state_dict import get_state_dict
from torch.distributed.checkpoint.stateful import Stateful

import megatron_ranks
from oracle import FolderCase, free_port, run

warnings.filterwarnings('ignore')

LLAMA = dict(vocab_size=96, hidden_size=32, intermediate_size=48, num_hidden_layers=4,
             num_attention_heads=8, num_key_value_heads=4, max_position_embeddings=64)
MEGATRON = dict(num_layers=4, hidden_size=32, ffn_hidden_size=48, num_attention_heads=8,
                num_query_groups=4, kv_channels=4)
MOE = dict(vocab_size=96, hidden_size=32, intermediate_size=48, moe_intermediate_size=16,
           num_hidden_layers=2, num_attention_heads=8, num_key_value_heads=4, head_dim=4,
           num_experts=4, num_experts_per_tok=2, max_position_embeddings=64)


class Case(FolderCase):
    def make(self, name, model_type='llama', dtype=torch.float32, sizes=None, **changes):
        torch.manual_seed(7)
        sizes = {**(sizes or LLAMA), **changes}
        model = transformers.AutoModelForCausalLM.from_config(
            transformers.AutoConfig.for_model(model_type, **sizes)).to(dtype).eval()
        for parameter in model.parameters():
            if parameter.dim() == 1:
                torch.nn.init.normal_(parameter, 1, 0.1)
        model.save_pretrained(self.root / name)
        return model

    def same(self, a, b, *options):
        run('diff', self.root / a, self.root / b, *options)


class Dcp(Case):
    def test_torch_reads_what_we_write(self):
        model = self.make('hf', dtype=torch.bfloat16)
        run('convert', self.root / 'hf', self.root / 'dcp', '--to', 'dcp', '--verify')
        state = {name: torch.zeros_like(tensor) for name, tensor in model.state_dict().items()}
        dcp.load(state, checkpoint_id=self.root / 'dcp')
        dcp_to_torch_save(self.root / 'dcp', self.root / 'all.pt')
        again = torch.load(self.root / 'all.pt', weights_only=True)
        for name, tensor in model.state_dict().items():
            self.assertTrue(torch.equal(tensor, state[name]), name)
            self.assertTrue(torch.equal(tensor, again[name]), name)
        run('convert', self.root / 'dcp', self.root / 'back', '--to', 'hf')
        self.assertEqual((self.root / 'hf/model.safetensors').read_bytes(),
                         (self.root / 'back/model.safetensors').read_bytes())

    def test_reads_what_torch_writes_under_any_prefix(self):
        for number, wrap in enumerate((lambda s: s, lambda s: {'model': s},
                                       lambda s: {'app': {'model': s}})):
            model = self.make('hf')
            state = {**wrap(model.state_dict()), 'step': 3,
                     'optimizer': {'state': {'model.embed_tokens.weight': torch.zeros(3)}}}
            dcp.save(state, checkpoint_id=self.root / f'dcp{number}')
            self.same(f'dcp{number}', 'hf', '--config', self.root / 'hf')
            seen = run('convert', self.root / f'dcp{number}', self.root / 'mca', '--config',
                       self.root / 'hf/config.json', '--to', 'mca', '--tp', 2, '--json',
                       '--overwrite')
            self.assertIn('the optimizer\'s state',
                          [one['rule'] for one in json.loads(seen.stdout)['dropped']])
            self.same('mca', 'hf')

    def test_reads_a_model_and_optimizer_kept_as_one_object(self):
        """The object is the AppState of torch's tutorial on distributed checkpoints."""
        model = self.make('hf')
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.0, weight_decay=0.0)
        model(torch.arange(24).reshape(2, 12), labels=torch.arange(24).reshape(2, 12)).loss.backward()
        optimizer.step()

        class AppState(Stateful):
            def state_dict(self):
                weights, states = get_state_dict(model, optimizer)
                return {'model': weights, 'optim': states}

        dcp.save({'app': AppState()}, checkpoint_id=self.root / 'dcp')
        self.same('dcp', 'hf', '--config', self.root / 'hf')
        seen = run('convert', self.root / 'dcp', self.root / 'back', '--to', 'hf', '--config', self.root / 'hf',
                   '--json', '--verify')
        self.assertEqual((self.root / 'hf/model.safetensors').read_bytes(),
                         (self.root / 'back/model.safetensors').read_bytes())
        self.assertIn('app.optim.state.lm_head.weight.exp_avg',
                      [one['tensor'] for one in json.loads(seen.stdout)['dropped']])
        run('convert', self.root / 'dcp', self.root / 'moment', '--to', 'hf', '--config', self.root / 'hf', '--state',
            'exp_avg')
        got = load_file(self.root / 'moment/model.safetensors')
        for name, parameter in model.named_parameters():
            self.assertTrue(torch.equal(got[name], optimizer.state[parameter]['exp_avg']), name)

    def test_a_tied_output_layer_is_a_copy(self):
        model = self.make('hf', tie_word_embeddings=True)
        dcp.save(model.state_dict(), checkpoint_id=self.root / 'dcp')
        self.same('dcp', 'hf', '--config', self.root / 'hf')
        state = {name: tensor.clone() for name, tensor in model.state_dict().items()}
        state['lm_head.weight'][3] += 1
        dcp.save(state, checkpoint_id=self.root / 'other')
        done = run('verify', self.root / 'other', '--config', self.root / 'hf', code=1)
        self.assertIn('differs', done.stderr)

    def test_keys_of_single_experts_with_gate_and_up_apart(self):
        """fsdp_dtensor has such keys."""
        self.make('hf', 'qwen3_moe', sizes=MOE)
        run('convert', self.root / 'hf', self.root / 'mca')
        state = torch.load(self.root / 'mca/iter_0000001/mp_rank_00/model_optim_rng.pt')['model']
        keys = {}
        for name, tensor in state.items():
            if name.endswith('linear_fc1.weight'):
                keys[name + '_w'], keys[name + '_v'] = (half.clone() for half in tensor.chunk(2))
            else:
                keys[name] = tensor
        dcp.save({'model': {'module': keys}}, checkpoint_id=self.root / 'dcp')
        self.same('dcp', 'hf', '--config', self.root / 'hf')

    def test_a_checkpoint_without_config_says_what_to_give(self):
        model = self.make('hf')
        dcp.save(model.state_dict(), checkpoint_id=self.root / 'dcp')
        done = run('convert', self.root / 'dcp', self.root / 'out', code=3)
        self.assertIn('--config MODEL', done.stderr)
        run('inspect', self.root / 'dcp', '--config', self.root / 'nowhere', code=3)

    def test_missing_and_unknown_tensors_are_named(self):
        model = self.make('hf')
        state = model.state_dict()
        name = 'model.layers.1.mlp.up_proj.weight'
        dcp.save({k: v for k, v in state.items() if k != name}, checkpoint_id=self.root / 'less')
        done = run('verify', self.root / 'less', '--config', self.root / 'hf', code=1)
        self.assertIn(name + ' is missing', done.stderr)
        dcp.save({**state, 'model.extra': torch.zeros(2)}, checkpoint_id=self.root / 'more')
        done = run('verify', self.root / 'more', '--config', self.root / 'hf', code=2)
        self.assertIn('no rule of family llama names model.extra', done.stderr)

    def test_the_common_state_is_megatrons_where_megatron_looks_and_empty_where_roll_does(self):
        self.make('hf')
        run('convert', self.root / 'hf', self.root / 'ours', '--to', 'torch_dist')
        with torch.serialization.safe_globals([argparse.Namespace]):
            common = torch.load(self.root / 'ours/iter_0000001/common.pt', weights_only=True)
        self.assertEqual((common['checkpoint_version'], common['args'].num_layers), (3.0, 4))
        self.assertEqual(
            torch.load(self.root / 'ours/iter_0000001/dist_model/common.pt', weights_only=True), {})


class Metadata(Case):
    """Forged and unusual .metadata files."""

    def change(self, change):
        path = self.root / 'dcp/.metadata'
        metadata = pickle.loads(path.read_bytes())
        change(metadata)
        path.write_bytes(pickle.dumps(metadata, protocol=4))

    def setUp(self):
        super().setUp()
        self.make('hf')
        run('convert', self.root / 'hf', self.root / 'dcp', '--to', 'dcp')

    def refused(self, says):
        self.assertIn(says, run('verify', self.root / 'dcp', code=1).stderr)

    def places(self, metadata, name='lm_head.weight'):
        return [info for index, info in metadata.storage_data.items() if index.fqn == name]

    def test_unknown_classes_and_attributes_are_tolerated(self):
        def change(metadata):
            metadata.all_local_plans = [pathlib.PurePosixPath('/somewhere')]
            metadata.mcore_data = {'nd_reformulated_orig_global_shape': complex(1, 2)}
            metadata.storage_meta = dcp.metadata.StorageMeta(pathlib.PosixPath('/there'), 'a', 'b')
        self.change(change)
        self.same('dcp', 'hf')

    def test_paths_that_leave_the_checkpoint_are_refused(self):
        for path in ('../dcp/__0_0.distcp', '/etc/passwd', 'a/../../b'):
            with self.subTest(path=path):
                self.change(lambda m: setattr(self.places(m)[0], 'relative_path', path))
                self.refused('outside the checkpoint')

    def test_extents_and_chunks_that_cannot_be_are_refused(self):
        self.change(lambda m: setattr(self.places(m)[0], 'offset', 1 << 60))
        self.refused('__0_0.distcp ends before lm_head.weight')
        self.change(lambda m: setattr(self.places(m)[0], 'offset', 7))
        self.refused('zip')

        def shrink(metadata):
            chunk = metadata.state_dict_metadata['lm_head.weight'].chunks[0]
            chunk.sizes = torch.Size([95, 32])
        self.change(shrink)
        self.refused('do not cover the tensor exactly')

    def test_an_item_of_another_type_is_refused(self):
        def change(metadata):
            metadata.state_dict_metadata['lm_head.weight'].properties.dtype = torch.float64
        self.change(change)
        self.refused('the metadata says F64')

    def test_truncated_files_are_refused(self):
        path = self.root / 'dcp/.metadata'
        whole = path.read_bytes()
        path.write_bytes(whole[:len(whole) // 2])
        self.refused('pickle')
        path.write_bytes(whole)
        data = self.root / 'dcp/__0_0.distcp'
        os.truncate(data, data.stat().st_size - 100)
        self.refused('__0_0.distcp ends before lm_head.weight')
        os.remove(data)
        run('verify', self.root / 'dcp', code=3)


class Megatron(Case):
    def through(self, name, sizes, layout, **changes):
        shutil.rmtree(self.root / 'theirs', ignore_errors=True)
        megatron_ranks.through_megatron(self.root / name / 'iter_0000001/dist_model',
                                        self.root / 'theirs',
                                        sizes, layout, free_port(), **changes)

    def test_megatron_loads_ours_at_any_layout_and_we_read_what_it_saves(self):
        self.make('hf')
        run('convert', self.root / 'hf', self.root / 'ours', '--to', 'torch_dist', '--verify')
        for layout in ({'tp': 2, 'pp': 2}, {'tp': 4}):
            with self.subTest(layout=layout):
                self.through('ours', MEGATRON, layout)
                self.same('theirs', 'hf', '--config', self.root / 'hf')
        run('convert', self.root / 'theirs', self.root / 'mca', '--to', 'mca', '--tp', 2, '--pp', 4,
            '--config', self.root / 'hf')
        self.same('mca', 'hf')

    def test_logits_are_transformers_own(self):
        model = self.make('hf')
        run('convert', self.root / 'hf', self.root / 'ours', '--to', 'torch_dist')
        tokens = torch.arange(24).reshape(2, 12)
        file = self.root / 'logits.pt'
        megatron_ranks.logits(self.root / 'ours/iter_0000001/dist_model', MEGATRON, tokens, file,
                              free_port())
        with torch.no_grad():
            want = model(tokens).logits
        self.assertLess((torch.load(file) - want).abs().max() / want.abs().max(), 1e-5)

    def test_tied_embeddings_are_stored_once(self):
        self.make('hf', tie_word_embeddings=True)
        run('convert', self.root / 'hf', self.root / 'ours', '--to', 'torch_dist')
        self.through('ours', MEGATRON, {'pp': 2}, share_embeddings_and_output_weights=True)
        self.same('theirs', 'hf', '--config', self.root / 'hf')

    def test_experts_have_an_axis_and_layers_too_if_all_are_of_one_kind(self):
        self.make('hf', 'qwen3_moe', sizes=MOE)
        run('convert', self.root / 'hf', self.root / 'mca')
        path = self.root / 'mca/mca_config.json'
        for frequency in ([1, 1], 1):
            config = json.loads(path.read_text())
            path.write_text(json.dumps({**config, 'moe_layer_freq': frequency}))
            run('convert', self.root / 'mca', self.root / 'ours', '--to', 'torch_dist',
                '--transformer-impl', 'local', '--overwrite')
            keys = dcp.FileSystemReader(self.root / 'ours/iter_0000001').read_metadata()
            shape = keys.state_dict_metadata[
                'decoder.layers.mlp.experts.experts.linear_fc1.weight' if frequency == 1 else
                'decoder.layers.1.mlp.experts.experts.linear_fc1.weight'].size
            self.assertEqual(tuple(shape), (2, 4, 32, 32) if frequency == 1 else (4, 32, 32))
            sizes = {**MEGATRON, 'num_layers': 2, 'num_moe_experts': 4, 'moe_ffn_hidden_size': 16,
                     'qk_layernorm': True, 'moe_layer_freq': frequency}
            self.through('ours', sizes, {'ep': 2})
            self.same('theirs', 'hf', '--config', self.root / 'hf')
        self.through('ours', sizes, {'ep': 2}, metadata={'singleton_local_shards': True})
        self.same('theirs', 'hf', '--config', self.root / 'hf')

    def states_by_megatron(self, layout, sizes, bucket, kind='dp_reshardable', **changes):
        """Saves a model with an optimizer whose moments are -1 and 3 times the weights."""
        args = argparse.Namespace(
            tensor_model_parallel_size=layout.get('tp', 1), pipeline_model_parallel_size=layout.get('pp', 1),
            virtual_pipeline_model_parallel_size=layout.get('vpp'), padded_vocab_size=megatron_ranks.VOCABULARY,
            transformer_impl='local')

        def job(rank, _):
            stages = [None] if 'vpp' not in layout else range(layout['vpp'])
            chunks = [megatron_ranks.build(sizes, layout, stage, **changes) for stage in stages]
            weights = megatron_ranks.dist_checkpointing.load(
                {str(i): chunk.sharded_state_dict() for i, chunk in enumerate(chunks)},
                str(self.root / 'ours/iter_0000001/dist_model'))
            for i, chunk in enumerate(chunks):
                chunk.load_state_dict(weights[str(i)])
            optimizer = megatron_ranks.with_optimizer(chunks, bucket, lr=0.0, weight_decay=0.0)[1]
            for one in optimizer.chained_optimizers:
                one._init_optimizer_states_with_dummy_values()
                for main, state in one.optimizer.state.items():
                    state['exp_avg'].copy_(-main)
                    state['exp_avg_sq'].copy_(3 * main)
            states, metadata = megatron_ranks.states_of(chunks, optimizer, kind)
            if rank == 0:
                shutil.rmtree(self.root / 'theirs', ignore_errors=True)
                os.makedirs(self.root / 'theirs')
            torch.distributed.barrier()
            megatron_ranks.dist_checkpointing.save({**states, 'args': args}, str(self.root / 'theirs'),
                                                   content_metadata=metadata)
        megatron_ranks.run(layout, job, free_port())

    def same_states(self, source):
        want = load_file(self.root / 'hf/model.safetensors')
        for state, factor in (('fp32_param', 1), ('exp_avg', -1), ('exp_avg_sq', 3)):
            run('convert', self.root / source, self.root / 'out', '--overwrite', '--to', 'hf', '--state', state,
                *([] if (self.root / source / 'mca_config.json').exists() else ['--config', self.root / 'hf']))
            got = load_file(self.root / 'out/model.safetensors')
            self.assertEqual(got.keys(), want.keys())
            for name, tensor in want.items():
                self.assertTrue(torch.equal(got[name], factor * tensor), f'{state} of {name}')

    def test_buckets_of_the_distributed_optimizer_are_read_at_any_layout(self):
        tied = {'tie_word_embeddings': True}
        for model_type, layout, bucket, sizes, changes in (
                ('llama', {'tp': 2, 'pp': 2}, None, {}, {}),
                ('llama', {'pp': 2, 'dp': 2}, None, {'vocab_size': 90, **tied},
                 {'share_embeddings_and_output_weights': True}),
                ('qwen2', {'pp': 2, 'vpp': 2}, None, {}, {'add_qkv_bias': True}),
                ('qwen3', {'tp': 2}, 1000, {'head_dim': 4}, {'qk_layernorm': True})):
            with self.subTest(model_type=model_type, layout=layout):
                self.make('hf', model_type, **sizes)
                run('convert', self.root / 'hf', self.root / 'ours', '--to', 'torch_dist', '--overwrite')
                native = {key: changes.pop(key) for key in ('add_qkv_bias', 'qk_layernorm') if key in changes}
                self.states_by_megatron(layout, {**MEGATRON, **native}, bucket, **changes)
                self.same_states('theirs')
        # As ROLL keeps them: rank files of the weights, and dist_optimizer beside them.
        run('convert', self.root / 'theirs', self.root / 'roll', '--to', 'mca', '--tp', 2, '--config',
            self.root / 'hf', '--transformer-impl', 'local')
        shutil.copytree(self.root / 'theirs', self.root / 'roll/iter_0000001/dist_optimizer')
        self.same_states('roll')
        run('convert', self.root / 'roll', self.root / 'again', '--to', 'mca', '--pp', 2, '--optimizer', '--verify')
        self.same_states('again')
        common = self.root / 'theirs/common.pt'
        state = torch.load(common, weights_only=False)
        state['args'].tensor_model_parallel_size = 1
        torch.save(state, common)
        done = run('convert', self.root / 'theirs', self.root / 'out', '--to', 'hf', '--config', self.root / 'hf',
                   '--state', 'exp_avg', code=2)
        self.assertIn('do not fit the parameters of this model and layout', done.stderr)

    def written_buckets(self, target, layout, *options):
        """Converts Megatron's checkpoint `whole` to one whose optimizer is in buckets of the layout."""
        widths = [word for axis in ('tp', 'pp', 'vpp') for word in ('--' + axis, layout.get(axis, 1))]
        run('convert', self.root / 'whole', self.root / target, '--config', self.root / 'hf', '--optimizer',
            '--optimizer-kind', 'dp_reshardable', '--transformer-impl', 'local', '--overwrite', '--verify', *widths,
            *options)

    def same_keys(self, first, second):
        """Compares the keys, shapes and types of the optimizer's state in two checkpoints."""
        kinds = []
        for directory in (first, second):
            found = dcp.FileSystemReader(directory).read_metadata().state_dict_metadata
            kinds.append({key: (getattr(one, 'size', None), getattr(getattr(one, 'properties', None), 'dtype', None))
                          for key, one in found.items() if key.startswith('optimizer.')})
        self.assertGreater(len(kinds[0]), 0)
        self.assertEqual(*kinds)

    def megatron_continues(self, directory, layout, sizes, bucket, tokens, **changes):
        """Loads an optimizer in buckets into Megatron, and compares the state of each parameter with its weight.

        `directory`: a torch_dist checkpoint, or ROLL's directory dist_optimizer. `tokens`: rows of the vocabulary.
        """
        def expect(one, parameter, weight, name):
            group, number = one.model_param_group_index_map[parameter]
            main = one.optimizer.param_groups[group]['params'][number]
            rows = one._get_model_param_range_map(parameter)['param']
            weight = weight.view(-1)[rows.start:rows.end]
            state = one.optimizer.state[main]
            for got, want in ((main, weight), (state['exp_avg'], -weight), (state['exp_avg_sq'], 3 * weight)):
                assert torch.equal(got, want), name
            return weight.numel()

        def job(*_):
            torch.serialization.add_safe_globals([argparse.Namespace])  # of common.pt
            stages = [None] if 'vpp' not in layout else range(layout['vpp'])
            chunks = [megatron_ranks.build(sizes, layout, stage, **changes) for stage in stages]
            optimizer = megatron_ranks.with_optimizer(chunks, bucket, lr=0.0, weight_decay=0.0)[1]
            for one in optimizer.chained_optimizers:
                one._init_optimizer_states_with_dummy_values()
            wanted = megatron_ranks.states_of(chunks, optimizer, 'dp_reshardable', is_loading=True)[0]
            weights = megatron_ranks.dist_checkpointing.load(
                {key: one for key, one in wanted.items() if key != 'optimizer'},
                str(self.root / 'ours/iter_0000001/dist_model'))
            for key, chunk in zip(weights, chunks):
                chunk.load_state_dict(weights[key])
            # A main weight of an fp32 model is a view of the parameter, so the optimizer's load changes the parameter.
            loaded = {parameter: parameter.detach().clone() for chunk in chunks for parameter in chunk.parameters()}
            beside = directory.name == 'dist_optimizer'
            state = megatron_ranks.dist_checkpointing.load(
                wanted['optimizer'] if beside else {'optimizer': wanted['optimizer']}, str(directory))
            with torch.no_grad():
                optimizer.load_state_dict(state if beside else state['optimizer'])
            seen = 0
            for chunk in chunks:
                for name, parameter in chunk.named_parameters():
                    if name in ('embedding.word_embeddings.weight', 'output_layer.weight'):
                        loaded[parameter][tokens:] = 0
                    for one in optimizer.chained_optimizers:
                        if parameter in one.model_param_group_index_map:
                            seen += expect(one, parameter, loaded[parameter], name)
            assert seen > 0
        megatron_ranks.run(layout, job, free_port())

    def test_megatron_continues_an_optimizer_that_roll_wrote_in_buckets(self):
        for model_type, layout, bucket, sizes, changes, options in (
                ('llama', {'tp': 2, 'pp': 2}, None, {}, {}, []),
                ('llama', {'pp': 2, 'dp': 2}, None, {'vocab_size': 90, 'tie_word_embeddings': True},
                 {'share_embeddings_and_output_weights': True}, ['--make-vocab-size-divisible-by', 96]),
                ('qwen2', {'pp': 2, 'vpp': 2}, None, {}, {'add_qkv_bias': True}, []),
                ('qwen3', {'tp': 2}, 1000, {'head_dim': 4}, {'qk_layernorm': True}, ['--bucket-size', 1000])):
            with self.subTest(model_type=model_type, layout=layout):
                self.make('hf', model_type, **sizes)
                run('convert', self.root / 'hf', self.root / 'ours', '--to', 'torch_dist', '--overwrite')
                native = {key: changes.pop(key) for key in ('add_qkv_bias', 'qk_layernorm') if key in changes}
                native = {**MEGATRON, **native}
                # Megatron 0.16 loses the end of a parameter if it saves several buckets as fully_reshardable.
                self.states_by_megatron(layout, native, None, 'fully_reshardable', **changes)
                shutil.rmtree(self.root / 'whole', ignore_errors=True)
                os.rename(self.root / 'theirs', self.root / 'whole')
                self.states_by_megatron(layout, native, bucket, **changes)
                self.written_buckets('dist', layout, '--to', 'torch_dist', *options)
                self.same_keys(self.root / 'theirs', self.root / 'dist/iter_0000001')
                tokens = sizes.get('vocab_size', 96)
                self.megatron_continues(self.root / 'dist/iter_0000001', layout, native, bucket, tokens, **changes)
                self.same_states('dist')
                self.written_buckets('roll', layout, '--to', 'mca', *options)
                self.megatron_continues(self.root / 'roll/iter_0000001/dist_optimizer', layout, native, bucket,
                                        tokens, **changes)
                self.same_states('roll')
        # Replicas load the same buckets, and a checkpoint in buckets is a source like any other.
        self.megatron_continues(self.root / 'dist/iter_0000001', {'tp': 2, 'dp': 2}, native, bucket, 96)
        run('convert', self.root / 'dist', self.root / 'again', '--to', 'torch_dist', '--optimizer', '--verify')
        self.same_states('again')

    def test_types_and_models_that_buckets_need(self):
        self.make('hf')
        run('convert', self.root / 'hf', self.root / 'ours', '--to', 'torch_dist')
        self.states_by_megatron({}, MEGATRON, None, 'fully_reshardable')
        os.rename(self.root / 'theirs', self.root / 'whole')
        self.written_buckets('dist', {'tp': 2}, '--to', 'torch_dist', '--dtype', 'bf16', '--grad-dtype', 'bf16')
        keys = dcp.FileSystemReader(self.root / 'dist/iter_0000001').read_metadata().state_dict_metadata
        one = keys['optimizer.distributed.dp_group_idx_1.gbuf_idx_0.dtype_(torch.bfloat16, torch.bfloat16)'
                   '.bucket_idx_0.exp_avg']
        self.assertEqual(one.properties.dtype, torch.float32)
        with torch.serialization.safe_globals([argparse.Namespace]):
            args = torch.load(self.root / 'dist/iter_0000001/common.pt', weights_only=True)['args']
        self.assertEqual((args.bf16, args.tensor_model_parallel_size), (True, 2))
        self.same_states('dist')

        def refused(says, *options):
            done = run('convert', self.root / 'whole', self.root / 'none', '--config', self.root / 'hf', '--to',
                       'torch_dist', *options, code=2)
            self.assertIn(says, done.stderr)
            self.assertFalse((self.root / 'none').exists())
        kind = ['--optimizer', '--optimizer-kind', 'dp_reshardable']
        refused('require --optimizer', '--optimizer-kind', 'dp_reshardable')
        refused('require --optimizer-kind dp_reshardable', '--optimizer', '--bucket-size', 7)
        refused('--optimizer-kind', '--optimizer', '--optimizer-kind', 'dp_zero_gather_scatter')
        refused('must be fp32, bf16 or fp16, not fp8', *kind, '--grad-dtype', 'fp8')
        refused('num_query_groups', *kind, '--tp', 3)
        refused('without expert parallelism; ep is 2', *kind, '--ep', 2)
        refused('--make-vocab-size-divisible-by is for', '--make-vocab-size-divisible-by', 8)


if __name__ == '__main__':
    unittest.main(verbosity=2)
