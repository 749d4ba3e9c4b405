"""Compares NeMo checkpoints with the output of trlX's converter, slice by slice, and with tar.

usage: nemo_oracle.py ROLL_CONVERT
"""
import json
import os
import tarfile
import unittest

import torch
import transformers
import yaml
from safetensors.torch import load_file

from oracle import FolderCase, run

LLAMA = dict(vocab_size=96, hidden_size=64, intermediate_size=48, num_hidden_layers=4,
             num_attention_heads=16, num_key_value_heads=16, max_position_embeddings=64,
             rms_norm_eps=1e-5)
HEAD = 4


def slices(tensors, rank, ranks, layers=range(4), core=False):
    """Returns a rank's state dict as trlX's converter slices it or, if `core`, as NeMo's own does."""
    tensors = {name: tensor.bfloat16() for name, tensor in tensors.items()}
    cut = lambda name, dim=0: tensors[name + '.weight'].chunk(ranks, dim)[rank].clone()
    front = 'model.language_model.'
    state = {front + 'embedding.word_embeddings.weight': cut('model.embed_tokens'),
             front + 'output_layer.weight': cut('lm_head'),
             front + 'encoder.final_layernorm.weight': tensors['model.norm.weight']}
    for local, layer in enumerate(layers):
        hf = f'model.layers.{layer}.'
        q, k, v = (cut(hf + f'self_attn.{part}_proj') for part in 'qkv')
        to = f'{front}encoder.layers.{local}.'
        state |= {to + 'input_layernorm.weight': tensors[hf + 'input_layernorm.weight'],
                  to + 'post_attention_layernorm.weight':
                  tensors[hf + 'post_attention_layernorm.weight'],
                  to + 'self_attention.query_key_value.weight': torch.cat([q, k, v]),
                  to + 'self_attention.dense.weight': cut(hf + 'self_attn.o_proj', 1),
                  to + 'mlp.dense_h_to_4h.weight': cut(hf + 'mlp.gate_proj'),
                  to + 'mlp.dense_h_to_4h_2.weight': cut(hf + 'mlp.up_proj'),
                  to + 'mlp.dense_4h_to_h.weight': cut(hf + 'mlp.down_proj', 1)}
        if core:
            rows = [part.unflatten(0, (-1, HEAD)) for part in (q, k, v)]
            state[to + 'self_attention.query_key_value.weight'] = \
                torch.stack(rows, 1).flatten(0, 2)
    return state


