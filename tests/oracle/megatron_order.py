#!/usr/bin/env python3
"""Writes the table of megatron_order_test.cpp: hashes of the samples that Megatron-core draws.

usage: megatron_order.py TABLE.json     needs megatron-core 0.16.1; takes about 10 s
"""
import json
import os
import random
import sys
import tempfile
import types

import numpy
import torch
from megatron.core.datasets.blended_megatron_dataset_builder import BlendedMegatronDatasetBuilder
from megatron.core.datasets.gpt_dataset import GPTDataset, GPTDatasetConfig
from megatron.core.datasets.indexed_dataset import IndexedDatasetBuilder

PRIME = 1099511628211
TOKENIZER = types.SimpleNamespace(vocab_size=None, eod=0, pad=-1, unique_identifiers={})


def hash_of(numbers):
    """Returns h, from h = h * PRIME + number for each number, modulo 2^64, from h = 0."""
    values = numpy.asarray(numbers).astype(numpy.int64).reshape(-1).view(numpy.uint64)
    powers = numpy.full(len(values), PRIME, numpy.uint64)
    powers[:1] = 1
    with numpy.errstate(over='ignore'):
        return str(int(numpy.sum(values * numpy.cumprod(powers)[::-1], dtype=numpy.uint64)))


def numbers(seed):
    """Yields the numbers of a linear congruential generator."""
    state = seed
    while True:
        state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
        yield state >> 33


def write(prefix, file, dtype):
    """Writes a file of `documents` sequences with 0 to `longest` tokens. Returns the hash of its .idx."""
    draw = numbers(file['seed'])
    builder = IndexedDatasetBuilder(prefix + '.bin', dtype=getattr(numpy, dtype))
    for _ in range(file['documents']):
        length = next(draw) % (file['longest'] + 1)
        builder.add_document(torch.tensor([next(draw) % 60000 for _ in range(length)], dtype=torch.int64), [length])
    builder.finalize(prefix + '.idx')
    with open(prefix + '.idx', 'rb') as index:
        return hash_of(numpy.frombuffer(index.read(), numpy.uint8))


def build(case, top):
    prefixes = [os.path.join(top, f'{i}') for i in range(len(case['files']))]
    for prefix, file in zip(prefixes, case['files']):
        file['index'] = write(prefix, file, case['dtype'])
    config = GPTDatasetConfig(
        random_seed=case['seed'], sequence_length=case['seq_length'], blend=(prefixes, case['weights']),
        split=case['split'], tokenizer=TOKENIZER, reset_position_ids=False, reset_attention_mask=False,
        eod_mask_loss=False, create_attention_mask=False)
    dataset = BlendedMegatronDatasetBuilder(GPTDataset, [case['samples']] * 3, lambda: True, config).build()[0]
    whole = [torch.cat([one['tokens'], one['labels'][-1:]]).numpy()
             for one in (dataset[i] for i in range(case['samples']))]
    case['hash'] = hash_of(numpy.concatenate(whole))
    if isinstance(dataset, GPTDataset):
        case['document_index'] = hash_of(dataset.document_index)
        case['shuffle_index'] = hash_of(dataset.shuffle_index)
        case['rows'] = len(dataset.sample_index)
    else:
        case['dataset_index'] = hash_of(dataset.dataset_index[:case['samples']])
    return case


def cases():
    """Yields 20 cases: single files, blends with and without weights, one to many epochs, splits."""
    choose = random.Random(7)
    for i in range(20):
        count = [1, 1, 2, 3, 12][i % 5]
        files = [{'seed': choose.randrange(1, 10**9), 'documents': choose.randrange(100, 300),
                  'longest': choose.choice([5, 40, 200])} for _ in range(count)]
        weighted = count > 1 and i % 10 < 5
        samples = choose.choice([200, 500, 900])
        if count > 1 and not weighted:  # Megatron refuses a file without a sample in some part
            files = [{**file, 'longest': 200} for file in files]
        seed = choose.choice([0, 1234, 2**32 - 1, choose.randrange(10**9)])
        length, dtype = choose.choice([7, 16, 64]), choose.choice(['uint16', 'int32'])
        split = choose.choice(['949, 50, 0', '90,10,0', '1,1,1', '0.7,0.2,0.1', '100,0,0', '9,1,0'])
        weights = [choose.choice([choose.random(), choose.randrange(1, 50)]) for _ in files]
        yield {'seed': seed, 'seq_length': length, 'samples': samples if count == 1 or weighted else 60,
               'dtype': dtype, 'split': '2,1,0' if count > 1 and not weighted else split,
               'weights': weights if weighted else None, 'files': files}
    yield {'seed': 99, 'seq_length': 16, 'samples': 700, 'dtype': 'uint16', 'split': '1,0,0', 'weights': [1.0],
           'files': [{'seed': 5, 'documents': 100, 'longest': 40}]}


def main():
    done = []
    for case in cases():
        with tempfile.TemporaryDirectory() as top:
            done.append(build(case, top))
    with open(sys.argv[1], 'w', encoding='utf-8') as file:
        file.write('[\n' + ',\n'.join(json.dumps(case) for case in done) + '\n]\n')


if __name__ == '__main__':
    main()
