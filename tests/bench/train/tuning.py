"""tuning.py ROLL_RANK MODEL DATA [options]: Roll's LoRA step beside PEFT's, and its DPO beside TRL's.

MODEL is a Hugging Face directory, DATA a folder with sft.jsonl and preference.jsonl (tests/e2e/chat/make_chat.py). Both
sides train with the same batch, LoRA r 16 on all linear layers, float32 and the same number of threads. PEFT: frozen
base, sdpa attention. TRL: precompute_ref_log_probs; the log-probabilities of the reference count on neither side. Both
sides of DPO train once on the same pairs, so their seconds compare as their real tokens a second do.

The two sides take turns step by step, so that both meet the same machine. Each step is measured by the clock and by the
processor time of its process, which depends less on what else runs. Prints one JSON line for each comparison: medians
of the LoRA steps after two to warm up, the sum of all DPO steps, and peaks of memory. `dpo-memory` compares DPO with
supervised fine-tuning of Roll at the same tokens, `qlora-memory` the peak of QLoRA with that of `rollctl plan`. Run it
by a Python with torch, transformers, peft, trl and datasets.
"""
import argparse
import json
import os
import select
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

SIZE, BATCH, R = 256, 4, 16
GOALS = {'lora': {'speed': 1.3, 'memory': 0.6}, 'dpo': {'speed': 1.3}, 'dpo-memory': {'memory': 1.05},
         'qlora-memory': {'memory': [0.95, 1.05]}}
LORA = {'r': R, 'lora_alpha': 2 * R, 'target_modules': 'all-linear'}