class Nemo(FolderCase):
    def make(self, **changes):
        torch.manual_seed(7)
        model = transformers.LlamaForCausalLM(transformers.LlamaConfig(**{**LLAMA, **changes}))
        model.save_pretrained(self.root / 'hf')
        return load_file(self.root / 'hf/model.safetensors')

    def same(self, name):
        """Checks that the checkpoint equals the model in bf16."""
        run('diff', self.root / 'hf', self.root / name, '--cast', '--config', self.root / 'hf')

    def assert_state(self, path, want):
        got = torch.load(path, weights_only=True)
        self.assertEqual(sorted(got), sorted(want))
        for name, tensor in want.items():
            self.assertEqual(got[name].dtype, torch.bfloat16)
            self.assertTrue(torch.equal(got[name], tensor), name)

    def test_trlx_command_line_makes_trlx_files(self):
        tensors = self.make()
        for ranks in (1, 2):
            run('--model_path', self.root / 'hf', '--output_folder', self.root / f'out{ranks}',
                '--total_tp', ranks, '--name', '7b')
            for rank in range(ranks):
                place = f'mp_rank_{rank:02d}/' if ranks > 1 else ''
                self.assert_state(self.root / f'out{ranks}' / f'{place}model_weights.ckpt',
                                  slices(tensors, rank, ranks))
            self.same(f'out{ranks}')
        config = yaml.safe_load((self.root / 'out2/megatron_7b.yaml').read_text())
        self.assertEqual((config['name'], config['trainer']['devices']), ('megatron_7b', 2))
        for key, want in dict(
                padded_vocab_size=96, hidden_size=64, ffn_hidden_size=48, num_layers=4,
                num_attention_heads=16, max_position_embeddings=64, seq_length=64,
                encoder_seq_length=64, layernorm_epsilon=1e-5, rotary_base=10000.0,
                tensor_model_parallel_size=2, megatron_legacy=True, normalization='rmsnorm',
                activation='swiglu', share_embeddings_and_output_weights=False).items():
            self.assertEqual(config['model'][key], want, key)

    def test_an_archive_is_what_tar_makes_of_the_directory(self):
        self.make()
        for name, text in (('tokenizer.json', '{}'), ('additional_chat_templates/tool.jinja', '{{ x }}')):
            (self.root / 'hf' / name).parent.mkdir(exist_ok=True)
            (self.root / 'hf' / name).write_text(text)
        options = ('--tp', 2, '--bf16', '--name', 'a')
        run('convert', self.root / 'hf', self.root / 'directory', '--to', 'nemo', *options)
        run('convert', self.root / 'hf', self.root / 'a.nemo', '--verify', *options)
        with tarfile.open(self.root / 'a.nemo') as archive:
            self.assertEqual({one.name: archive.extractfile(one).read() for one in archive if one.isfile()},
                             {f'./{path.relative_to(self.root / "directory")}': path.read_bytes()
                              for path in (self.root / 'directory').rglob('*') if path.is_file()})
        self.same('a.nemo')
        done = run('convert', self.root / 'hf', self.root / 'a.nemo', *options, code=4)
        self.assertIn('--overwrite', done.stderr)
        run('convert', self.root / 'hf', self.root / 'a.nemo', '--overwrite', '--dtype', 'fp16')
        # without --config, because the archive contains config and tokenizer
        run('convert', self.root / 'a.nemo', self.root / 'back')
        run('diff', self.root / 'hf', self.root / 'back', '--cast')
        for name in ('tokenizer.json', 'additional_chat_templates/tool.jinja'):
            self.assertEqual((self.root / 'back' / name).read_text(), (self.root / 'hf' / name).read_text())
        (self.root / 'b.nemo').write_text('mine')
        run('convert', self.root / 'hf', self.root / 'b.nemo', '--overwrite', code=4)
        self.assertEqual((self.root / 'b.nemo').read_text(), 'mine')
        done = run('convert', self.root / 'hf', self.root / 'c.nemo', '--part', '0/2', '--run', 'x', code=2)
        self.assertIn('cannot be written with --part', done.stderr)
        self.assertEqual(sorted(path.name for path in self.root.iterdir()),
                         ['a.nemo', 'b.nemo', 'back', 'directory', 'hf'])

    def test_ten_ranks_and_more_have_two_digits(self):
        self.make()
        run('convert', self.root / 'hf', self.root / 'out', '--to', 'nemo', '--tp', 16, '--bf16')
        self.assertTrue((self.root / 'out/mp_rank_10/model_weights.ckpt').exists())
        self.assertFalse((self.root / 'out/mp_rank_010').exists())
        self.same('out')

    def test_fewer_key_heads_than_query_heads_are_cut_by_their_own_rows(self):
        tensors = self.make(num_key_value_heads=4)
        run('convert', self.root / 'hf', self.root / 'out', '--to', 'nemo', '--tp', 2, '--bf16',
            '--verify')
        name = 'model.language_model.encoder.layers.2.self_attention.query_key_value.weight'
        got = torch.load(self.root / 'out/mp_rank_01/model_weights.ckpt')[name]
        want = torch.cat([tensors[f'model.layers.2.self_attn.{part}_proj.weight'].chunk(2)[1]
                          for part in 'qkv']).bfloat16()
        self.assertTrue(torch.equal(got, want))
        done = run('convert', self.root / 'hf', self.root / 'no', '--to', 'nemo', '--tp', 8, code=2)
        self.assertIn('num_query_groups 4 is not divisible by tp 8', done.stderr)

    def test_no_row_of_the_vocabulary_is_lost(self):
        self.make(vocab_size=97)
        done = run('convert', self.root / 'hf', self.root / 'out', '--to', 'nemo', '--tp', 2,
                   code=2)
        self.assertIn('97', done.stderr)

    def test_what_the_format_cannot_hold_is_refused(self):
        self.make(attention_bias=True)
        done = run('convert', self.root / 'hf', self.root / 'out', '--to', 'nemo', code=2)
        self.assertIn('has no name for decoder.layers.0.self_attention.linear_qkv.bias',
                      done.stderr)
        done = run('convert', self.root / 'hf', self.root / 'out', '--to', 'nemo', '--pp', 2,
                   code=2)
        self.assertIn('pp 2', done.stderr)

    def write(self, name, files, legacy):
        directory = self.root / name
        for path, state in files.items():
            (directory / path).parent.mkdir(parents=True, exist_ok=True)
            torch.save(state, directory / path)
        (directory / 'model_config.yaml').write_text(f'megatron_legacy: {legacy}\nbias: false\n')
        return directory

    def test_reads_stages_archives_and_rows_by_group(self):
        tensors = self.make()
        files = {f'tp_rank_{tp:02}_pp_rank_{pp:03}/model_weights.ckpt': {
            name: tensor for name, tensor in slices(
                tensors, tp, 2, range(2 * pp, 2 * pp + 2), core=True).items()
            if '.layers.' in name or ('embedding' in name) == (pp == 0)}
            for tp in range(2) for pp in range(2)}
        directory = self.write('stages', files, 'False')
        self.same('stages')
        for name, mode in (('model.nemo', 'w'), ('zipped.nemo', 'w:gz')):
            with tarfile.open(self.root / name, mode) as archive:
                archive.add(directory, arcname='.')
        self.same('model.nemo')
        done = run('verify', self.root / 'zipped.nemo', '--config', self.root / 'hf', code=2)
        self.assertIn('tar xzf', done.stderr)
        run('convert', self.root / 'model.nemo', self.root / 'back', '--config', self.root / 'hf')
        self.assertEqual(json.loads((self.root / 'back/config.json').read_text())['dtype'],
                         'bfloat16')

    def test_biases_of_zeros_and_padding_are_dropped_by_name(self):
        tensors = self.make()
        state = slices(tensors, 0, 1)
        for key in ('embedding.word_embeddings', 'output_layer'):
            key = f'model.language_model.{key}.weight'
            state[key] = torch.cat([state[key], torch.ones(32, 64).bfloat16()])
        bias = 'model.language_model.encoder.layers.1.input_layernorm.bias'
        self.write('out', {'model_weights.ckpt': {**state, bias: torch.zeros(64)}}, 'True')
        self.same('out')
        self.write('out', {'model_weights.ckpt': {**state, bias: torch.ones(64)}}, 'True')
        done = run('verify', self.root / 'out', '--config', self.root / 'hf', code=2)
        self.assertIn('input_layernorm.bias', done.stderr)

    def test_reads_an_archive_with_a_member_of_8_gib_and_more(self):
        tensors = self.make()
        directory = self.write('out', {'model_weights.ckpt': slices(tensors, 0, 1)}, 'True')
        with open(self.root / 'model.nemo', 'wb') as file, tarfile.open(fileobj=file, mode='w') as archive:
            big = tarfile.TarInfo('./optimizer.bin')
            big.size = 9 << 30
            file.write(big.tobuf(archive.format))
            archive.offset = file.seek(big.size, os.SEEK_CUR)  # leaves a hole in the file
            archive.add(directory, arcname='.')
        self.same('model.nemo')
        run('verify', self.root / 'model.nemo', '--config', self.root / 'hf')

    def test_damaged_archives_are_refused(self):
        tensors = self.make()
        directory = self.write('out', {'model_weights.ckpt': slices(tensors, 0, 1)}, 'True')
        path = self.root / 'model.nemo'
        with tarfile.open(path, 'w') as archive:
            archive.add(directory, arcname='.')
        whole = path.read_bytes()
        for damage, says in ((whole[:len(whole) // 2], 'tar'), (whole[:300], 'tar'),
                             (b'\0' * 2048, 'weights'), (whole[:124] + b'9' * 11 + whole[135:], 'tar')):
            path.write_bytes(damage)
            done = run('verify', path, '--config', self.root / 'hf', code=None)
            self.assertIn(says, done.stderr)
        (directory / 'model_config.yaml').write_text('a: [')
        run('verify', directory, '--config', self.root / 'hf', code=1)
        os.remove(directory / 'model_config.yaml')
        done = run('verify', directory, '--config', self.root / 'hf', code=3)
        self.assertIn('no YAML', done.stderr)


if __name__ == '__main__':
    unittest.main(verbosity=2)
