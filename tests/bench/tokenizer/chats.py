"""chats.py ROLL_RANK MODEL CHATS.jsonl [--rounds N]: Roll's tokenize job of conversations beside datasets.map.

MODEL is a directory with a tokenizer that has a chat template, CHATS.jsonl has `messages` (make_chat.py). Both sides
use two threads or processes. datasets.map calls apply_chat_template for each record, or for batches of records. Its
seconds are those of the call of map alone, on rows that are already read; Roll's are those of its whole process, which
reads the text, writes the tokens and finds which of them are learned. The sides take turns. Prints medians of the
seconds by the clock and of the processors, and the ratios of datasets.map's to Roll's. Run it by a Python with
transformers and datasets.
"""
import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

GOAL = 5
SIDES = ('roll', 'map', 'map_batched')


def spent():
    children, own = resource.getrusage(resource.RUSAGE_CHILDREN), resource.getrusage(resource.RUSAGE_SELF)
    return sum(usage.ru_utime + usage.ru_stime for usage in (children, own))


def roll(args):
    with tempfile.TemporaryDirectory() as folder:
        document = {'name': 'tokens', 'kind': 'tokenize', 'resources': {'nodes': 1, 'slots_per_node': 1},
                    'tokenizer': str(args.model), 'objective': 'sft', 'data': {'train': [str(args.chats)], 'valid': 0}}
        output = Path(folder, 'job')
        output.mkdir()
        launch = {'v': 1, 'attempt': {'job': 1, 'token': '1-1'}, 'kind': 'tokenize', 'document': json.dumps(document),
                  'output': str(output), 'logs': str(output), 'nodes': 1, 'node_rank': 0, 'ranks_per_node': 1,
                  'gpus': [], 'nonce': 'bench', 'checkpoints': [], 'allow_faults': False}
        (output / 'launch.json').write_text(json.dumps(launch), encoding='utf-8')
        wall, cpu = time.perf_counter(), spent()
        subprocess.run([args.roll_rank, '--launch', output / 'launch.json', '--rank', '0'], check=True,
                       stdout=subprocess.DEVNULL, env={'PATH': '/usr/bin:/bin', 'OMP_NUM_THREADS': '2'})
        taken = time.perf_counter() - wall, spent() - cpu
        (tokens,) = Path(folder, 'tokens').glob('*.bin')
        print(f'roll: {tokens.stat().st_size} bytes of tokens', file=sys.stderr)
        return taken


def mapped(rows, tokenizer, **options):
    def encode(row):
        return tokenizer.apply_chat_template(row['messages'], tokenize=True, return_dict=True)

    wall, cpu = time.perf_counter(), spent()
    tokens = rows.map(encode, num_proc=2, remove_columns=rows.column_names, load_from_cache_file=False, **options)
    assert tokens.num_rows == rows.num_rows
    return time.perf_counter() - wall, spent() - cpu


def compare(args, rows, tokenizer):
    taken = {side: [] for side in SIDES}
    for _ in range(args.rounds):
        taken['roll'].append(roll(args))
        taken['map'].append(mapped(rows, tokenizer))
        taken['map_batched'].append(mapped(rows, tokenizer, batched=True))
    median = {side: [statistics.median(times) for times in zip(*rounds)] for side, rounds in taken.items()}
    told = {side: {'wall_seconds': round(wall, 2), 'cpu_seconds': round(cpu, 2)}
            for side, (wall, cpu) in median.items()}
    for side in SIDES[1:]:
        told[side] |= {f'{name}_ratio': round(theirs / ours, 2)
                       for name, theirs, ours in zip(('wall', 'cpu'), median[side], median['roll'])}
    print(json.dumps({'megabytes': round(args.chats.stat().st_size / 1e6, 1), 'rounds': args.rounds, 'goal': GOAL,
                      **told}))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('roll_rank', type=Path)
    parser.add_argument('model', type=Path)
    parser.add_argument('chats', type=Path)
    parser.add_argument('--rounds', type=int, default=3)
    args = parser.parse_args()
    args.model, args.chats = args.model.resolve(), args.chats.resolve()
    os.environ.update(HF_HUB_OFFLINE='1', TOKENIZERS_PARALLELISM='false')
    import datasets
    import transformers
    datasets.disable_progress_bars()
    with tempfile.TemporaryDirectory() as cache:
        rows = datasets.load_dataset('json', data_files=str(args.chats), split='train', cache_dir=cache)
        compare(args, rows, transformers.AutoTokenizer.from_pretrained(args.model))


if __name__ == '__main__':
    main()
