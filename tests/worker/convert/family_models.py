"""Makes tiny seeded models of every family of schemas/families, with transformers' own classes."""
import torch
import transformers
from safetensors.torch import load_file, save_file

TEXT = dict(vocab_size=96, hidden_size=32, intermediate_size=48, num_hidden_layers=4,
            num_attention_heads=8, num_key_value_heads=4, max_position_embeddings=64)
DENSE = dict(TEXT, head_dim=6)
EXPERTS = dict(num_experts=4, num_experts_per_tok=2, moe_intermediate_size=24)
MOE = dict(DENSE, moe_intermediate_size=24, num_experts_per_tok=2)
DEEP = dict(MOE, n_routed_experts=4, n_shared_experts=2, first_k_dense_replace=1, n_group=2,
            topk_group=1)
MLA = dict(DEEP, num_key_value_heads=8, kv_lora_rank=16, qk_nope_head_dim=8, qk_rope_head_dim=4,
           v_head_dim=6)
MLA.pop('head_dim')
DELTA = dict(linear_num_key_heads=4, linear_num_value_heads=8, linear_key_head_dim=6,
             linear_value_head_dim=4)
SHARED = dict(shared_expert_intermediate_size=40)


def rope(sections):
    return {'rope_parameters': {'rope_type': 'default', 'mrope_section': sections,
                                'rope_theta': 10000.0}}


PATCHES = dict(depth=2, num_heads=2, patch_size=4)
VISION2 = dict(PATCHES, embed_dim=16, hidden_size=32, mlp_ratio=2, in_channels=3)
VISION2_5 = dict(PATCHES, hidden_size=16, intermediate_size=24, out_hidden_size=32,
                 fullatt_block_indexes=[1])
VISION3 = dict(PATCHES, hidden_size=16, intermediate_size=24, out_hidden_size=32,
               num_position_embeddings=16, deepstack_visual_indexes=[0, 1])
SIGLIP = dict(hidden_size=16, intermediate_size=24, num_hidden_layers=2, num_attention_heads=2,
              image_size=16, patch_size=4, vision_use_head=False)

# model_type -> the configurations to test
MODELS = {
    'llama': [DENSE, dict(DENSE, tie_word_embeddings=True, attention_bias=True)],
    'mistral': [DENSE, dict(DENSE, sliding_window=8)],
    'qwen2': [TEXT, dict(TEXT, tie_word_embeddings=True)],
    'qwen3': [DENSE, dict(DENSE, attention_bias=True)],
    'seed_oss': [DENSE, dict(DENSE, attention_bias=False, attention_out_bias=True)],
    'gemma2': [DENSE],
    'gemma3_text': [DENSE],
    'mixtral': [dict(DENSE, num_local_experts=4, num_experts_per_tok=2)],
    'qwen2_moe': [dict(MOE, num_experts=4, **SHARED),
                  dict(MOE, num_experts=4, mlp_only_layers=[2], **SHARED)],
    'qwen3_moe': [dict(MOE, num_experts=8), dict(MOE, num_experts=4, decoder_sparse_step=2)],
    'glm4_moe': [DEEP, dict(DEEP, use_qk_norm=True, attention_bias=True)],
    'deepseek_v3': [dict(MLA, q_lora_rank=20), dict(MLA, q_lora_rank=None)],
    'gpt_oss': [dict(DENSE, num_local_experts=4, num_experts_per_tok=2)],
    'qwen3_next': [dict(DENSE, head_dim=8, **EXPERTS, **SHARED, **DELTA)],
    'qwen2_vl': [dict(text_config=dict(TEXT, **rope([1, 1, 0])), vision_config=VISION2)],
    'qwen2_5_vl': [dict(text_config=dict(TEXT, **rope([1, 1, 0])), vision_config=VISION2_5)],
    'qwen3_vl': [dict(text_config=dict(DENSE, **rope([1, 1, 1])), vision_config=VISION3),
                 dict(text_config=dict(DENSE, **rope([1, 1, 1])), vision_config=VISION3,
                      tie_word_embeddings=True)],
    'qwen3_vl_moe': [dict(text_config=dict(DENSE, **EXPERTS, **rope([1, 1, 1])),
                          vision_config=VISION3)],
    'qwen3_5': [dict(text_config=dict(DENSE, head_dim=8, **DELTA), vision_config=VISION3)],
    'qwen3_5_moe': [dict(text_config=dict({k: v for k, v in DENSE.items()
                                           if k != 'intermediate_size'},
                                          head_dim=8, **EXPERTS, **SHARED, **DELTA),
                         vision_config=VISION3)],
    'qwen3_omni_moe': [dict(
        thinker_config=dict(
            text_config=dict(DENSE, **EXPERTS, **rope([1, 1, 1])), vision_config=VISION3,
            audio_config=dict(num_mel_bins=16, encoder_layers=2, encoder_attention_heads=2,
                              encoder_ffn_dim=24, d_model=16, max_source_positions=30, n_window=5,
                              output_dim=32, downsample_hidden_size=8)),
        talker_config=dict(
            text_config=dict(TEXT, head_dim=6, **EXPERTS, **SHARED, **rope([1, 1, 1])),
            code_predictor_config=dict(TEXT, head_dim=6, num_hidden_layers=2, num_code_groups=3),
            num_code_groups=3, thinker_hidden_size=32, speaker_id={'a': 1}, spatial_merge_size=2),
        code2wav_config=dict(codebook_size=8, hidden_size=16, intermediate_size=24,
                             num_hidden_layers=1, num_attention_heads=2, num_key_value_heads=2,
                             num_quantizers=3, upsample_rates=[2, 3], upsampling_ratios=[2, 2],
                             decoder_dim=16))],
    'gemma3': [dict(text_config=DENSE, vision_config=SIGLIP, mm_tokens_per_image=4)],
}
WITH_EXPERTS = ('mixtral', 'qwen2_moe', 'qwen3_moe', 'glm4_moe', 'deepseek_v3', 'gpt_oss',
                'qwen3_next', 'qwen3_vl_moe', 'qwen3_5_moe', 'qwen3_omni_moe')
