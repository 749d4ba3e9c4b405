#!/usr/bin/env python3
"""gate.py GATE [--record]: compares the cost of rolld's inner loops with gate.txt.

GATE is build/release/bin/gate. The costs are instructions, relative to those of a fixed loop. --record writes gate.txt.
"""
import os
import re
import subprocess
import sys
import tempfile

RECORDED = os.path.join(os.path.dirname(os.path.abspath(__file__)), 'gate.txt')
MOST = 1.2


def count(program):
    """Returns {loop: instructions}, in the program's order."""
    with tempfile.TemporaryDirectory(prefix='roll-gate-') as folder:
        subprocess.run(['valgrind', '--quiet', '--tool=callgrind', '--collect-atstart=no',
                        f'--callgrind-out-file={folder}/out', program], check=True)
        found = {}
        for name in sorted(os.listdir(folder), key=lambda name: int('0' + name.partition('.')[2])):
            with open(os.path.join(folder, name), encoding='utf-8') as file:
                text = file.read()
            loop = re.search(r'^desc: Trigger: Client Request: (\S+)$', text, re.MULTILINE)
            if loop:
                found[loop[1]] = int(re.search(r'^totals: (\d+)', text, re.MULTILINE)[1])
        return found


def measure(program):
    """Returns {loop: instructions, as a multiple of the fixed loop's}."""
    counted = count(program)
    reference = counted.pop('reference')
    return {loop: instructions / reference for loop, instructions in counted.items()}


def main():
    if sys.argv[1:2] in ([], ['-h'], ['--help']):
        sys.exit(__doc__)
    costs = measure(sys.argv[1])
    if '--record' in sys.argv:
        with open(RECORDED, 'w', encoding='ascii') as file:
            file.writelines(f'{loop} {cost:.4f}\n' for loop, cost in costs.items())
        return 0
    with open(RECORDED, encoding='ascii') as file:
        recorded = {loop: float(cost) for loop, cost in (line.split() for line in file)}
    for loop, cost in costs.items():
        share = cost / recorded[loop]
        print(f'{loop:30}{cost:10.4f} recorded {recorded[loop]:.4f} {100 * share - 100:+.1f} %')
    dearer = [loop for loop, cost in costs.items() if cost > MOST * recorded[loop]]
    if dearer or set(costs) != set(recorded):
        print('dearer than allowed: ' + ', '.join(dearer) if dearer else 'gate.txt has other loops')
        return 1
    return 0


if __name__ == '__main__':
    sys.exit(main())
