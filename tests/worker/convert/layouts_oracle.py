"""HuggingFace -> MCA -> HuggingFace, bit for bit, over a covering set of layouts for each family.

usage: layouts_oracle.py ROLL_CONVERT

Any two values of two parameters (sizes of the five kinds of parallelism, names, padding, ties, type)
meet in some conversion of every family, and with every variant of it (other configs, multi-token
prediction). Each brings back the source's tensors and config, and some are run: logits of what comes back
are those of the source.
"""
import itertools
import json
import pathlib
import sys
import unittest

import torch
from safetensors.torch import load_file, save_file

from family_models import MODELS, WITH_EXPERTS, WITH_MTP, logits, make, make_with_mtp
from oracle import FolderCase, bits, run

sys.path.append(str(pathlib.Path(__file__).resolve().parents[2]))
from shares import share  # noqa: E402

PARAMETERS = {'tp': (1, 2, 4), 'pp': (1, 2, 4), 'vpp': (1, 2, 3), 'ep': (1, 2, 4), 'etp': (1, 2),
              'names': ('transformer_engine', 'local'), 'grouped': (False, True),
              'padded': (False, True), 'tied': (False, True), 'dtype': (torch.float32, torch.bfloat16)}
RUN = 5  # of each family, the result of every RUN-th conversion is run
LAYERS = 12  # not divisible by pp 4 x vpp 2


def covering(parameters, allowed):
    """Returns a few combinations, as dicts, that together have every pair of values of some allowed combination."""
    names = list(parameters)
    combinations = [one for one in (dict(zip(names, values))
                                    for values in itertools.product(*parameters.values()))
                    if allowed(one)]

    def pairs(one):
        return set(itertools.combinations(one.items(), 2))

    left, chosen = set().union(*map(pairs, combinations)), []
    while left:
        chosen.append(max(combinations, key=lambda one: len(left & pairs(one))))
        left -= pairs(chosen[-1])
    return chosen


def extended(combinations, name, values):
    """Extends the combinations by a parameter, and adds some, so that its values meet all values of the other
    parameters."""
    left = {(pair, value) for one in combinations for pair in one.items() for value in values}
    chosen = []

    def add(one):
        value = max(values, key=lambda value: sum((pair, value) in left for pair in one.items()))
        left.difference_update((pair, value) for pair in one.items())
        chosen.append({**one, name: value})

    for one in combinations:
        add(one)
    while left:
        add(max(combinations, key=lambda one: max(
            sum((pair, value) in left for pair in one.items()) for value in values)))
    return chosen


def is_allowed(one):
    return one['tp'] % one['etp'] == 0


DENSE = covering({**PARAMETERS, 'ep': (1,), 'etp': (1,), 'grouped': (False,)}, is_allowed)
MOE = covering(PARAMETERS, is_allowed)


def layouts(model_type):
    chosen = MOE if model_type in WITH_EXPERTS else DENSE
    chosen = extended(chosen, 'variant', range(len(MODELS[model_type])))
    return extended(chosen, 'mtp', (False, True) if model_type in WITH_MTP else (False,))


