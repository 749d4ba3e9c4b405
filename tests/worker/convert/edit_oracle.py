"""Renames and removes tensors, and converts checkpoints that do not fit their model. Compares with torch, Megatron
and peft.

usage: edit_oracle.py ROLL_CONVERT
"""
import json
import os
import shutil
import unittest
import warnings

import torch
import torch.distributed.checkpoint as dcp
from megatron.core import dist_checkpointing
from megatron.core.dist_checkpointing.mapping import ShardedTensor
from megatron.core.dist_checkpointing.validation import StrictHandling
from safetensors.torch import load_file, save_file
from torch.distributed.checkpoint.api import CheckpointException

from family_models import MODELS, make
from oracle import FolderCase, bits, free_port, run

warnings.filterwarnings('ignore')
UP = 'model.layers.1.mlp.up_proj.weight'


def one_process():
    if not torch.distributed.is_initialized():
        os.environ.update(MASTER_ADDR='127.0.0.1', MASTER_PORT=str(free_port()))
        torch.distributed.init_process_group('gloo', rank=0, world_size=1)


class Names(FolderCase):
    def setUp(self):
        super().setUp()
        self.hf = make('llama', MODELS['llama'][0], self.root / 'hf')
        self.tensors = load_file(self.hf / 'model.safetensors')

    def same(self, got, want):
        self.assertEqual(sorted(got), sorted(want))
        for name, tensor in want.items():
            self.assertTrue(torch.equal(bits(got[name]), bits(tensor)), name)

    def test_files_of_huggingface_and_everything_beside_them(self):
        run('convert', self.hf, self.root / 'shards', '--to', 'hf', '--max-shard-size', '8KB')
        (self.root / 'shards/notes').mkdir()
        (self.root / 'shards/notes/a.txt').write_text('kept')
        done = run('rename', self.root / 'shards', self.root / 'new', 'model.*=language_model.*',
                   '--json')
        said = json.loads(done.stdout)['renamed']
        want = {name.replace('model.', 'language_model.', 1): t for name, t in self.tensors.items()}
        self.assertEqual(said, {name: name.replace('model.', 'language_model.', 1)
                                for name in self.tensors if name.startswith('model.')})
        index = json.loads((self.root / 'new/model.safetensors.index.json').read_text())['weight_map']
        self.assertEqual(sorted(index), sorted(want))
        got = {}
        for path in (self.root / 'new').glob('*.safetensors'):
            part = load_file(path)
            self.assertEqual({index[name] for name in part}, {path.name})
            got.update(part)
        self.same(got, want)
        self.assertEqual((self.root / 'new/notes/a.txt').read_text(), 'kept')
        run('rename', self.root / 'new', self.root / 'back', 'language_model.*=model.*')
        run('diff', self.root / 'back', self.hf)
        self.assertEqual([one.name for one in self.root.iterdir() if one.name.startswith('.')], [])

    def test_two_stars_change_places_with_their_texts(self):
        run('rename', self.hf, self.root / 'new', 'model.layers.*.mlp.*=l*/*')
        got = load_file(self.root / 'new/model.safetensors')
        self.assertIn('l1/up_proj.weight', got)
        self.assertTrue(torch.equal(got['l1/up_proj.weight'], self.tensors[UP]))

    def test_tensors_are_left_out(self):
        run('remove', self.hf, self.root / 'new', 'model.layers.1.*', 'lm_head.weight')
        got = load_file(self.root / 'new/model.safetensors')
        self.same(got, {name: t for name, t in self.tensors.items()
                        if not name.startswith('model.layers.1.') and name != 'lm_head.weight'})
        run('convert', self.root / 'new', self.root / 'mca', code=1)

    def test_a_distributed_checkpoint_as_megatron_reads_it(self):
        one_process()
        run('convert', self.hf, self.root / 'dist', '--to', 'torch_dist')
        old, new = 'decoder.layers.self_attention.linear_proj.weight', 'proj.weight'
        run('rename', self.root / 'dist', self.root / 'new', f'{old}={new}')
        place = self.root / 'new/iter_0000001'
        self.assertTrue((place / '.metadata').is_symlink())
        keys = dist_checkpointing.load_tensors_metadata(str(place))
        self.assertIn(new, keys)
        self.assertNotIn(old, keys)
        loaded = dist_checkpointing.load_plain_tensors(str(place))
        want = dist_checkpointing.load_plain_tensors(str(self.root / 'dist/iter_0000001'))
        self.assertTrue(torch.equal(loaded[new], want[old]))
        run('rename', self.root / 'new', self.root / 'back', f'{new}={old}')
        run('diff', self.root / 'back', self.hf)
        run('remove', self.root / 'back', self.root / 'bare', '*_extra_state*')
        self.assertFalse(any('_extra_state' in key
                             for key in dcp.FileSystemReader(self.root / 'bare/iter_0000001')
                             .read_metadata().state_dict_metadata))
        run('diff', self.root / 'bare', self.hf)

    def test_objects_of_a_run_stay_or_go(self):
        state = {'model': dict(self.tensors), 'step': 7, 'rng': [1, 2]}
        dcp.save(state, checkpoint_id=self.root / 'dcp')
        run('remove', self.root / 'dcp', self.root / 'new', 'rng*', UP.join(('model.', '')))
        got = {'model': {name: torch.zeros_like(t) for name, t in self.tensors.items() if name != UP},
               'step': 0}
        dcp.load(got, checkpoint_id=self.root / 'new')
        self.assertEqual(got['step'], 7)
        self.same(got['model'], {name: t for name, t in self.tensors.items() if name != UP})
        names = dcp.FileSystemReader(self.root / 'new').read_metadata().state_dict_metadata
        self.assertFalse([name for name in names if name.startswith('rng') or name.endswith(UP)])

    def test_numbers_of_a_tensor_are_torchs(self):
        tensor = self.tensors[UP]
        tensor.view(-1)[3], tensor.view(-1)[5], tensor.view(-1)[40] = 0, float('nan'), float('-inf')
        save_file(self.tensors, self.hf / 'model.safetensors', {'format': 'pt'})
        run('convert', self.hf, self.root / 'mca', '--tp', 2)
        finite = tensor[tensor.isfinite()].double()
        for place in (self.hf, self.root / 'mca'):
            said = json.loads(run('inspect', place, '--tensor', UP, '--json').stdout)
            self.assertEqual((said['zeros'], said['not_finite'], said['elements'], said['first'][5]),
                             (1, 2, tensor.numel(), None))
            for key, value in (('min', finite.min()), ('max', finite.max()), ('mean', finite.mean()),
                               ('std', finite.std())):
                self.assertAlmostEqual(said[key], value.item(), delta=1e-12)
        self.assertIn('no tensor model.x', run('inspect', self.hf, '--tensor', 'model.x', code=2).stderr)

    def test_objects_that_are_cut_off_are_noticed(self):
        run('convert', self.hf, self.root / 'fsdp', '--to', 'fsdp_dtensor')
        path = self.root / 'fsdp/iter_0000001/__0_1.distcp'
        path.write_bytes(path.read_bytes()[:-1])
        self.assertIn('ends before args', run('verify', self.root / 'fsdp', code=1).stderr)

    def test_wishes_that_cannot_be_meant_are_refused(self):
        for words, what in ((('remove', 'model.layer.1.*'), 'no tensor is named model.layer.1.*'),
                            (('remove', '*'), 'no tensor would be left'),
                            (('rename', 'model.layers.*.mlp.up_proj.weight=*.x', 'model.layers.*'
                              '.mlp.down_proj.weight=*.x'), 'would both be named'),
                            (('rename', 'a*=b'), 'must have as many *'), (('rename', 'a'), 'OLD=NEW'),
                            (('remove',), 'RULES is required')):
            done = run(words[0], self.hf, self.root / 'new', *words[1:], code=2)
            self.assertIn(what, done.stderr)
        run('convert', self.hf, self.root / 'mca')
        self.assertIn('neither a HuggingFace', run('remove', self.root / 'mca', self.root / 'new',
                                                   'x', code=2).stderr)
        run('remove', self.hf, self.hf / 'inside', 'lm_head.weight')
        self.assertIn('contains the source',
                      run('remove', self.hf, self.hf, 'lm_head.weight', code=2).stderr)
        run('remove', self.hf, self.root / 'mca', 'lm_head.weight', code=4)
        for words in (('remove', self.hf, '', 'lm_head.weight'), ('convert', self.hf, '')):
            self.assertIn('is empty', run(*words, code=2).stderr)
        self.assertFalse((self.root / 'new').exists())