class Contestant:
    """A process that trains one step after each line that it reads from its pipe, and answers with a line."""

    def __init__(self, command, environment, folder):
        pipes = [os.path.join(folder, name) for name in ('go', 'done')]
        for pipe in pipes:
            os.mkfifo(pipe)
        self.go, self.done = (os.fdopen(os.open(pipe, os.O_RDWR), 'r+b', buffering=0) for pipe in pipes)
        self.log = open(os.path.join(folder, 'log'), 'w+', encoding='utf-8')
        self.process = subprocess.Popen([*command, *pipes], env=environment, stdout=self.log, stderr=self.log)
        self.wall, self.cpu, self.peak = [], [], 0
        self.wait()

    def wait(self):
        while not self.answered():
            if self.process.poll() is not None:
                self.log.seek(0)
                raise SystemExit(f'{self.process.args}: exit {self.process.returncode}\n{self.log.read()[-3000:]}')

    def answered(self):
        return select.select([self.done], [], [], 1)[0] and self.done.readline()

    def spent(self):
        """Returns the processor seconds of the process."""
        fields = Path(f'/proc/{self.process.pid}/stat').read_text(encoding='ascii').rsplit(')', 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf('SC_CLK_TCK')

    def step(self):
        wall, cpu = time.perf_counter(), self.spent()
        self.go.write(b'go\n')
        self.wait()
        self.wall.append(time.perf_counter() - wall)
        self.cpu.append(self.spent() - cpu)
        status = Path(f'/proc/{self.process.pid}/status').read_text(encoding='ascii')
        self.peak = int(status.split('VmHWM:')[1].split()[0]) / 1024

    def end(self):
        self.process.kill()
        self.process.wait()


def document_of(args, kind, folder):
    """Returns a job whose hooks wait for the next turn."""
    data = {'dpo': 'pairs.jsonl', 'sft-long': 'long_answers.jsonl', 'dpo-long': 'long_pairs.jsonl'}
    objective = {'sft-long': 'sft', 'lora': 'pretrain', 'qlora': 'pretrain'}.get(kind, 'dpo')
    wait = {'command': ['sh', '-c', 'echo done >"$2"; read -r line <"$1"', 'hook', str(folder / 'go'),
                        str(folder / 'done')], 'wait': True, 'timeout': '1h'}
    batch = BATCH // 2 if kind == 'dpo-long' else BATCH
    return {
        'name': kind, 'kind': 'train', 'resources': {'nodes': 1, 'slots_per_node': 1},
        'model': {'from': str(args.model)}, 'tokenizer': str(args.model),
        'data': {'train': [str(args.inputs / data.get(kind, 'text.txt'))], 'valid': 0},
        'objective': objective, 'parallel': {'dp': 1},
        'train': {'seq_length': 2 * SIZE if kind == 'dpo' else SIZE, 'global_batch_size': batch,
                  'micro_batch_size': batch, 'steps': args.steps + 1, 'seed': 1, 'precision': 'fp32',
                  'lora': {'r': R, 'alpha': 2 * R, **({'base': 'nf4'} if kind == 'qlora' else {})},
                  'hooks': {'start': wait, 'step': {**wait, 'every': 1}},
                  'optimizer': {'lr': 1e-4, 'schedule': 'constant', 'weight_decay': 0.0}},
        'checkpoint': {'every': 0, 'keep': 1}, 'export': 'none'}


def roll(args, kind, folder):
    document = document_of(args, kind, folder)
    launch = {'v': 1, 'attempt': {'job': 1, 'token': '1-1'}, 'kind': 'train', 'document': json.dumps(document),
              'output': str(folder), 'logs': str(folder), 'nodes': 1, 'node_rank': 0, 'ranks_per_node': 1, 'gpus': [],
              'nonce': 'bench', 'checkpoints': [], 'allow_faults': False}
    (folder / 'launch.json').write_text(json.dumps(launch), encoding='utf-8')
    return Contestant(['sh', '-c', 'exec "$0" --launch "$1" --rank 0', args.roll_rank, folder / 'launch.json'],
                      {'PATH': '/usr/bin:/bin', **threads(args)}, folder)


AVX2 = {'ROLL_PROCESSOR': 'avx2', 'ATEN_CPU_CAPABILITY': 'avx2', 'ONEDNN_MAX_CPU_ISA': 'AVX2',
        'MKL_ENABLE_INSTRUCTIONS': 'AVX2'}


def threads(args):
    return {'OMP_NUM_THREADS': str(args.threads), 'GOMP_SPINCOUNT': '1000', **(AVX2 if args.avx2 else {})}


def other(args, kind, folder):
    return Contestant([sys.executable, __file__, args.roll_rank, args.model, args.inputs, '--steps', str(args.steps),
                       '--threads', str(args.threads), '--only', kind, '--pipes'],
                      {**os.environ, **threads(args), 'HF_HUB_OFFLINE': '1', 'TRANSFORMERS_VERBOSITY': 'error'}, folder)


class Turns:
    """The other side of a Contestant's pipes."""

    def __init__(self, args):
        self.go, self.done = (open(path, mode, encoding='ascii') for path, mode in zip(args.pipes, ('r', 'w')))

    def next(self):
        print('done', file=self.done, flush=True)
        self.go.readline()


def peft_steps(args):
    import peft
    import torch
    import transformers
    torch.manual_seed(0)
    model = transformers.AutoModelForCausalLM.from_pretrained(args.model, attn_implementation='sdpa',
                                                              dtype=torch.float32)
    model = peft.get_peft_model(model, peft.LoraConfig(**LORA)).train()
    trained = [weight for weight in model.parameters() if weight.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=1e-4, weight_decay=0.0, fused=True)
    ids = torch.randint(0, model.config.vocab_size, (BATCH, SIZE + 1))
    inputs, targets = ids[:, :-1].contiguous(), ids[:, 1:].contiguous()
    turns = Turns(args)
    while True:
        turns.next()
        logits = model(input_ids=inputs, use_cache=False).logits
        torch.nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten()).backward()
        torch.nn.utils.clip_grad_norm_(trained, 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)


def trl_steps(args):
    import datasets
    import peft
    import torch
    import transformers
    import trl
    turns = Turns(args)

    class Clock(transformers.TrainerCallback):
        def on_step_begin(self, *_, **__):
            turns.next()

    with tempfile.TemporaryDirectory() as folder:
        pairs = datasets.load_dataset('json', data_files=str(args.data / 'pairs.jsonl'), split='train',
                                      cache_dir=folder)
        config = trl.DPOConfig(
            output_dir=folder, per_device_train_batch_size=BATCH, max_steps=args.steps + 1, learning_rate=1e-4,
            lr_scheduler_type='constant', precompute_ref_log_probs=True, max_length=2 * SIZE, report_to=[],
            use_cpu=True, bf16=False, gradient_checkpointing=False, save_strategy='no', logging_strategy='no',
            disable_tqdm=True, seed=1)
        trainer = trl.DPOTrainer(
            transformers.AutoModelForCausalLM.from_pretrained(args.model, attn_implementation='sdpa',
                                                              dtype=torch.float32),
            args=config, train_dataset=pairs, callbacks=[Clock()],
            processing_class=transformers.AutoTokenizer.from_pretrained(args.model),
            peft_config=peft.LoraConfig(**LORA, task_type='CAUSAL_LM'))
        trainer.train()


