#!/usr/bin/env python3
"""Simulates many worlds and counts them in docs/simulation.md.

    tests/sim/many.py --worlds 20000 [--jobs 2] [--program build/release/bin/sim_test]

Goes on after the newest seed that the table holds. A failing seed is printed and nothing is counted.
"""
import argparse
import pathlib
import re
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
TABLE = ROOT / 'docs/simulation.md'
ROW = re.compile(r'^\| (\d+)-(\d+) \| \w+ \|', re.M)  # not the rows of kill rounds


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--worlds', type=int, required=True)
    parser.add_argument('--jobs', type=int, default=2)
    parser.add_argument('--program', type=pathlib.Path, default=ROOT / 'build/release/bin/sim_test')
    options = parser.parse_args()
    text = TABLE.read_text(encoding='utf-8')
    first = max((int(last) for _, last in ROW.findall(text)), default=0) + 1
    each, began = options.worlds // options.jobs, time.monotonic()
    ranges = [(first + i * each, first + (i + 1) * each - 1) for i in range(options.jobs)]
    runs = [subprocess.Popen([options.program, f'--worlds={a}-{b}'], stdout=subprocess.PIPE, text=True)
            for a, b in ranges]
    sums = {}
    for run in runs:
        out = run.communicate()[0]
        if run.returncode != 0:
            sys.exit('a world failed: ' + out)
        for count, what in re.findall(r'(\d+) (hours|events|jobs|attempts|restarts)(?! killed)', out):
            sums[what] = sums.get(what, 0) + int(count)
    commit = subprocess.run(['git', 'rev-parse', '--short', 'HEAD'], cwd=ROOT, capture_output=True, text=True,
                            check=True).stdout.strip()
    counts = ' | '.join(str(sums[what]) for what in ('hours', 'events', 'jobs', 'attempts', 'restarts'))
    row = f'| {first}-{ranges[-1][1]} | {commit} | {counts} |\n'
    text = text.rstrip('\n') + '\n' + row
    total = sum(int(b) - int(a) + 1 for a, b in ROW.findall(text))
    text = re.sub(r'\*\*[\d,]+ worlds\*\*', f'**{total:,} worlds**', text)
    TABLE.write_text(text, encoding='utf-8')
    print(f'{row.strip()} {time.monotonic() - began:.0f} s; {total} in all')


if __name__ == '__main__':
    main()
