"""The speed of training at the sizes of known models, and where the time goes."""
import json
import os
import sys
import time

import machine
from machine import Late, last_line, run
from ranks import Failed
from steps import case, checked, json_lines

# Name of the shape's file, sequence length.
ON_GPU = (('qwen2.5-0.5b', 1024), ('qwen2.5-0.5b', 4096), ('qwen2.5-1.5b', 1024), ('qwen2.5-1.5b', 4096),
          ('llama-3.1-8b', 2048))
ON_CPU = (('tiny', 64), ('tiny', 128))
MICRO_BATCHES = (32, 16, 8, 4, 2, 1)
MEMORY_SHARE = 0.85  # of the card's memory; CUDA itself takes a part of the rest
GOAL = 1.0  # times as fast as transformers
STEPS = {'cuda': 8, 'cpu': 3}
# TFLOP/s of dense bf16 products in the data sheets.
DATA_SHEETS = (('H100 PCIe', 756.0), ('H100', 989.4), ('H200', 989.4), ('GH200', 989.4), ('A100', 312.0),
               ('B200', 2250.0), ('L40S', 362.0), ('L40', 181.0), ('L4', 121.0), ('A10', 125.0))


def data_sheet(card):
    return next((peak * 1e12 for name, peak in DATA_SHEETS if name in card), None)


def fitting(context, document, deadline):
    """Returns (path of the document, micro-batch, bytes) for the largest micro-batch that fits by the plan, or None."""
    program = context.program('roll-rank-cuda' if context.on_gpu else 'roll-rank')
    path = os.path.join(context.folder('plan'), 'spec.json')
    for size in MICRO_BATCHES if context.on_gpu else (2, 1):
        document['train'] |= {'micro_batch_size': size, 'global_batch_size': size}
        with open(path, 'w', encoding='utf-8') as file:
            json.dump(document, file)
        done = run([program, 'plan', '--spec', path, '--json'], deadline, context.env)
        planned = json.loads(checked(done, 'plan').splitlines()[-1])['memory_per_rank_bytes']
        # The copy from which a checkpoint is written is in the host's memory.
        needed = planned['total'] - (planned['checkpoint_snapshot'] if context.on_gpu else 0)
        if needed <= MEMORY_SHARE * context.memory_bytes:
            return path, size, needed
    return None


def shares(row):
    """Returns the shares of a step's time: products, attention, other kernels, host waits (None: unknown)."""
    profile, seconds = row['profile'], row['seconds']
    total = sum(profile[name] or 0 for name in ('products', 'attention', 'other', 'host'))
    return {name: None if profile[name] is None else profile[name] / max(total, seconds)
            for name in ('products', 'attention', 'other', 'host')}


def measure(context, name, positions, deadline):
    document = context.shape(name)
    document['data'] = {'train': [context.corpus]}
    document['train'] |= {'seq_length': positions, 'steps': 1}
    document['model']['max_position_embeddings'] = max(positions, document['model']['max_position_embeddings'])
    found = fitting(context, document, deadline)
    if found is None:
        return {'shape': name, 'positions': positions, 'note': 'does not fit into the memory of this device'}
    path, size, planned = found
    done = run([*context.device_check(), 'steps', path, '--steps', STEPS[context.device]], deadline, context.env)
    row = json_lines(checked(done, f'{name} at {positions}'))[-1]
    sheet = data_sheet(context.card) if context.on_gpu else None
    return {'shape': name, 'positions': positions, 'micro_batch': size, 'seconds': row['seconds'],
            'tokens_per_second': row['tokens_per_second'], 'parameters': row['parameters'],
            'mfu': row['flops_causal'] / (sheet or row['peak_measured']),
            'mfu_full': row['flops_full'] / (sheet or row['peak_measured']),
            'peak': 'data sheet' if sheet else 'measured product', 'peak_flops': sheet or row['peak_measured'],
            'peak_measured_flops': row['peak_measured'], 'memory_peak_bytes': row['memory_peak_bytes'],
            'memory_planned_bytes': planned, 'shares': shares(row), 'method': row['profile']['method'],
            'costs': row['profile']['costs']}


def beside(context, row, deadline):
    """Measures transformers at the same sizes. Returns a sentence if that is not possible."""
    if 'note' in row:
        return row['note']
    path = os.path.join(context.bundle, 'check', 'beside.py')
    model = context.shape(row['shape'])['model']
    words = [json.dumps(model), row['micro_batch'], row['positions'], STEPS[context.device], context.device]
    done = run([sys.executable, path, *words], deadline, {**os.environ, 'TRANSFORMERS_VERBOSITY': 'error'})
    if done.returncode == 3:
        return 'transformers is not on this machine'
    if done.returncode != 0:
        return f'transformers fails: {last_line(done.stderr)[:200]}'
    row['transformers'] = json_lines(done.stdout)[-1]
    row['transformers']['ratio'] = row['tokens_per_second'] / row['transformers']['tokens_per_second']
    return ''


def largest_costs(rows):
    """Returns the three costs with the largest mean share of a step, over all measured shapes."""
    measured = [row for row in rows if 'costs' in row]
    sums = {}
    for row in measured:
        for cost in row['costs']:
            sums[cost['name']] = sums.get(cost['name'], 0) + cost['seconds'] / row['seconds'] / len(measured)
    ranked = sorted(sums.items(), key=lambda item: -item[1])[:3]
    return [{'name': name, 'share': share} for name, share in ranked]


def cases_of(row):
    label = f"{row['shape']} at {row['positions']}"
    if 'note' in row:
        return [{**case(label, 'not measured'), 'note': row['note']}]
    cases = [case(f'{label}: tokens per second', row['tokens_per_second'], None, 'tokens/s'),
             case(f'{label}: MFU, causal', row['mfu'], None, 'share'),
             case(f'{label}: MFU, full', row['mfu_full'], None, 'share'),
             case(f'{label}: peak memory', row['memory_peak_bytes'], None, 'bytes')]
    for name, share in row['shares'].items():
        cases.append(case(f'{label}: {name}', 'not measured' if share is None else share, None, 'share'))
    if 'transformers' in row:
        ratio = row['transformers']['ratio']
        cases.append({**case(f'{label}: times as fast as transformers', ratio, None, 'ratio'),
                      'note': f"goal {GOAL}: {'reached' if ratio >= GOAL else 'not reached'}"})
    return cases


def figures(context, deadline):
    """Measures all shapes, then transformers at the same sizes in the time that is left."""
    shapes = ON_GPU if context.on_gpu else ON_CPU
    rows = context.rows
    for name, positions in shapes:
        try:
            rows.append(measure(context, name, positions, deadline))
        except Late:
            rows.append({'shape': name, 'positions': positions, 'note': 'no time was left'})
        except (Failed, machine.Refused) as error:
            rows.append({'shape': name, 'positions': positions, 'note': str(error), 'failed': True})
    said = ''
    for row in rows if context.on_gpu else rows[:1]:
        try:
            said = beside(context, row, deadline)
        except Late:
            said = 'no time was left for transformers'
        if said:
            row.setdefault('transformers_note', said)
    failed = [row['note'] for row in rows if row.get('failed')]
    if failed:
        raise Failed(failed[0])
    if all('note' in row for row in rows):
        raise Late if time.monotonic() >= deadline else Failed(rows[0]['note'])
    cases = [one for row in rows for one in cases_of(row)]
    return cases, f'{sum("note" not in row for row in rows)} of {len(shapes)} shapes measured' + (
        f'; {said}' if said else '')
