"""The steps that check whether a device computes the right numbers. Each returns its cases and a sentence."""
import json
import math
import os
import shutil
import time

import machine
from machine import last_line, run
from ranks import Failed, Rank, tiny_document


class Differs(Exception):
    """A checked value differs from the expected one. The message is one sentence."""


def case(name, figure, limit=None, unit='', good=None):
    """Returns a case, which passes if the figure is at most `limit`, or if there is no limit."""
    if isinstance(figure, float) and not math.isfinite(figure):
        figure = 'not finite'
    if good is None:
        good = limit is None or (not isinstance(figure, str) and figure <= limit)
    return {'name': name, 'figure': figure, 'limit': limit, 'unit': unit, 'good': bool(good)}


def same(name, found, expected):
    return case(name, 'equal' if found == expected else 'differs', 'equal', 'bytes', found == expected)


def checked(process, what):
    """Returns the output of an ended program. Raises Failed with its last line."""
    if process.returncode != 0:
        raise Failed(f'{what} ended with status {process.returncode}: {last_line(process.stderr or process.stdout)}')
    return process.stdout


def programs(context, deadline):
    """Starts every program once."""
    cases = []
    for name in sorted(os.listdir(os.path.join(context.bundle, 'bin'))):
        done = run([context.program(name), '--help'], deadline, context.env)
        cases.append(case(f'{name} --help', done.returncode, 0, 'exit status'))
        if done.returncode != 0:
            cases[-1]['note'] = last_line(done.stderr)
    return cases, f'all {len(cases)} programs start'


def json_lines(text):
    return [json.loads(line) for line in text.splitlines() if line.startswith('{')]


def figures_of(rows):
    return [case(' · '.join(filter(None, [row['case'], row.get('type'), row['what']])), row['error'], row['limit'],
                 'relative error') for row in rows]


def operators(context, deadline):
    done = run([*context.device_check(), 'operators'], deadline, context.env)
    cases = figures_of(json_lines(checked(done, 'device_check operators')))
    if not cases:
        raise Failed('device_check operators compared nothing')
    tested = run([context.program('gpu_ops_test'), '--gtest_brief=1'], deadline, context.env)
    cases.append(case('gpu_ops_test', tested.returncode, 0, 'exit status'))
    return cases, f'{len(cases)} values of operators, forward and backward, against float64 on the CPU'


def sanitizer(context, deadline):
    """Runs the operators' small cases under compute-sanitizer's memcheck."""
    if context.device == 'cpu':
        return [], 'not on a CPU: compute-sanitizer checks the memory of GPU kernels'
    tool = machine.find_sanitizer()
    if tool is None:
        return [], 'compute-sanitizer is not on this machine'
    done = run([tool, '--tool', 'memcheck', '--error-exitcode', '9', *context.device_check(), 'operators', '--small'],
               deadline, context.env)
    if 'Device not supported' in done.stdout:
        return [], 'compute-sanitizer does not support the device of this machine'
    found = [line for line in done.stdout.splitlines() if 'ERROR SUMMARY' in line]
    return [case('memcheck', done.returncode, 0, 'exit status')], found[-1].strip('= ') if found else 'no summary'


def communicator(context, deadline):
    scratch = context.folder('communicator')
    done = run([*context.device_check(), 'communicator', scratch], deadline, context.env)
    cases = figures_of(json_lines(checked(done, 'device_check communicator')))
    library = 'NCCL' if context.on_gpu else 'Gloo'
    return cases, f'a group of one rank through {library}: sums, gathers, barrier and a training step'


def train(context, name, document, deadline, on_gpu=None, **options):
    """Trains a job to its end. Returns its rank."""
    on_gpu = context.on_gpu if on_gpu is None else on_gpu
    program = context.program('roll-rank-cuda' if on_gpu else 'roll-rank')
    return Rank(program, context.env, document, context.folder(name), **options).wait(deadline)


def losses(context, deadline):
    """Trains a tiny model for 20 steps on the device and on the CPU (in float64 if the device is the CPU)."""
    other = 'fp32' if context.on_gpu else 'fp64'
    cases = []
    reference = train(context, 'losses-cpu', tiny_document(context.corpus, 20, False, precision=other), deadline,
                      on_gpu=False).losses()
    for precision, limit in (('fp32', 1e-4), ('bf16', 2e-2)):
        document = tiny_document(context.corpus, 20, context.on_gpu, precision=precision)
        found = train(context, f'losses-{precision}', document, deadline).losses()
        for step, (mine, theirs) in enumerate(zip(found, reference, strict=True), 1):
            cases.append(case(f'{precision} step {step}: {mine:.6f} here, {theirs:.6f} on the CPU in {other}',
                              abs(mine - theirs) / theirs, limit, 'relative difference'))
    return cases, f'20 steps of a tiny model in fp32 and bf16 beside the CPU in {other}'


