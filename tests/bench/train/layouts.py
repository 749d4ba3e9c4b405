#!/usr/bin/env python3
"""The speed of layouts of a model with 5 M parameters, in real processes over Gloo, one thread each.

    tests/bench/train/layouts.py build/release/bin/roll-rank [--rounds N]

tp 2 and dp 2 train the same batches in turns. With pp 2 and 8 micro-batches, the time from the first forward to the
last backward of a step is compared with the 1F1B table: with the makespan of a simulation in which each stage takes
the time that its forwards and backwards took in the same steps, and transfers take none. Both come from a profile.
Prints each figure with its bar, and exits with status 1 if a bar is missed.
"""
import argparse
import json
import os
import statistics
import sys

OPTIONS = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
OPTIONS.add_argument('rank', type=os.path.abspath)
OPTIONS.add_argument('--rounds', type=int, default=3)
options = OPTIONS.parse_args()
sys.argv[1:] = [options.rank]
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '../../worker/train/run'))
from bars import Bars  # noqa: E402
from ranks import Attempt, RankCase  # noqa: E402

SIZES = {'family': 'llama', 'hidden_size': 256, 'intermediate_size': 688, 'num_hidden_layers': 6,
         'num_attention_heads': 4, 'num_key_value_heads': 4, 'vocab_size': 256, 'max_position_embeddings': 256}
STEPS, WARM_UP, PROFILED = 14, 3, 8
MICRO_BATCHES = 8


def rows_of(attempt):
    with open(os.path.join(attempt.output, 'metrics.jsonl'), encoding='utf-8') as file:
        return [row for row in map(json.loads, file) if 'phases' in row][WARM_UP:]


def mean(rows, phase):
    return statistics.mean(row['phases'][phase]['max'] for row in rows)


def simulate(costs, micro_batches):
    """Returns the makespan of 1F1B. `costs` has the seconds of a forward and of a backward of each stage."""
    stages, ends, free = len(costs), {}, [0.0] * len(costs)
    waiting = []
    for stage in range(stages):
        ahead = min(stages - 1 - stage, micro_batches)
        order = [('F', i) for i in range(ahead)]
        for i in range(micro_batches - ahead):
            order += [('F', ahead + i), ('B', i)]
        waiting.append(order + [('B', i) for i in range(micro_batches - ahead, micro_batches)])
    while any(waiting):
        for stage, order in enumerate(waiting):
            while order:
                kind, i = order[0]
                before = stage - 1 if kind == 'F' else stage + 1
                if 0 <= before < stages and (kind, before, i) not in ends:
                    break
                start = max(free[stage], ends.get((kind, before, i), 0.0))
                free[stage] = ends[kind, stage, i] = start + costs[stage][kind == 'B']
                order.pop(0)
    return max(free)


def profile_of(attempt):
    """Returns [(seconds of the pipeline, [(forward, backward) of each rank])] of the profiled steps."""
    name = next(name for name in os.listdir(attempt.output) if name.startswith('profile-'))
    with open(os.path.join(attempt.output, name), encoding='utf-8') as file:
        events = [event for event in json.load(file)['traceEvents'] if event['ph'] == 'X']
    found = []
    for step in (event for event in events if event['tid'] == 0):
        inside = [event for event in events if event['name'] in ('forward', 'backward')
                  and step['ts'] <= event['ts'] < step['ts'] + step['dur']]
        times = [[sum(event['dur'] for event in inside if (event['tid'], event['name']) == (rank, name)) / 1e6
                  for name in ('forward', 'backward')] for rank in (1, 2)]
        begin, end = min(event['ts'] for event in inside), max(event['ts'] + event['dur'] for event in inside)
        found.append(((end - begin) / 1e6, times))
    return found


def main():
    case, bars = RankCase(), Bars()
    case.setUp()
    numbers = iter(range(1, 1000))

    def run(parallel, rows, micro_batch, profile=False):
        document = case.document(STEPS, model=SIZES, parallel=parallel, train__seq_length=256,
                                 train__global_batch_size=rows, train__micro_batch_size=micro_batch, data__valid=0.0)
        attempt = Attempt(case, next(numbers), 1, document)
        if profile:
            attempt.wait_step(WARM_UP)
            attempt.say(0, {'t': 'asked', 'number': 1, 'what': 'profile', 'value': PROFILED})
        codes = attempt.wait()
        if any(codes):
            sys.exit(f'{codes}: {attempt.log()}')
        return attempt

    dp, tp = [], []
    for _ in range(options.rounds):
        dp += rows_of(run({'dp': 2}, 8, 4))
        tp += rows_of(run({'dp': 1, 'tp': 2}, 8, 8))
    seconds = {name: statistics.median(row['wall_s'] for row in rows) for name, rows in (('dp', dp), ('tp', tp))}
    print(f'dp 2: {8 * 256 / seconds["dp"]:.0f} tokens/s; {mean(dp, "dp"):.3f} s of {seconds["dp"]:.3f} s wait for dp')
    print(f'tp 2: {8 * 256 / seconds["tp"]:.0f} tokens/s; {mean(tp, "tp"):.3f} s of {seconds["tp"]:.3f} s wait for tp')
    bars.at_least('speed of tp 2 / speed of dp 2', seconds['dp'] / seconds['tp'], 0.75)

    ratios = []
    for _ in range(options.rounds):
        parallel = {'dp': 1, 'pp': 2, 'schedule': '1f1b'}
        for measured, times in profile_of(run(parallel, 2 * MICRO_BATCHES, 2, profile=True)):
            costs = [[each / MICRO_BATCHES for each in rank] for rank in times]
            ratios.append(measured / simulate(costs, MICRO_BATCHES))
    bars.at_most('pipeline of pp 2 with 8 micro-batches / makespan of the table', statistics.median(ratios), 1.1)
    case.doCleanups()
    sys.exit(bars.missed > 0)


if __name__ == '__main__':
    main()
