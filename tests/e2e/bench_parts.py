"""The command line of a bench with parts. It runs the parts that are named, or all."""
import argparse
import pathlib

ROOT = pathlib.Path(__file__).resolve().parents[2]


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