def options(one):
    sizes = [word for name in ('tp', 'pp', 'vpp', 'ep') for word in (f'--{name}', one[name])]
    if one['ep'] > 1 or one['etp'] > 1:
        sizes += ['--etp', one['etp']]
    parts = one['pp'] * one['vpp']
    if LAYERS % parts != 0:
        counts = [LAYERS // parts + (part < LAYERS % parts) for part in range(parts)]
        sizes += ['--layout', 'E,' + '|'.join(f't*{count}' for count in counts) + ',L']
    return [*sizes, '--transformer-impl', one['names'], '--moe_grouped_gemm', str(one['grouped']).lower(),
            *(['--make-vocab-size-divisible-by', '40'] if one['padded'] else [])]


def deep(sizes):
    """Returns the sizes of the same model with LAYERS layers."""
    for inner in ('thinker_config', 'text_config'):
        if inner in sizes:
            return {**sizes, inner: deep(sizes[inner])}
    return {**sizes, 'num_hidden_layers': LAYERS}


def tied(sizes, ties):
    """Returns the sizes of the same model with a tied output layer, or with a separate one."""
    inner = {key: tied(value, ties) for key, value in sizes.items() if key in ('text_config', 'thinker_config')}
    return {**sizes, **inner, 'tie_word_embeddings': ties}


class Layouts(FolderCase):
    def test_every_pair_of_values_meets(self):
        for first, second in itertools.combinations(PARAMETERS, 2):
            want = {(a, b) for a in PARAMETERS[first] for b in PARAMETERS[second]
                    if (first, second, a, b) != ('tp', 'etp', 1, 2)}
            self.assertEqual({(one[first], one[second]) for one in MOE}, want)

    def test_every_variant_meets_every_value(self):
        chosen = layouts('deepseek_v3')
        for name in PARAMETERS:
            self.assertEqual({(one[name], one['variant'], one['mtp']) for one in chosen} & {
                (value, 1, True) for value in PARAMETERS[name]} != set(), True)
            for extra, values in (('variant', (0, 1)), ('mtp', (False, True))):
                want = set(itertools.product(PARAMETERS[name], values))
                self.assertEqual({(one[name], one[extra]) for one in chosen}, want)

    def round_trip(self, hf, one):
        run('convert', hf, self.root / 'mca', *options(one), '--overwrite')
        run('convert', self.root / 'mca', self.root / 'back', '--overwrite')
        want = load_file(hf / 'model.safetensors')
        got = load_file(self.root / 'back/model.safetensors')
        self.assertEqual(sorted(got), sorted(want))
        for name, tensor in want.items():
            self.assertEqual(got[name].dtype, tensor.dtype, name)
            self.assertTrue(torch.equal(bits(tensor), bits(got[name])), name)
        self.assertEqual(*(json.loads((directory / 'config.json').read_text())
                           for directory in (hf, self.root / 'back')))

    def source(self, model_type, one):
        """Returns a directory with the model of the combination, as far as the family has such a model."""
        path = self.root / f'{model_type}-{one["variant"]}-{one["tied"]}-{one["mtp"]}'
        if not path.exists():
            sizes = tied(deep(MODELS[model_type][one['variant']]), one['tied'])
            (make_with_mtp if one['mtp'] else make)(model_type, sizes, path)
        half = path.with_name(path.name + '-half')
        if one['dtype'] == torch.float32:
            return path
        if not half.exists():
            run('convert', path, half, '--to', 'hf', '--dtype', 'bf16')
        return half

    def test_round_trips(self):
        for model_type in MODELS:
            wanted = {}
            for number, one in share(enumerate(layouts(model_type))):
                with self.subTest(model_type=model_type, **one):
                    hf = self.source(model_type, one)
                    self.round_trip(hf, one)
                    if number % RUN != 0:
                        continue
                    if hf not in wanted:
                        wanted[hf] = logits(hf)
                    self.assertTrue(torch.equal(wanted[hf], logits(self.root / 'back')))

    def test_formats_of_no_layout_and_megatrons_hold_every_family(self):
        for model_type, variants in MODELS.items():
            for number, sizes in enumerate(variants):
                hf = make(model_type, sizes, self.root / f'{model_type}-{number}')
                for to, options in (('torch_dist', []), ('fsdp_dtensor', []), ('dcp', []), ('megatron', ['--tp', 2])):
                    with self.subTest(model_type=model_type, variant=number, to=to):
                        run('convert', hf, self.root / to, '--to', to, '--overwrite', *options)
                        run('convert', self.root / to, self.root / 'back', '--to', 'hf', '--overwrite')
                        run('diff', hf, self.root / 'back')  # experts that were separate may be packed now

    def test_a_tied_model_has_no_output_layer(self):
        for model_type in MODELS:
            hf = make(model_type, tied(MODELS[model_type][0], True), self.root / model_type)
            names = [name for name in load_file(hf / 'model.safetensors') if name.endswith('lm_head.weight')]
            self.assertEqual([name for name in names if 'talker' not in name], [], model_type)

    def test_a_width_of_experts_that_the_ranks_cannot_hold_is_refused(self):
        hf = make('mixtral', MODELS['mixtral'][0], self.root / 'hf')
        done = run('convert', hf, self.root / 'out', '--tp', 2, '--etp', 4, code=2)
        self.assertIn('tp 2 is not divisible by etp 4', done.stderr)

    def test_ranks_of_experts_are_those_that_megatron_numbers(self):
        hf = make('mixtral', MODELS['mixtral'][0], self.root / 'hf')
        run('convert', hf, self.root / 'mca', '--tp', 4, '--etp', 2, '--ep', 2)
        names = sorted(path.name for path in (self.root / 'mca/iter_0000001').iterdir())
        # process r has tp r % 4, etp r % 2 and ep r / 2 % 2
        self.assertEqual(names, ['mp_rank_00_000', 'mp_rank_01_000', 'mp_rank_02_001', 'mp_rank_03_001'])
        state = torch.load(self.root / 'mca/iter_0000001/mp_rank_03_001/model_optim_rng.pt')['model']
        tensors = load_file(hf / 'model.safetensors')
        of_3 = tensors['model.layers.0.block_sparse_moe.experts.3.w2.weight']
        fc2 = state['decoder.layers.0.mlp.experts.local_experts.1.linear_fc2.weight']
        self.assertTrue(torch.equal(fc2, of_3[:, 24:]))

    def test_first_and_last_stages_of_their_own_size(self):
        hf = make('qwen2', deep(MODELS['qwen2'][0]), self.root / 'hf')
        run('convert', hf, self.root / 'mca', '--pp', 3, '--vpp', 2, '--decoder-first-pipeline-num-layers', 2,
            '--decoder-last-pipeline-num-layers', 4)
        config = json.loads((self.root / 'mca/mca_config.json').read_text())
        self.assertEqual(config['num_layers_in_first_pipeline_stage'], 2)
        state = torch.load(self.root / 'mca/iter_0000001/mp_rank_00_001/model_optim_rng.pt')
        # stages have 1 | 3 | 2 layers, then 1 | 3 | 2 again: the second has layers 1 to 3, and 7 to 9
        name = 'self_attn.o_proj.weight'
        tensors = load_file(hf / 'model.safetensors')
        self.assertTrue(torch.equal(state['model1']['decoder.layers.2.self_attention.linear_proj.weight'],
                                    tensors[f'model.layers.9.{name}']))
        run('convert', self.root / 'mca', self.root / 'back', '--verify')
        run('diff', hf, self.root / 'back')


if __name__ == '__main__':
    unittest.main(verbosity=2)
