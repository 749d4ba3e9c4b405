"""What benches share: the command line of a bench with parts, and the processor time of a process."""
import argparse
import os
import pathlib

ROOT = pathlib.Path(__file__).resolve().parents[2]


def processor_s(pid):
    """Returns the seconds of processor time that a process has used."""
    with open(f'/proc/{pid}/stat', encoding='ascii') as file:
        fields = file.read().rsplit(')', 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf('SC_CLK_TCK')


def run_parts(parts, about, add_options):
    """Runs the parts. `parts` maps names to functions of the options. `add_options` adds this bench's options to the
    parser."""
    parser = argparse.ArgumentParser(description=about.splitlines()[0])
    parser.add_argument('--bin', type=pathlib.Path, default=ROOT / 'build/release/bin')
    add_options(parser)
    parser.add_argument('parts', nargs='*', choices=[*parts, []], default=[])
    options = parser.parse_args()
    options.bin = options.bin.resolve()
    for name in options.parts or parts:
        print(f'{name}:', flush=True)
        parts[name](options)
