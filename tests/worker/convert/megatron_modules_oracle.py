"""Checks what native tensors hold by megatron-core itself: its GPTModel on a CPU loads the converted files by its own
state_dict and must give transformers' logits for the HuggingFace directory.

usage: megatron_modules_oracle.py ROLL_CONVERT    (PYTHONPATH has megatron-core 0.16; packaging/oracle.txt)
"""
import contextlib
import json
import os
import tempfile
import unittest
import warnings

import torch

from family_models import MODELS, logits, make
from oracle import FolderCase, run

warnings.filterwarnings('ignore')
os.environ['TORCHDYNAMO_DISABLE'] = '1'  # compiling is not worth its time here
from megatron.core import parallel_state, tensor_parallel  # noqa: E402
from megatron.core.models.gpt import GPTModel  # noqa: E402
from megatron.core.models.gpt.gpt_layer_specs import get_gpt_decoder_block_spec  # noqa: E402
from megatron.core.models.gpt.gpt_layer_specs import get_gpt_layer_local_spec  # noqa: E402
from megatron.core.models.backends import LocalSpecProvider  # noqa: E402
from megatron.core.transformer import multi_latent_attention  # noqa: E402
from megatron.core.transformer.moe import moe_utils  # noqa: E402
from megatron.core.transformer import MLATransformerConfig, TransformerConfig  # noqa: E402


LATENT = []  # whether the current model has latent attention
YARN = {'rope_type': 'yarn', 'factor': 4.0, 'mscale': 0.7, 'mscale_all_dim': 1.0, 'beta_fast': 24, 'beta_slow': 2,
        'original_max_position_embeddings': 16, 'rope_theta': 10000.0}

# Fields of TransformerConfig that a CPU needs with other values than mca_config.json has.
CPU = dict(use_cpu_initialization=True, apply_rope_fusion=False, masked_softmax_fusion=False,
           bias_dropout_fusion=False, gradient_accumulation_fusion=False, persist_layer_norm=False,
           bias_activation_fusion=False, params_dtype=torch.float32, moe_token_dispatcher_type='allgather',
           moe_router_dtype=None, moe_permute_fusion=False)


class PlainAttention(torch.nn.Module):
    """Attention for latent attention, whose values and keys differ in width; Megatron's own requires a GPU for
    that."""

    def __init__(self, *_, softmax_scale, **__):
        super().__init__()
        self.scale = softmax_scale

    def forward(self, query, key, value, mask, **_):
        scores = torch.einsum('qbhd,kbhd->bhqk', query, key) * self.scale
        weights = scores.masked_fill(mask, float('-inf')).softmax(-1)
        return torch.einsum('bhqk,kbhd->qbhd', weights, value).flatten(2)


def start_megatron():
    os.environ.update(MASTER_ADDR='127.0.0.1', MASTER_PORT='0', RANK='0', WORLD_SIZE='1')
    torch.distributed.init_process_group('gloo', init_method=f'file://{tempfile.mktemp()}',
                                         rank=0, world_size=1)
    parallel_state.initialize_model_parallel()
    tracker = tensor_parallel.get_cuda_rng_tracker()  # only dropout would use it
    type(tracker).fork = lambda self, name=None: contextlib.nullcontext()
    moe_utils.te_general_gemm = None  # 0.16.1 uses the name even without TransformerEngine
    multi_latent_attention.HAVE_TE = False  # it is true even if the import failed
    plain = LocalSpecProvider.core_attention
    LocalSpecProvider.core_attention = lambda self: PlainAttention if LATENT else plain(self)
    torch.cuda.current_device = lambda: 'cpu'  # rotary embeddings and norms put their buffers there


def native_config(mca):
    names = MLATransformerConfig if mca.get('multi_latent_attention') else TransformerConfig
    known = {field for field in names.__dataclass_fields__}
    values = {name: value for name, value in mca.items()
              if name in known and (value is not None or name == 'q_lora_rank')}
    values['mtp_num_layers'] = mca.get('mtp_num_layers') or None  # ROLL also reads 0 as None
    for name in ('init_method_std',):
        values.pop(name, None)
    if mca.get('swiglu'):
        values['activation_func'] = torch.nn.functional.silu
    return names(**{**values, **CPU})


def megatron_logits(directory, tokens):
    mca = json.loads((directory / 'mca_config.json').read_text())
    config = native_config(mca)
    LATENT[:] = [True] if mca.get('multi_latent_attention') else []
    if mca.get('num_moe_experts'):
        spec = get_gpt_decoder_block_spec(config, use_transformer_engine=False)
    else:
        spec = get_gpt_layer_local_spec(
            qk_layernorm=bool(mca.get('qk_layernorm')), normalization='RMSNorm',
            multi_latent_attention=bool(mca.get('multi_latent_attention')))
    model = GPTModel(
        config, spec, vocab_size=mca['padded_vocab_size'],
        max_sequence_length=mca['max_sequence_length'], position_embedding_type='rope',
        rotary_base=mca['rotary_base'], rotary_percent=mca.get('rotary_percent', 1.0),
        share_embeddings_and_output_weights=mca['tie_embeddings_and_output_weights'],
        parallel_output=False).eval()
    state = torch.load(directory / 'iter_0000001/mp_rank_00/model_optim_rng.pt')['model']
    left = model.load_state_dict(state, strict=False)
    unmet = [name for name in left.missing_keys if not name.endswith('_extra_state')]
    assert not unmet and not left.unexpected_keys, (unmet, left.unexpected_keys)
    size = tokens.shape[1]
    mask = torch.ones(1, 1, size, size).tril() < 0.5
    with torch.no_grad():
        return model(tokens, torch.arange(size)[None], mask)


class Megatron(FolderCase):
    def test_its_modules_compute_the_models_logits_from_our_files(self):
        tokens = torch.arange(24).reshape(2, 12)
        no_bias = {'attention_bias': False, 'attention_out_bias': False}
        for case, (model_type, number, changes) in enumerate((
                ('llama', 0, no_bias), ('llama', 1, no_bias), ('mistral', 0, {}), ('qwen2', 0, {}), ('qwen2', 1, {}),
                ('qwen3', 0, {}), ('seed_oss', 1, no_bias), ('mixtral', 0, {}), ('qwen2_moe', 0, {}),
                ('qwen2_moe', 0, {'qkv_bias': False}),
                ('qwen3_moe', 0, {}), ('qwen3_moe', 1, {}), ('glm4_moe', 0, {}), ('glm4_moe', 1, {}),
                ('deepseek_v3', 0, {}), ('deepseek_v3', 1, {}), ('deepseek_v3', 0, {'rope_parameters': YARN}))):
            with self.subTest(model_type=model_type, number=number, **changes):
                hf = make(model_type, {**MODELS[model_type][number], **changes}, self.root / f'{case}')
                run('convert', hf, self.root / 'mca', '--transformer-impl', 'local', '--overwrite')
                want, got = logits(hf), megatron_logits(self.root / 'mca', tokens)
                self.assertLess((want - got).abs().max().item(), 2e-5 * want.abs().max().item() + 1e-6)


if __name__ == '__main__':
    start_megatron()
    unittest.main(verbosity=2)