class Reuse(FolderCase):
    """A file that an earlier target has is not written again."""

    def files(self, directory):
        return {path.relative_to(directory): path for path in directory.rglob('*')
                if path.suffix in ('.safetensors', '.pt', '.distcp', '.bin')}

    def change_one(self):
        path = self.root / 'hf/model.safetensors'
        tensors = load_file(path)
        tensors[UP][3, 5] += 1
        save_file(tensors, path, {'format': 'pt'})

    def test_files_that_are_the_same_are_linked_to(self):
        for words in (['--to', 'hf', '--max-shard-size', '9KB'], ['--to', 'mca', '--pp', 4],
                      ['--to', 'bin', '--max-shard-size', '9KB'], ['--to', 'dcp']):
            with self.subTest(words=words):
                shutil.rmtree(self.root, ignore_errors=True)
                self.root.mkdir()
                hf = make('llama', MODELS['llama'][0], self.root / 'hf')
                run('convert', hf, self.root / 'old', *words)
                said = run('convert', hf, self.root / 'same', *words, '--json', '--reuse',
                           self.root / 'old', '--verify')
                old, same = self.files(self.root / 'old'), self.files(self.root / 'same')
                self.assertEqual(json.loads(said.stdout)['reused'], len(old))
                self.change_one()
                run('convert', hf, self.root / 'new', *words, '--reuse', self.root / 'old', '--verify')
                run('convert', hf, self.root / 'plain', *words)
                new, plain = self.files(self.root / 'new'), self.files(self.root / 'plain')
                self.assertEqual(sorted(new), sorted(plain))
                for name, path in plain.items():
                    self.assertTrue(same[name].samefile(old[name]), name)
                    self.assertEqual(new[name].read_bytes(), path.read_bytes(), name)
                changed = [name for name in new if not new[name].samefile(old[name])]
                self.assertEqual(len(changed), 1)

    def test_a_target_is_its_own_earlier_one(self):
        hf = make('llama', MODELS['llama'][0], self.root / 'hf')
        words = ['--to', 'hf', '--max-shard-size', '9KB', '--overwrite', '--reuse', self.root / 'out']
        run('convert', hf, self.root / 'out', *words, code=3)
        (self.root / 'out').mkdir()
        run('convert', hf, self.root / 'out', *words)
        before = {name: path.stat().st_ino for name, path in self.files(self.root / 'out').items()}
        self.change_one()
        run('convert', hf, self.root / 'out', *words)
        after = {name: path.stat().st_ino for name, path in self.files(self.root / 'out').items()}
        self.assertEqual(sum(before[name] != after[name] for name in before), 1)
        run('diff', hf, self.root / 'out')

    def test_files_that_hold_more_or_less_are_written(self):
        hf = make('llama', MODELS['llama'][0], self.root / 'hf')
        run('convert', hf, self.root / 'old', '--to', 'hf')
        path = self.root / 'old/model.safetensors'
        whole = path.read_bytes()
        for content in (whole + b'x', whole[:-1], b'', whole[:100] + b'?' + whole[101:]):
            path.write_bytes(content)
            run('convert', hf, self.root / 'new', '--to', 'hf', '--reuse', self.root / 'old',
                '--overwrite')
            self.assertEqual((self.root / 'new/model.safetensors').read_bytes(), whole)
            self.assertEqual(path.read_bytes(), content)


