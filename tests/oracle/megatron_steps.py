"""Trains Megatron-core's GPTModel with its distributed optimizer, as ranks of gloo on CPUs.

usage: megatron_steps.py TASK.json

TASK: `sizes` and `vocabulary` of the model, `optimizer` (lr, betas, eps, weight_decay, clip_grad), `windows` (the
micro-batches of a step, [m][b][tokens + 1]; each step has the same windows) and `phases`. A phase has a `layout` and
any of: `mca` (a directory of rank files whose weights are loaded), `load` (a torch_dist directory; its weights and
optimizer are loaded), `kind` (of the loaded optimizer's state; default: fully_reshardable), `dist_optimizer` (a
directory with the optimizer beside the weights of `mca`, as ROLL keeps it; its state is loaded), `forward` (only
compute the loss of one step), `steps`, and `save` ({directory: kind}, after `save_after` steps). Prints the losses of
each phase as JSON.
"""
import argparse
import json
import os
import socket
import sys

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), '../worker/convert'))

import torch

import megatron_ranks
from megatron.core import dist_checkpointing, parallel_state
from megatron.core.distributed import finalize_model_grads
from megatron.core.optimizer.distrib_optimizer import DistributedOptimizer
from megatron.core.pipeline_parallel import get_forward_backward_func

set_states = DistributedOptimizer._set_main_param_and_optimizer_states


def set_with_step(self, model_param, tensors):
    """Megatron takes `step` from the parameter groups, but torch's Adam also has it with each parameter."""
    group, number = self.model_param_group_index_map[model_param]
    main = self.optimizer.param_groups[group]['params'][number]
    set_states(self, model_param, {**tensors, 'step': self.optimizer.state[main]['step']})


DistributedOptimizer._set_main_param_and_optimizer_states = set_with_step


def rank_weights(task, directory):
    """Returns this rank's weights from its file, under the names of modules without TransformerEngine."""
    rank = f'mp_rank_{parallel_state.get_tensor_model_parallel_rank():02}'
    if parallel_state.get_pipeline_model_parallel_world_size() > 1:
        rank += f'_{parallel_state.get_pipeline_model_parallel_rank():03}'
    state = torch.load(os.path.join(directory, 'iter_0000001', rank, 'model_optim_rng.pt'), weights_only=True)['model']
    spelled = (('self_attention.linear_qkv.layer_norm_weight', 'input_layernorm.weight'),
               ('mlp.linear_fc1.layer_norm_weight', 'pre_mlp_layernorm.weight'))
    for with_engine, without in spelled:
        state = {name.replace(with_engine, without): tensor for name, tensor in state.items()}
    return state


