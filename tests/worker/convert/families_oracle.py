"""Every family of schemas/families on a tiny seeded model of transformers' own class.

usage: families_oracle.py ROLL_CONVERT

For each: HuggingFace -> MCA -> HuggingFace bit for bit over a covering set of layouts, and the same
logits from the exported directory.
"""
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

import torch
import transformers
from safetensors.torch import load_file, save_file

PROGRAM = sys.argv.pop(1)
torch.set_num_threads(1)
transformers.utils.logging.disable_progress_bar()
transformers.utils.logging.set_verbosity_error()

DENSE = dict(vocab_size=96, hidden_size=32, intermediate_size=48, num_hidden_layers=4,
             num_attention_heads=8, num_key_value_heads=4, head_dim=6, max_position_embeddings=64)
MOE = dict(DENSE, moe_intermediate_size=24, num_experts_per_tok=2)
DEEP = dict(MOE, n_routed_experts=4, n_shared_experts=2, first_k_dense_replace=1, n_group=2,
            topk_group=1)
MLA = dict(DEEP, num_key_value_heads=8, kv_lora_rank=16, qk_nope_head_dim=8, qk_rope_head_dim=4,
           v_head_dim=6)
MLA.pop('head_dim')

# model_type: the configurations to try
MODELS = {
    'llama': [DENSE, dict(DENSE, tie_word_embeddings=True, attention_bias=True)],
    'mistral': [DENSE, dict(DENSE, sliding_window=8)],
    'qwen2': [{k: v for k, v in DENSE.items() if k != 'head_dim'},
              {**{k: v for k, v in DENSE.items() if k != 'head_dim'}, 'tie_word_embeddings': True}],
    'qwen3': [DENSE, dict(DENSE, attention_bias=True)],
    'seed_oss': [DENSE, dict(DENSE, attention_bias=False, attention_out_bias=True)],
    'gemma2': [DENSE],
    'gemma3_text': [DENSE],
    'mixtral': [dict(DENSE, num_local_experts=4, num_experts_per_tok=2)],
    'qwen2_moe': [dict(MOE, num_experts=4, shared_expert_intermediate_size=40),
                  dict(MOE, num_experts=4, shared_expert_intermediate_size=40,
                       mlp_only_layers=[2])],
    'qwen3_moe': [dict(MOE, num_experts=8), dict(MOE, num_experts=4, decoder_sparse_step=2)],
    'glm4_moe': [DEEP, dict(DEEP, use_qk_norm=True, attention_bias=True)],
    'deepseek_v3': [dict(MLA, q_lora_rank=20), dict(MLA, q_lora_rank=None)],
}
EXPERTS = ('mixtral', 'qwen2_moe', 'qwen3_moe', 'glm4_moe', 'deepseek_v3')
LAYOUTS = [['--tp', '2'], ['--pp', '2', '--vpp', '2'], ['--tp', '4', '--pp', '4'],
           ['--tp', '2', '--pp', '2', '--transformer-impl', 'local']]
EXPERT_LAYOUTS = [['--ep', '2'], ['--ep', '4', '--tp', '2', '--moe_grouped_gemm', 'true'],
                  ['--ep', '2', '--pp', '2', '--vpp', '2', '--tp', '2']]


def run(*args, code=0):
    done = subprocess.run([PROGRAM, *map(str, args)], capture_output=True, text=True, timeout=120)
    assert done.returncode == code, f'{args}: exit {done.returncode}\n{done.stdout}{done.stderr}'
    return done


def make(model_type, sizes, path):
    torch.manual_seed(11)
    config = transformers.AutoConfig.for_model(model_type, **sizes)
    model = transformers.AutoModelForCausalLM.from_config(config).eval()
    with torch.no_grad():
        for tensor in [*model.parameters(), *model.buffers()]:
            if tensor.dim() == 1 and tensor.is_floating_point():
                tensor.add_(torch.randn_like(tensor) * 0.1)
    model.save_pretrained(path)
    return path


def logits(path):
    model = transformers.AutoModelForCausalLM.from_pretrained(path).eval()
    with torch.no_grad():
        return model(torch.arange(24).reshape(2, 12)).logits


