#!/usr/bin/env python3
"""gpu-check: runs Roll's checks and measurements on this machine. Needs neither root nor a network.

Writes gpu-check.json and gpu-check.txt into the current directory. Exits with 0 only if every chosen step passed.
"""
import argparse
import json
import os
import shutil
import signal
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import figures
import machine
import report
import steps
from machine import Late, Refused
from ranks import Failed

SCHEMA = 'roll.gpu_check/1'
# Name, function, time limit in seconds of a run of 8 minutes.
STEPS = (('programs', steps.programs, 45), ('operators', steps.operators, 90), ('sanitizer', steps.sanitizer, 120),
         ('communicator', steps.communicator, 45), ('losses', steps.losses, 60), ('smollm2', steps.smollm2, 60),
         ('resume', steps.resume, 60), ('export', steps.export, 45), ('chain', steps.chain, 60),
         ('figures', figures.figures, 400))
NAMES = [name for name, *_ in STEPS]
USUAL_MINUTES = 8
PASSED = ('passed', 'absent')  # absent: a tool that only some machines have


class Context:
    """The values that the steps share."""

    def __init__(self, bundle, device, torch, scratch):
        self.bundle, self.device, self.scratch = bundle, device, scratch
        self.on_gpu = device == 'cuda'
        self.env = machine.environment(bundle, torch, scratch)
        self.corpus = os.path.join(bundle, 'data', 'corpus.txt')
        self.card = torch['cards'][0]['name'] if torch['cards'] else ''
        self.memory_bytes = torch['cards'][0]['memory_bytes'] if torch['cards'] and self.on_gpu else 4 << 30
        self.checkpoint, self.rows = None, []

    def program(self, name):
        path = os.path.join(self.bundle, 'bin', name)
        if not os.path.exists(path):
            raise Failed(f'this bundle has no {name}: make it with packaging/gpu-check on a machine with nvcc')
        return path

    def device_check(self):
        return [self.program('device_check_cuda'), '--gpu'] if self.on_gpu else [self.program('device_check')]

    def folder(self, name):
        path = os.path.join(self.scratch, name)
        os.makedirs(path, exist_ok=True)
        return path

    def shape(self, name):
        with open(os.path.join(self.bundle, 'shapes', name + '.json'), encoding='utf-8') as file:
            document = json.load(file)
        document['resources'] = {'nodes': 1, **({'gpus_per_node': 1} if self.on_gpu else {'slots_per_node': 1})}
        return document


def find_gpu(context):
    """Returns why no GPU can be used; '' if one can be."""
    if not context.on_gpu:
        return ''
    try:
        done = machine.run([*context.device_check(), 'probe'], time.monotonic() + 60, context.env)
    except (Failed, Late) as error:
        return str(error) or 'the program that looks for a GPU does not end'
    return '' if done.returncode == 0 else machine.last_line(done.stderr)


def run_step(context, name, function, limit, end, missing):
    """Returns the result of one step. Never raises: a step does not stop the next."""
    began = time.monotonic()
    limit = max(0.0, min(limit, end - began))
    result = {'name': name, 'status': 'passed', 'limit_seconds': round(limit, 1), 'cases': []}
    if missing and name != 'programs':
        result |= {'status': 'no_gpu', 'sentence': f'no GPU: {missing}'}
    elif limit == 0:
        result |= {'status': 'no_time', 'sentence': 'not run: no time was left (--minutes)'}
    else:
        try:
            result['cases'], result['sentence'] = function(context, began + limit)
            bad = [one for one in result['cases'] if not one['good']]
            if bad:
                result['status'] = 'differs'
                result['sentence'] = (f"{len(bad)} of {len(result['cases'])} values are wrong; the first: "
                                      f"{bad[0]['name']} is {bad[0]['figure']}, limit {bad[0]['limit']}"
                                      + (f" ({bad[0]['note']})" if 'note' in bad[0] else ''))
            elif not result['cases']:
                result['status'] = 'absent'
        except Late:
            result |= {'status': 'late', 'sentence': f'stopped at its time limit of {limit:.0f} s'}
        except (Failed, Refused) as error:
            result |= {'status': 'failed', 'sentence': str(error)}
        except Exception as error:  # a step must not stop the next
            result |= {'status': 'failed', 'sentence': f'{type(error).__name__}: {error}'}
    if name == 'programs' and missing and result['status'] == 'passed':
        result |= {'status': 'no_gpu', 'sentence': f'no GPU: {missing}'}
    result['seconds'] = round(time.monotonic() - began, 1)
    return result