class Run:
    """One rank of a phase."""

    def __init__(self, task, phase):
        self.task, self.phase, layout = task, phase, phase['layout']
        torch.manual_seed(1)
        megatron_ranks.VOCABULARY = task['vocabulary']
        self.model = megatron_ranks.build(task['sizes'], layout, **task.get('changes', {}))
        if 'mca' in phase:
            left = self.model.load_state_dict(rank_weights(task, phase['mca']), strict=False)
            assert not left.unexpected_keys and all('_extra_state' in name for name in left.missing_keys), left
        options = task['optimizer']
        (self.ddp,), self.optimizer = megatron_ranks.with_optimizer(
            [self.model], lr=options['lr'], min_lr=options['lr'], weight_decay=options['weight_decay'],
            adam_beta1=options['betas'][0], adam_beta2=options['betas'][1], adam_eps=options['eps'],
            clip_grad=options['clip_grad'])
        self.model.config.grad_scale_func = self.optimizer.scale_loss
        self.model.config.finalize_model_grads_func = finalize_model_grads
        if 'load' in phase:
            self.load(phase['load'])
        if 'dist_optimizer' in phase:
            self.load(phase['dist_optimizer'], has_model=False)

    def load(self, directory, has_model=True):
        for one in self.optimizer.chained_optimizers:
            one._init_optimizer_states_with_dummy_values()
        kind = self.phase.get('kind', 'fully_reshardable')
        states = megatron_ranks.states_of([self.model], self.optimizer, kind, is_loading=True)[0]
        state = dist_checkpointing.load(states if has_model else states['optimizer'], directory)
        if has_model:
            self.model.load_state_dict(state['model'])
        with torch.no_grad():
            self.optimizer.load_state_dict(state['optimizer'] if has_model else state)
        # Megatron gives all parameters one tensor as their step, which each of them would count up.
        for one in self.optimizer.chained_optimizers:
            for of_parameter in one.optimizer.state.values():
                of_parameter['step'] = of_parameter['step'].clone()

    def save(self, directory, kind):
        layout, sizes = self.phase['layout'], self.task['sizes']
        args = argparse.Namespace(
            tensor_model_parallel_size=layout.get('tp', 1), pipeline_model_parallel_size=layout.get('pp', 1),
            padded_vocab_size=self.task['vocabulary'], transformer_impl='local', **sizes)
        states, metadata = megatron_ranks.states_of([self.model], self.optimizer, kind)
        if torch.distributed.get_rank() == 0:
            os.makedirs(directory)
        torch.distributed.barrier()
        dist_checkpointing.save({**states, 'args': args, 'checkpoint_version': 3.0, 'iteration': 1}, directory,
                                content_metadata=metadata)

    def step(self, forward_only):
        """Returns the loss of a step, 0 on other stages than the last."""
        windows = torch.tensor(self.task['windows'])
        micro_batches, rows, length = windows.shape
        dp, replicas = (parallel_state.get_data_parallel_rank(), parallel_state.get_data_parallel_world_size())
        mask = torch.triu(torch.ones(1, 1, length - 1, length - 1, dtype=torch.bool), 1)

        def forward(batches, model):
            tokens = next(batches)
            losses = model(tokens[:, :-1], torch.arange(length - 1).expand_as(tokens[:, :-1]), mask,
                           labels=tokens[:, 1:])
            return losses, lambda one: (one.mean(), {'loss': one.mean().detach()})
        self.ddp.zero_grad_buffer()
        self.optimizer.zero_grad()
        count = micro_batches // replicas
        losses = get_forward_backward_func()(
            forward_step_func=forward, data_iterator=iter(windows[dp * count:(dp + 1) * count]), model=[self.ddp],
            num_microbatches=count, seq_length=length - 1, micro_batch_size=rows, forward_only=forward_only)
        if not forward_only:
            for group in self.optimizer.param_groups:  # as Megatron's scheduler does before a step
                group['lr'] = self.task['optimizer']['lr']
                group['weight_decay'] = self.task['optimizer']['weight_decay'] * group['wd_mult']
            self.optimizer.step()
        total = torch.tensor([float(sum(one['loss'] for one in losses)) if losses else 0.0], dtype=torch.float64)
        total /= micro_batches * parallel_state.get_tensor_model_parallel_world_size()
        torch.distributed.all_reduce(total)
        return total.item()


def free_port():
    with socket.socket() as one:
        one.bind(('127.0.0.1', 0))
        return one.getsockname()[1]


def run_phase(task, phase, port, result):
    def job(rank, _):
        run = Run(task, phase)
        losses = []
        for step in range(phase.get('steps', 1)):
            if step == phase.get('save_after'):
                for directory, kind in phase['save'].items():
                    run.save(directory, kind)
            losses.append(run.step(phase.get('forward', False)))
        if rank == 0:
            with open(result, 'w', encoding='utf-8') as file:
                json.dump(losses, file)
    megatron_ranks.run(phase['layout'], job, port)


def main():
    with open(sys.argv[1], encoding='utf-8') as file:
        task = json.load(file)
    results = []
    for phase in task['phases']:
        run_phase(task, phase, free_port(), sys.argv[1] + '.losses')
        with open(sys.argv[1] + '.losses', encoding='utf-8') as file:
            results.append(json.load(file))
    print(json.dumps(results))


main()