def smollm2(context, deadline):
    """Trains SmolLM2's shape in bf16. The loss must fall, and every value must be finite."""
    document = context.shape('smollm2-135m')
    sizes = {'seq_length': 1024, 'micro_batch_size': 8, 'global_batch_size': 8}
    steps = 60
    if not context.on_gpu:
        sizes, steps = {'seq_length': 64, 'micro_batch_size': 1, 'global_batch_size': 1}, 6
        document['model']['num_hidden_layers'] = 2
    document['train'] |= sizes | {'steps': steps}
    document['data'] = {'train': [context.corpus], 'valid': 0.02}
    rank = train(context, 'smollm2', document, deadline)
    found, row = rank.losses(), rank.rows()[-1]
    last = [row for row in rank.rows() if 'tokens_per_second' in row][-1]
    cases = [case('steps with a loss', len(found), steps, 'steps', len(found) == steps),
             case('last loss / first loss', found[-1] / found[0], 0.95, 'ratio'),
             case('tokens per second', last['tokens_per_second'], None, 'tokens/s')]
    for name in ('mfu', 'mfu_full', 'gpu_memory_peak_bytes' if context.on_gpu else 'memory_peak_bytes'):
        cases.append(case(name, last.get(name, row.get(name, 0)), None, 'bytes' if 'bytes' in name else 'share'))
    shutil.rmtree(rank.output, ignore_errors=True)  # a checkpoint of 2 GB
    layers = document['model']['num_hidden_layers']
    return cases, (f'{steps} steps of SmolLM2-135M ({layers} of 30 layers) in bf16, '
                   f'loss {found[0]:.3f} to {found[-1]:.3f}')


def resume(context, deadline):
    """Kills a run and resumes it. All results must be bitwise equal to those of an undisturbed run."""
    def document():
        job = tiny_document(context.corpus, 24, context.on_gpu, deterministic=True, precision='bf16', valid_every=12)
        job['checkpoint'] |= {'every': 6, 'keep': 9}
        return job
    calm = train(context, 'calm', document(), deadline)
    program = context.program('roll-rank-cuda' if context.on_gpu else 'roll-rank')
    output = context.folder('killed')
    first = Rank(program, context.env, document(), output)
    first.wait_published(6, deadline)
    first.kill()
    resumed_at = max(step for step, _ in first.published)
    second = Rank(program, context.env, document(), output, attempt=2,
                  checkpoints=list(reversed(first.published))).wait(deadline)
    calm_bytes, found_bytes = calm.state_bytes(24), second.state_bytes(24)
    cases = [same(f'{name} at step 24', found_bytes[name], calm_bytes[name]) for name in calm_bytes]
    cases.append(same('metrics.jsonl without times', second.timeless_rows(), calm.timeless_rows()))
    cases.append(case('resumed at step', resumed_at, None, 'step', f'resumed at step {resumed_at} ' in second.log()))
    context.checkpoint = dict(calm.published)[24]
    return cases, f'killed after the checkpoint of step {resumed_at}, resumed, and compared with an undisturbed run'


def export(context, deadline):
    """Exports a checkpoint. The tensors must be equal, and training from either must start with the same loss."""
    if context.checkpoint is None:
        job = tiny_document(context.corpus, 4, context.on_gpu, precision='bf16')
        context.checkpoint = train(context, 'to-export', job, deadline).published[-1][1]
    target = os.path.join(context.folder('export'), 'hf')
    convert = context.program('roll-convert')
    checked(run([convert, 'convert', context.checkpoint, target, '--to', 'hf'], deadline, context.env), 'roll-convert')
    compared = run([convert, 'diff', context.checkpoint, target, '--cast'], deadline, context.env)
    cases = [case('roll-convert diff', compared.returncode, 0, 'exit status')]
    starts = []
    for name, source in (('checkpoint', context.checkpoint), ('export', target)):
        job = tiny_document(context.corpus, 1, context.on_gpu)
        job['model'] = {'from': source}
        starts.append(train(context, f'from-{name}', job, deadline).losses()[0])
    limit = 1e-6 if context.on_gpu else 0
    cases.append(case('first loss from the export and from the checkpoint', abs(starts[0] - starts[1]) / starts[0],
                      limit, 'relative difference'))
    return cases, f'exported to HuggingFace, loaded again: loss {starts[1]:.6f}'


def chain(context, deadline):
    """Starts rolld and roll-worker, trains, exports and runs a command on the export, as a user does."""
    home = context.folder('chain')
    env = context.env | {'ROLL_DIR': os.path.join(home, 's'), 'HOME': home}

    def ctl(*words):
        return checked(run([context.program('rollctl'), *words], deadline, env), f'rollctl {words[0]}')
    job = tiny_document(context.corpus, 12, context.on_gpu)
    job['output'] = os.path.join(home, 'train')
    job['export'] = {'format': 'hf', 'dtype': 'bf16'}
    job['then'] = [{'name': 'look', 'kind': 'command', 'command': ['sh', '-c', 'ls {previous.result}']}]
    path = os.path.join(home, 'job.json')
    with open(path, 'w', encoding='utf-8') as file:
        json.dump(job, file)
    began = time.monotonic()
    try:
        ctl('up', '--slots', '1', *(['--gpus', '1'] if context.on_gpu else ['--gpus', '0']))
        ids = ctl('submit', '--parsable', path).split()
        ended = run([context.program('rollctl'), 'wait', *ids], deadline, env)
        states = [json.loads(ctl('show', number, '--json'))['job'] for number in ids]
        log = ctl('logs', ids[-1])
    finally:
        run([context.program('rollctl'), 'down', '--now'], time.monotonic() + 30, env)
    cases = [case('exit status of rollctl wait', ended.returncode, 0, 'exit status')]
    for number, shown in zip(ids, states, strict=True):
        cases.append(case(f"job {number} ({shown['name']})", shown['state'], 'done', 'state', shown['state'] == 'done'))
        if shown['state'] != 'done':
            cases[-1]['note'] = str(shown.get('reason'))
    cases.append(case('model.safetensors in the export', 'found' if 'model.safetensors' in log else 'missing', 'found',
                      'file', 'model.safetensors' in log))
    cases.append(case('time of the chain', round(time.monotonic() - began, 1), None, 's'))
    return cases, 'rolld started a worker, which trained, exported and ran a command on the export'