def arguments():
    parser = argparse.ArgumentParser(prog='gpu-check', description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--minutes', type=float, default=USUAL_MINUTES, help='time for all steps together (8)')
    parser.add_argument('--only', metavar='NAME', action='append', default=[], help='run only this step: '
                        + ', '.join(NAMES))
    parser.add_argument('--device', choices=['cuda', 'cpu'], default='cuda', help='cpu: test the script itself')
    parser.add_argument('--out', default='.', help='folder of gpu-check.json and gpu-check.txt')
    parser.add_argument('--keep', action='store_true', help="keep the steps' files")
    args = parser.parse_args()
    unknown = [name for name in args.only if name not in NAMES]
    if unknown:
        parser.error(f"--only {unknown[0]} is not a step; the steps are: {', '.join(NAMES)}")
    if not args.minutes > 0:
        parser.error(f'--minutes {args.minutes:g} is not positive')
    return args


def describe(bundle, torch):
    with open(os.path.join(bundle, 'bundle.json'), encoding='utf-8') as file:
        made = json.load(file)
    return {'bundle': made, 'python': sys.version.split()[0], 'torch': torch['version'], 'cuda': torch['cuda'],
            'torch_folder': torch['folder'], 'library_folders': machine.library_folders(torch),
            'nccl': torch.get('nccl'), 'cudnn': torch.get('cudnn'), 'cards': torch['cards'],
            'driver': machine.driver_version(), 'cores': os.cpu_count(), 'glibc': os.confstr('CS_GNU_LIBC_VERSION')}


def write(path, text):
    with open(path + '.new', 'w', encoding='utf-8') as file:
        file.write(text)
    os.replace(path + '.new', path)


def unwritable(folder):
    """Makes the folder. Returns why a file cannot be written there; '' if it can."""
    try:
        os.makedirs(folder, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return ''
    except OSError as error:
        return error.strerror


def main():
    args = arguments()
    began = time.monotonic()
    end = began + args.minutes * 60
    bundle = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, machine.Programs.stop)
    if problem := unwritable(args.out):
        print(f'gpu-check: cannot write to --out {args.out}: {problem}; name another folder', file=sys.stderr)
        return 2
    try:
        torch = machine.find_torch(began + 120)
    except Refused as error:
        print(f'gpu-check: {error}', file=sys.stderr)
        return 2
    except Late:
        print('gpu-check: `import torch` does not end', file=sys.stderr)
        return 2
    scratch = tempfile.mkdtemp(prefix='gpu-check-')
    try:
        context = Context(bundle, args.device, torch, scratch)
        about = describe(bundle, torch)
        print(report.head(about, args.device), flush=True)
        missing = find_gpu(context)
        results = []
        for name, function, limit in STEPS:
            if args.only and name not in args.only:
                continue
            scaled = limit * max(args.minutes / USUAL_MINUTES, 1)
            results.append(run_step(context, name, function, scaled, end, missing))
            print(report.step_line(results[-1]), flush=True)
        whole = {'schema': SCHEMA, 'made_at': time.strftime('%Y-%m-%dT%H:%M:%SZ', time.gmtime()),
                 'device': args.device, 'minutes': args.minutes, 'seconds': round(time.monotonic() - began, 1),
                 'passed': all(result['status'] in PASSED for result in results), 'machine': about, 'steps': results,
                 'figures': context.rows, 'largest_costs': figures.largest_costs(context.rows)}
        write(os.path.join(args.out, 'gpu-check.json'), json.dumps(whole, indent=1) + '\n')
        write(os.path.join(args.out, 'gpu-check.txt'), report.page(whole))
        print(report.end(whole), flush=True)
        return 0 if whole['passed'] else 1
    finally:
        for process in list(machine.Programs.running):  # this program was interrupted
            machine.Programs.end(process)
        if not args.keep:
            shutil.rmtree(scratch, ignore_errors=True)


if __name__ == '__main__':
    sys.exit(main())
