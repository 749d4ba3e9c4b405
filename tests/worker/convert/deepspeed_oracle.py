"""Compares checkpoints that DeepSpeed saves after some steps with the results of its zero_to_fp32.py and
ds_to_universal.py. Also converts checkpoints of more ranks, written here in the way that ZeRO's stages split them,
and damaged files.

usage: deepspeed_oracle.py ROLL_CONVERT    (DeepSpeed lies in .deps/oracle/deepspeed)
"""
import collections
import importlib
import json
import os
import pathlib
import shutil
import sys
import tempfile
import unittest
import warnings

import torch
import transformers
from safetensors.torch import load_file, save_file

from oracle import FolderCase, free_port, run

os.environ['DS_ACCELERATOR'] = 'cpu'
sys.path.append(str(pathlib.Path(sys.prefix) / 'deepspeed'))  # last, so that transformers does not find it
warnings.filterwarnings('ignore')
import deepspeed  # noqa: E402
from deepspeed.checkpoint import ds_to_universal  # noqa: E402
from deepspeed.utils.zero_to_fp32 import get_fp32_state_dict_from_zero_checkpoint  # noqa: E402

deepspeed.utils.logger.setLevel('ERROR')
# Replaces a function whose compilation takes minutes.
importlib.import_module('deepspeed.comm.torch')
sys.modules['deepspeed.comm.torch'].build_shm_op = lambda: None

SIZES = dict(vocab_size=97, hidden_size=32, intermediate_size=47, num_hidden_layers=2,
             num_attention_heads=8, num_key_value_heads=4)


def train(rank, world, port, stage, frozen, changes, root):
    """Trains two steps in bf16. Matrices and vectors are separate groups, as trainers make them for weight decay."""
    os.environ.update(MASTER_ADDR='127.0.0.1', MASTER_PORT=str(port), RANK=str(rank), LOCAL_RANK=str(rank),
                      WORLD_SIZE=str(world), LOCAL_SIZE=str(world))
    torch.set_num_threads(1)
    torch.manual_seed(7)
    deepspeed.init_distributed('gloo', verbose=False)
    model = transformers.LlamaForCausalLM(transformers.LlamaConfig(**{**SIZES, **changes}))
    if rank == 0:
        model.save_pretrained(root / 'hf')
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(name not in frozen)
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    groups = [{'params': [one for one in trained if (one.dim() > 1) == matrix]} for matrix in (True, False)]
    engine, *_ = deepspeed.initialize(
        model=model, optimizer=torch.optim.AdamW(groups, lr=0.01),
        config={'train_batch_size': world, 'train_micro_batch_size_per_gpu': 1, 'bf16': {'enabled': True},
                'zero_optimization': {'stage': stage}, 'zero_allow_untested_optimizer': True})
    for step in range(2):
        tokens = torch.arange(24)[None] * (rank + 2 + step) % 97
        engine.backward(engine(input_ids=tokens, labels=tokens).loss)
        engine.step()
    engine.save_checkpoint(root / 'ds')
    torch.distributed.barrier()
    torch.distributed.destroy_process_group()


class OfDeepSpeed(FolderCase):
    def train(self, stage, world, frozen=(), **changes):
        """Trains with DeepSpeed. Writes the weights that DeepSpeed's script reads from the checkpoint to `want`."""
        torch.multiprocessing.start_processes(train, (world, free_port(), stage, frozen, changes, self.root),
                                              nprocs=world, start_method='fork')
        state = get_fp32_state_dict_from_zero_checkpoint(str(self.root / 'ds'))
        tied = {'lm_head.weight'} if changes.get('tie_word_embeddings') else set()
        (self.root / 'want').mkdir()
        save_file({name: state[name].clone() for name in {*state} - tied}, self.root / 'want/model.safetensors')
        shutil.copy(self.root / 'hf/config.json', self.root / 'want')
        before = load_file(self.root / 'hf/model.safetensors')
        for name, tensor in load_file(self.root / 'want/model.safetensors').items():
            self.assertEqual(torch.equal(before[name].bfloat16(), tensor.bfloat16()), name in frozen, name)

    def universal(self):
        arguments = ['--input_folder', self.root / 'ds/global_step2', '--output_folder',
                     self.root / 'universal/global_step2_universal', '--num_extract_workers', 1,
                     '--num_merge_workers', 1, '--inject_missing_state']
        before, sys.argv = sys.argv, ['ds_to_universal', *map(str, arguments)]
        ds_to_universal.main(ds_to_universal.parse_arguments())
        sys.argv = before

    def test_master_weights_are_those_of_zero_to_fp32(self):
        for stage, world, frozen, changes in ((1, 2, (), {'tie_word_embeddings': True}),
                                              (2, 3, ('model.embed_tokens.weight',), {}),
                                              (3, 2, ('model.layers.1.input_layernorm.weight',), {})):
            with self.subTest(stage=stage, world=world):
                self.root = pathlib.Path(tempfile.mkdtemp(dir=self.root))
                self.train(stage, world, frozen, **changes)
                self.universal()
                run('diff', self.root / 'ds', self.root / 'want', '--config', self.root / 'hf')
                # with --cast, because frozen weights may have another type in it
                run('diff', self.root / 'universal', self.root / 'want', '--config', self.root / 'hf', '--cast')
                run('convert', self.root / 'ds', self.root / 'mca', '--to', 'mca', '--pp', 2,
                    '--make-vocab-size-divisible-by', 49, '--config', self.root / 'hf', '--verify')
                run('diff', self.root / 'mca', self.root / 'want')


