"""Runs Megatron's own model on gloo and CPU: it loads and saves distributed checkpoints in a layout.

The ranks are forks of the process that imported Megatron.
"""
import contextlib
import multiprocessing
import os
import warnings

import torch

warnings.filterwarnings('ignore')
# Megatron calls this on every device.
torch.cuda.current_device = lambda: 'cpu'
torch.cuda.synchronize = lambda *_: None
torch.Tensor.cuda = lambda self, *_, **__: self


def on_cpu(make):
    """Returns a function that makes its tensor on the CPU where Megatron asks for a GPU."""
    def made(*args, **options):
        if str(options.get('device', '')).startswith('cuda'):
            options['device'] = 'cpu'
        return make(*args, **options)
    return made


def let_optimizers_run():
    """Lets Megatron's optimizers, which want a GPU, run on the CPU."""
    for name in ('tensor', 'zeros', 'empty', 'ones', 'full'):
        setattr(torch, name, on_cpu(getattr(torch, name)))
    type_of = torch.Tensor.type
    # Megatron's optimizers compare a parameter's type with "torch.cuda.FloatTensor".
    torch.Tensor.type = lambda self, *args, **options: type_of(
        self, *args, **options) if args or options else type_of(self).replace('torch.', 'torch.cuda.')
    torch.cuda.FloatTensor, torch.cuda.IntTensor = torch.FloatTensor, torch.IntTensor


from megatron.core import dist_checkpointing, parallel_state
from megatron.core.distributed import DistributedDataParallel, DistributedDataParallelConfig
from megatron.core.dist_checkpointing.strategies import filesystem_async
from megatron.core.models.gpt import GPTModel
from megatron.core.models.gpt.gpt_layer_specs import get_gpt_layer_local_spec
from megatron.core.optimizer import OptimizerConfig, get_megatron_optimizer
from megatron.core.tensor_parallel.random import CudaRNGStatesTracker
from megatron.core.transformer import TransformerConfig

CudaRNGStatesTracker.fork = lambda *_: contextlib.nullcontext()
# Megatron's own queue spawns a process, which would import this process's main program again.
filesystem_async._get_write_results_queue = multiprocessing.get_context('fork').Manager().Queue

VOCABULARY, POSITIONS = 96, 64


def build(sizes, layout, stage=None, **changes):
    """Returns a rank's model or, of virtual stages, chunk `stage`."""
    options = dict(
        normalization='RMSNorm', gated_linear_unit=True, add_bias_linear=False,
        activation_func=torch.nn.functional.silu, use_cpu_initialization=True, hidden_dropout=0.0,
        attention_dropout=0.0, pipeline_dtype=torch.float32, layernorm_epsilon=1e-6,
        gradient_accumulation_fusion=False, tensor_model_parallel_size=layout.get('tp', 1),
        pipeline_model_parallel_size=layout.get('pp', 1),
        virtual_pipeline_model_parallel_size=layout.get('vpp'),
        expert_model_parallel_size=layout.get('ep', 1), sequence_parallel=layout.get('ep', 1) > 1
        and layout.get('tp', 1) > 1)
    config = TransformerConfig(**{**options, **sizes})
    spec = get_gpt_layer_local_spec(config.num_moe_experts, False, config.qk_layernorm,
                                    normalization='RMSNorm')
    return GPTModel(config, spec, VOCABULARY, POSITIONS, position_embedding_type='rope',
                    pre_process=parallel_state.is_pipeline_first_stage(ignore_virtual=False, vp_stage=stage),
                    post_process=parallel_state.is_pipeline_last_stage(ignore_virtual=False, vp_stage=stage),
                    vp_stage=stage, rotary_base=10000,
                    **{'share_embeddings_and_output_weights': False, **changes})


def work(rank, world, port, layout, job):
    os.environ.update(MASTER_ADDR='127.0.0.1', MASTER_PORT=str(port))
    torch.set_num_threads(1)
    torch.distributed.init_process_group('gloo', rank=rank, world_size=world)
    parallel_state.initialize_model_parallel(
        layout.get('tp', 1), layout.get('pp', 1), layout.get('vpp'), expert_model_parallel_size=layout.get('ep', 1),
        expert_tensor_parallel_size=layout.get('tp', 1) if layout.get('ep', 1) == 1 else 1)
    job(rank, layout)
    torch.distributed.barrier()
    torch.distributed.destroy_process_group()


def run(layout, job, port):
    """Calls job(rank, layout) in each rank of the layout."""
    world = layout.get('tp', 1) * layout.get('pp', 1) * layout.get('ep', 1) * layout.get('dp', 1)
    torch.multiprocessing.start_processes(work, (world, port, layout, job), nprocs=world,
                                          start_method='fork')


def through_megatron(source, target, sizes, layout, port, metadata=None, **changes):
    """Loads a checkpoint into Megatron's model at a layout, and saves that model's."""
    def job(rank, _):
        torch.manual_seed(1)
        model = build(sizes, layout, **changes)
        state = dist_checkpointing.load(model.sharded_state_dict(), str(source))
        model.load_state_dict(state)
        if rank == 0:
            os.makedirs(target)
        torch.distributed.barrier()
        dist_checkpointing.save(model.sharded_state_dict(metadata=metadata), str(target))
    run(layout, job, port)


def logits(source, sizes, tokens, file, port, **changes):
    def job(*_):
        model = build(sizes, {}, **changes)
        model.load_state_dict(dist_checkpointing.load(model.sharded_state_dict(), str(source)))
        length = tokens.shape[1]
        mask = torch.triu(torch.ones(1, 1, length, length, dtype=torch.bool), 1)
        with torch.no_grad():
            torch.save(model(tokens, torch.arange(length).expand_as(tokens), mask), file)
    run({}, job, port)


def with_optimizer(chunks, bucket=None, **options):
    """Returns the chunks with buffers of gradients, and their distributed optimizer. `bucket`: elements of a bucket."""
    let_optimizers_run()
    ddp = DistributedDataParallelConfig(use_distributed_optimizer=True, grad_reduce_in_fp32=True, bucket_size=bucket,
                                        overlap_grad_reduce=bucket is not None)
    wrapped = [DistributedDataParallel(chunk.config, ddp, chunk, disable_bucketing=bucket is None)
               for chunk in chunks]
    return wrapped, get_megatron_optimizer(OptimizerConfig(
        optimizer='adam', use_distributed_optimizer=True, params_dtype=torch.float32, **options), wrapped)


def states_of(chunks, optimizer, kind, is_loading=False):
    """Returns the sharded state dict of a model with its distributed optimizer, and its metadata."""
    metadata = {'chained_optim_avoid_prefix': True, 'singleton_local_shards': False,
                'distrib_optim_sharding_type': kind}
    keys = ['model'] if len(chunks) == 1 else [f'model{i}' for i in range(len(chunks))]
    states = {key: chunk.sharded_state_dict(metadata=metadata) for key, chunk in zip(keys, chunks)}
    return {**states, 'optimizer': optimizer.sharded_state_dict(
        states['model'] if len(chunks) == 1 else states, is_loading=is_loading, metadata=metadata)}, metadata