WITH_MTP = ('deepseek_v3', 'glm4_moe', 'qwen3_5_moe')


def auto_class(config):
    if config.model_type == 'qwen3_omni_moe':
        return transformers.Qwen3OmniMoeForConditionalGeneration
    for auto in (transformers.AutoModelForImageTextToText, transformers.AutoModelForCausalLM):
        if type(config) in auto._model_mapping:
            return auto
    raise ValueError(config.model_type)


def make(model_type, sizes, path):
    torch.manual_seed(11)
    config = transformers.AutoConfig.for_model(model_type, **sizes)
    made = auto_class(config)
    model = (made.from_config(config) if hasattr(made, 'from_config') else made(config)).eval()
    with torch.no_grad():
        for tensor in [*model.parameters(), *model.buffers()]:
            if tensor.dim() == 1 and tensor.is_floating_point():
                tensor.add_(torch.randn_like(tensor) * 0.1)
            elif tensor.is_floating_point() and not tensor.abs().max() < 10:
                tensor.normal_(std=0.02)  # transformers leaves some experts uninitialized
    model.save_pretrained(path)
    as_published(model_type, path / 'model.safetensors')
    return path


def make_with_mtp(model_type, sizes, path):
    """Makes the model with an additional layer that predicts a further token, which transformers' classes do not
    have."""
    if model_type == 'qwen3_5_moe':
        text = dict(sizes['text_config'], mtp_num_hidden_layers=1)
        hf, layers = make(model_type, dict(sizes, text_config=text), path), text['num_hidden_layers']
        last, new, names = f'model.language_model.layers.{layers - 1}.', 'mtp.layers.0.', {
            'mtp.pre_fc_norm_embedding': [32], 'mtp.pre_fc_norm_hidden': [32], 'mtp.norm': [32],
            'mtp.fc': [32, 64]}
    else:
        hf, layers = make(model_type, dict(sizes, num_nextn_predict_layers=1), path), sizes['num_hidden_layers']
        last, new = f'model.layers.{layers - 1}.', f'model.layers.{layers}.'
        names = {new + name: shape for name, shape in (('enorm', [32]), ('hnorm', [32]), (
            'shared_head.norm', [32]), ('eh_proj', [32, 64]))}
    tensors = load_file(hf / 'model.safetensors')
    for name in list(tensors):
        if name.startswith(last):
            tensors[name.replace(last, new, 1)] = torch.randn_like(tensors[name])
    for name, shape in names.items():
        tensors[name + '.weight'] = torch.randn(shape)
    save_file(tensors, hf / 'model.safetensors', {'format': 'pt'})
    return hf


def copy_to_mtp(hf, layer=4):
    """Stores the embedding and the output layer a second time for the layer `layer`, as DeepSeek and GLM publish
    them."""
    path = hf / 'model.safetensors'
    tensors = load_file(path)
    for name, of in (('embed_tokens', 'model.embed_tokens'), ('shared_head.head', 'lm_head')):
        tensors[f'model.layers.{layer}.{name}.weight'] = tensors[of + '.weight'].clone()
    save_file(tensors, path, {'format': 'pt'})


def as_published(model_type, path):
    """Renames a saved model's tensors to the published names, where transformers 5 saves other names."""
    tensors = load_file(path)
    if model_type == 'gemma3':
        tensors = {name.replace('vision_tower.', 'vision_tower.vision_model.'): tensor
                   for name, tensor in tensors.items()}
    save_file(tensors, path, {'format': 'pt'})


def pack_experts(path, prefix, turned):
    """Packs a layer's separate experts into the tensors gate_up_proj and down_proj. If `turned`, transposes these."""
    tensors, packed = load_file(path), {}
    for name in sorted(tensors):
        if not name.startswith(prefix) or '.mlp.experts.' not in name:
            packed[name] = tensors[name]
        elif name.endswith('_up_proj') or name.endswith('experts.down_proj'):
            packed[name] = tensors[name].transpose(1, 2).contiguous() if turned else tensors[name]
        elif name.endswith('experts.0.down_proj.weight'):
            stem, experts = name.removesuffix('0.down_proj.weight'), []
            while f'{stem}{len(experts)}.down_proj.weight' in tensors:
                experts.append({part: tensors[f'{stem}{len(experts)}.{part}_proj.weight']
                                for part in ('gate', 'up', 'down')})
            packed[stem + 'down_proj'] = torch.stack([one['down'] for one in experts])
            packed[stem + 'gate_up_proj'] = torch.stack(
                [torch.cat([one['gate'], one['up']]) for one in experts])
    save_file(packed, path, {'format': 'pt'})


def logits(path):
    model = auto_class(transformers.AutoConfig.from_pretrained(path)).from_pretrained(path).eval()
    model = getattr(model, 'thinker', model)
    with torch.no_grad():
        return model(torch.arange(24).reshape(2, 12)).logits