class Strictness(FolderCase):
    """A checkpoint that lacks one tensor of its model and has one that the model lacks."""

    def setUp(self):
        super().setUp()
        self.hf = make('llama', MODELS['llama'][0], self.root / 'hf')
        self.tensors = load_file(self.hf / 'model.safetensors')
        shutil.copytree(self.hf, self.root / 'odd')
        odd = {name: t for name, t in self.tensors.items() if name != UP}
        save_file({**odd, 'model.extra': torch.zeros(2)}, self.root / 'odd/model.safetensors',
                  {'format': 'pt'})

    def megatrons(self, mode):
        """Returns what Megatron raises or returns for the same two tensors: (raised, unexpected, missing)."""
        one_process()
        folder = self.root / 'strict'
        if not folder.exists():
            dcp.save({key: torch.zeros(2) for key in ('model.extra', 'both')}, checkpoint_id=folder)
            torch.save({}, folder / 'common.pt')
            (folder / 'metadata.json').write_text(json.dumps(
                {'sharded_backend': 'torch_dist', 'sharded_backend_version': 1,
                 'common_backend': 'torch', 'common_backend_version': 1}))
        asked = {key: ShardedTensor.from_rank_offsets(key, torch.zeros(2)) for key in (UP, 'both')}
        try:
            done = dist_checkpointing.load(asked, str(folder), strict=StrictHandling(mode))
        except (Exception, CheckpointException):
            return True, None, None
        if not mode.startswith('return'):
            return False, None, None
        return False, sorted(done[2]), sorted(done[1])

    def test_each_mode_does_what_megatrons_does(self):
        for mode in StrictHandling:
            with self.subTest(mode=mode.value):
                raised, unexpected, missing = self.megatrons(mode.value)
                done = run('convert', self.root / 'odd', self.root / 'out', '--to', 'hf', '--json',
                           '--overwrite', '--verify', '--strictness', mode.value,
                           code=None if raised else 0)
                if raised:
                    self.assertIn(UP, done.stdout)
                    continue
                report = json.loads(done.stdout)
                if unexpected is not None:
                    self.assertEqual(report['unexpected'], unexpected)
                    self.assertEqual([one.split()[1] for one in report['missing']], missing)
                self.assertEqual(f'lacks the tensor {UP}' in done.stderr, mode.value.startswith('log'))
                self.assertEqual('model.extra' in done.stderr, mode.value == 'log_all')
                got = load_file(self.root / 'out/model.safetensors')
                self.assertEqual(sorted(got), sorted(set(self.tensors) - {UP}))
                rules = {one['tensor']: one['rule'] for one in report['dropped']}
                self.assertEqual(rules['model.extra'], 'no rule of the family names this tensor')

    def test_what_is_made_of_it_natively_is_left_out_whole(self):
        done = run('convert', self.root / 'odd', self.root / 'mca', '--tp', 2, '--pp', 2, '--json',
                   '--verify', '--strictness', 'return_all')
        left_out = json.loads(done.stdout)['left_out']
        self.assertEqual(len(left_out), 2)
        run('verify', self.root / 'mca', code=1)
        seen = run('inspect', self.root / 'mca', '--json', '--strictness', 'return_all')
        gate = UP.replace('up_proj', 'gate_proj')
        self.assertEqual(sorted(json.loads(seen.stdout)['unexpected']), [gate, UP])
        done = run('convert', self.root / 'odd', self.root / 'dist', '--to', 'torch_dist', '--json',
                   '--verify', '--strictness', 'return_unexpected')
        report = json.loads(done.stdout)
        self.assertEqual(report['left_out'], ['decoder.layers.mlp.linear_fc1.weight'])
        self.assertEqual(report['missing'], [])

    def test_files_that_disagree_are_an_error_in_any_mode(self):
        run('convert', self.hf, self.root / 'mca', '--tp', 2)
        path = self.root / 'mca/iter_0000001/mp_rank_01/model_optim_rng.pt'
        state = torch.load(path, weights_only=True)
        state['model'].pop('decoder.layers.0.self_attention.linear_proj.weight')
        torch.save(state, path)
        done = run('convert', self.root / 'mca', self.root / 'out', '--strictness', 'ignore_all', code=1)
        self.assertIn('of the 1536 elements of model.layers.0.self_attn.o_proj.weight', done.stderr)
        done = run('convert', self.hf, self.root / 'out', '--strictness', 'lax', code=2)
        self.assertIn('raise_all, raise_unexpected', done.stderr)


if __name__ == '__main__':
    unittest.main(verbosity=2)