def write_inputs(args):
    """Writes the text of the LoRA steps, the pairs of the DPO steps, and answers of more than SIZE tokens."""
    with open(args.data / 'sft.jsonl', encoding='utf-8') as file:
        texts = [turn['content'] for line, _ in zip(file, range(4000)) for turn in json.loads(line)['messages']]
    (args.inputs / 'text.txt').write_text('\n\n'.join(texts), encoding='utf-8')
    with open(args.data / 'preference.jsonl', encoding='utf-8') as file:
        lines = [line for line, _ in zip(file, range(BATCH * args.steps))]
    (args.inputs / 'pairs.jsonl').write_text(''.join(lines), encoding='utf-8')
    long = [' '.join(texts[begin:begin + 100])[:8 * SIZE] for begin in range(0, 4000, 100)]
    with open(args.inputs / 'long_answers.jsonl', 'w', encoding='utf-8') as file:
        for text in long:
            file.write(json.dumps({'prompt': 'Speak:', 'completion': text}) + '\n')
    with open(args.inputs / 'long_pairs.jsonl', 'w', encoding='utf-8') as file:
        for one, two in zip(long, long[1:]):
            file.write(json.dumps({'prompt': 'Speak:', 'chosen': one, 'rejected': two}) + '\n')


def compare(args, name):
    """Runs both sides of a comparison in turns. Returns what was measured."""
    sides = {'lora': (roll, 'lora', other, 'lora'), 'dpo': (roll, 'dpo', other, 'dpo'),
             'dpo-memory': (roll, 'dpo-long', roll, 'sft-long')}[name]
    with tempfile.TemporaryDirectory() as ours, tempfile.TemporaryDirectory() as theirs:
        one, two = sides[0](args, sides[1], Path(ours)), sides[2](args, sides[3], Path(theirs))
        for _ in range(args.steps):
            one.step()
            two.step()
        one.end()
        two.end()
    total = sum if name == 'dpo' else lambda seconds: statistics.median(seconds[2:])
    told = {'wall': total(two.wall) / total(one.wall), 'cpu': total(two.cpu) / total(one.cpu),
            'memory': one.peak / two.peak}
    return {'what': name, 'threads': args.threads, 'steps': args.steps, 'goal': GOALS[name],
            **{f'{key}_ratio': round(value, 3) for key, value in told.items()},
            'wall_seconds': [round(total(side.wall), 3) for side in (one, two)],
            'cpu_seconds': [round(total(side.cpu), 3) for side in (one, two)],
            'peak_mib': [round(side.peak) for side in (one, two)]}


def qlora_memory(args):
    """Compares the peak of a job of QLoRA with the plan's."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        job = roll(args, 'qlora', folder)
        for _ in range(3):
            job.step()
        job.end()
        (folder / 'plan.json').write_text(json.dumps(document_of(args, 'qlora', folder)), encoding='utf-8')
        told = subprocess.run([args.roll_rank, 'plan', '--spec', folder / 'plan.json', '--json'], check=True,
                              capture_output=True, text=True, env={'PATH': '/usr/bin:/bin', **threads(args)}).stdout
    planned = json.loads(told)['memory_per_rank_bytes']['total'] / 2**20
    return {'what': 'qlora-memory', 'goal': GOALS['qlora-memory'], 'memory_ratio': round(job.peak / planned, 3),
            'peak_mib': round(job.peak), 'planned_mib': round(planned)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('roll_rank', type=Path)
    parser.add_argument('model', type=Path)
    parser.add_argument('data', type=Path)
    parser.add_argument('--steps', type=int, default=12)
    parser.add_argument('--threads', type=int, default=2)
    parser.add_argument('--avx2', action='store_true', help='limit both programs to AVX2')
    parser.add_argument('--what', nargs='*', default=list(GOALS), choices=list(GOALS))
    parser.add_argument('--only', choices=('lora', 'dpo'), help=argparse.SUPPRESS)
    parser.add_argument('--pipes', nargs=2, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.only:
        return peft_steps(args) if args.only == 'lora' else trl_steps(args)
    args.roll_rank, args.model, args.data = args.roll_rank.resolve(), args.model.resolve(), args.data.resolve()
    with tempfile.TemporaryDirectory() as name:
        args.inputs = Path(name)
        write_inputs(args)
        for what in args.what:
            told = qlora_memory(args) if what == 'qlora-memory' else compare(args, what)
            print(json.dumps(told), flush=True)
    return None


if __name__ == '__main__':
    main()