class Families(unittest.TestCase):
    def setUp(self):
        self.root = pathlib.Path(tempfile.mkdtemp(prefix='roll-families-'))
        self.addCleanup(shutil.rmtree, self.root, ignore_errors=True)

    def test_every_built_in_family_is_tried_here(self):
        known = json.loads(run('families', '--json').stdout)['families']
        self.assertEqual(sorted(known), sorted(MODELS))

    def round_trips(self, hf, layouts):
        want = load_file(hf / 'model.safetensors')
        for layout in layouts:
            with self.subTest(layout=layout):
                run('convert', hf, self.root / 'mca', *layout, '--overwrite')
                run('convert', self.root / 'mca', self.root / 'back', '--overwrite')
                got = load_file(self.root / 'back/model.safetensors')
                self.assertEqual(sorted(got), sorted(want))
                for name, tensor in want.items():
                    self.assertTrue(torch.equal(tensor, got[name]), name)

    def test_round_trips_and_logits(self):
        for model_type, variants in MODELS.items():
            for number, sizes in enumerate(variants):
                with self.subTest(model_type=model_type, variant=number):
                    hf = make(model_type, sizes, self.root / f'{model_type}-{number}')
                    self.round_trips(hf, LAYOUTS if number == 0 else LAYOUTS[:2])
                    if model_type in EXPERTS:
                        self.round_trips(hf, EXPERT_LAYOUTS)
                    self.assertTrue(torch.equal(logits(hf), logits(self.root / 'back')))

    def test_multi_token_prediction_travels(self):
        for model_type in ('deepseek_v3', 'glm4_moe'):
            hf = make(model_type, {**MODELS[model_type][0], 'num_nextn_predict_layers': 1},
                      self.root / model_type)
            path = hf / 'model.safetensors'
            tensors = load_file(path)
            self.round_trips(hf, LAYOUTS[:1])  # the config says one, the files have none
            for name in list(tensors):
                if name.startswith('model.layers.3.'):
                    tensors[name.replace('.3.', '.4.', 1)] = torch.randn_like(tensors[name])
            for name, shape in (('enorm', [32]), ('hnorm', [32]), ('shared_head.norm', [32]),
                                ('eh_proj', [32, 64])):
                tensors[f'model.layers.4.{name}.weight'] = torch.randn(shape)
            save_file(tensors, path, {'format': 'pt'})
            self.round_trips(hf, LAYOUTS[:3] + EXPERT_LAYOUTS)
        state = torch.load(self.root / 'mca/iter_0000001/mp_rank_01_001_001/model_optim_rng.pt')
        self.assertIn('mtp.layers.0.transformer_layer.mlp.experts.local_experts.1.linear_fc2.weight',
                      state['model1'])
        self.assertIn('embedding.word_embeddings.weight', state['model1'])

    def test_grouped_experts_are_spelled_as_transformer_engine_does(self):
        hf = make('qwen3_moe', MODELS['qwen3_moe'][0], self.root / 'hf')
        run('convert', hf, self.root / 'mca', '--ep', 2, '--moe_grouped_gemm')
        state = torch.load(
            self.root / 'mca/iter_0000001/mp_rank_00_001/model_optim_rng.pt')['model']
        tensors = load_file(hf / 'model.safetensors')
        expert = 'model.layers.2.mlp.experts.5.'  # the second of rank 1's four
        self.assertTrue(torch.equal(
            state['decoder.layers.2.mlp.experts.linear_fc1.weight1'],
            torch.cat([tensors[expert + 'gate_proj.weight'], tensors[expert + 'up_proj.weight']])))

    def test_experts_that_do_not_divide_are_refused(self):
        hf = make('qwen3_moe', MODELS['qwen3_moe'][0], self.root / 'hf')
        done = run('convert', hf, self.root / 'out', '--ep', 3, code=2)
        self.assertIn('num_moe_experts 8 does not divide by ep 3', done.stderr)
        done = run('convert', hf, self.root / 'out', '--tp', 2, '--etp', 1, code=2)
        self.assertIn('etp 1 differs from tp 2', done.stderr)


if __name__ == '__main__':
    unittest.main(verbosity=2)