def padded(tensor, multiple):
    return torch.cat([tensor, torch.full((-tensor.numel() % multiple,), 9.0)])


class DeepSpeed(FolderCase):
    def make(self, **changes):
        torch.manual_seed(7)
        model = transformers.LlamaForCausalLM(transformers.LlamaConfig(**{**SIZES, **changes}))
        model.save_pretrained(self.root / 'hf')
        return {name: parameter.detach() for name, parameter in model.named_parameters()}

    def write(self, stage, parameters, world, splits=1):
        """Writes a checkpoint. Matrices and vectors are separate groups, as trainers make them for weight decay."""
        step = self.root / 'ds/global_step5'
        step.mkdir(parents=True)
        (self.root / 'ds/latest').write_text('global_step5')
        groups = [{k: v for k, v in parameters.items() if (v.dim() > 1) == matrix}
                  for matrix in (True, False)]
        for rank in range(world):
            def part(tensor):
                return padded(tensor.flatten(), world).chunk(world)[rank].clone()
            if stage == 3:
                flat = torch.cat([part(v) for group in groups for v in group.values()])
                state = {'fp32_flat_groups': list(flat.tensor_split(splits))}
            else:
                state = {'single_partition_of_fp32_groups': [
                    padded(torch.cat([v.flatten() for v in group.values()]),
                           2 * world).chunk(world)[rank].clone() for group in groups]}
            state |= {'zero_stage': stage, 'partition_count': world if stage == 3 else [world] * 2,
                      'base_optimizer_state': {'step': 5}, 'overlap': object}
            torch.save({'optimizer_state_dict': state, 'ds_version': '0.18.2'},
                       step / f'bf16_zero_pp_rank_{rank}_mp_rank_00_optim_states.pt')
            if rank > 0 and stage < 3:
                continue
            model = {'module': {k: torch.empty(0) if stage == 3 else v.bfloat16()
                                for k, v in parameters.items()},
                     'buffer_names': [], 'shared_params': {},
                     'param_shapes': [collections.OrderedDict((k, v.shape) for k, v in g.items())
                                      for g in groups],
                     'frozen_param_shapes': {}, 'frozen_param_fragments': {},
                     'ds_version': '0.18.2'}
            name = f'zero_pp_rank_{rank}_' if stage == 3 else ''
            torch.save(model, step / f'{name}mp_rank_00_model_states.pt')
        return step

    def same(self):
        run('diff', self.root / 'ds', self.root / 'hf', '--config', self.root / 'hf')
        shutil.rmtree(self.root / 'ds')

    def test_every_stage_and_number_of_ranks_gives_the_master_weights(self):
        parameters = self.make()
        for stage in (1, 2, 3):
            for world in (1, 2, 3, 7):
                with self.subTest(stage=stage, world=world):
                    self.write(stage, parameters, world, splits=3)
                    self.same()

    def test_the_optimizers_state_is_dropped_by_name(self):
        self.write(2, self.make(), 2)
        done = run('convert', self.root / 'ds', self.root / 'out', '--config', self.root / 'hf', '--dry-run', '--json')
        dropped = [one['tensor'] for one in json.loads(done.stdout)['dropped']]
        self.assertEqual(dropped.count('base_optimizer_state'), 2)
        self.assertNotIn('single_partition_of_fp32_groups', dropped)

    def refused(self, says, code=1):
        done = run('verify', self.root / 'ds', '--config', self.root / 'hf', code=code)
        self.assertIn(says, done.stderr)
        shutil.rmtree(self.root / 'ds')

    def test_what_is_incomplete_or_contradicts_itself_is_refused(self):
        parameters = self.make()
        step = self.write(2, parameters, 3)
        os.remove(step / 'bf16_zero_pp_rank_1_mp_rank_00_optim_states.pt')
        self.refused('2 optim_states files were found, but 3 ranks wrote the checkpoint')
        for stage in (2, 3):
            step = self.write(stage, parameters, 2)
            path = step / 'bf16_zero_pp_rank_1_mp_rank_00_optim_states.pt'
            state = torch.load(path, weights_only=False)
            groups = next(v for k, v in state['optimizer_state_dict'].items() if 'groups' in k)
            groups[-1] = groups[-1][:len(groups[-1]) // 2].clone()
            torch.save(state, path)
            self.refused('ends outside its group' if stage == 2 else 'ends before')
        name = 'model.layers.0.mlp.up_proj.weight'
        self.write(2, {k: v for k, v in parameters.items() if k != name}, 2)
        self.refused(name + ' is missing')
        self.write(2, {**parameters, 'model.extra': torch.zeros(3)}, 2)
        self.refused('no rule of family llama names model.extra', 2)
        self.write(3, {**parameters, name: torch.zeros(46, 32)}, 2)
        self.refused('has shape [46, 32]')
        step = self.write(2, parameters, 2)
        path = step / 'bf16_zero_pp_rank_0_mp_rank_00_optim_states.pt'
        path.rename(step / 'zero_pp_rank_0_mp_rank_01_optim_states.pt')
        self.refused('model-parallel', 2)
        step = self.write(2, parameters, 2)
        os.truncate(step / 'mp_rank_00_model_states.pt', 100)
        self.refused('mp_rank_00_model_states.pt')


if __name__ == '__main__':
    unittest.main(verbosity=2)
