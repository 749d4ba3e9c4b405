"""The lines and the page that people read."""

WORDS = {'passed': 'ok', 'absent': 'not there', 'differs': 'DIFFERS', 'failed': 'FAILED', 'late': 'LATE',
         'no_gpu': 'no GPU', 'no_time': 'NOT RUN'}
CUT = 70  # longest shown name of a kernel


def head(about, device):
    cards = [f"{card['name']}, {card['memory_bytes'] / 2**30:.0f} GiB, sm {card['capability']}"
             for card in about['cards']] or ['none']
    made = about['bundle']
    return '\n'.join([
        f"gpu-check on {'the CPU' if device == 'cpu' else 'a GPU'}; Roll {made['version']} of {made['commit']}",
        f"  card      {'; '.join(cards)}",
        f"  driver    {about['driver'] or 'none'}",
        f"  libraries PyTorch {about['torch']} (CUDA {about['cuda']}, NCCL {about['nccl'] or '-'}, "
        f"cuDNN {about['cudnn'] or '-'}) in {about['torch_folder']}",
        f"  host      {about['cores']} cores, {about['glibc']}, Python {about['python']}"])


def step_line(result):
    return f"  {result['name']:<13} {WORDS[result['status']]:<9} {result['seconds']:6.1f} s  {result['sentence']}"


def percent(share):
    return '    -' if share is None else f'{100 * share:4.0f}%'


def figure_lines(rows):
    lines = ['  shape           length batch  tokens/s   MFU  full  memory products attention other  host  beside']
    for row in rows:
        label = f"  {row['shape']:<15} {row['positions']:6}"
        if 'note' in row:
            lines.append(f"{label} {row['note']}")
            continue
        shares = row['shares']
        other = row.get('transformers')
        lines.append(
            f"{label} {row['micro_batch']:5} {row['tokens_per_second']:9.0f} {percent(row['mfu'])} "
            f"{percent(row['mfu_full'])} {row['memory_peak_bytes'] / 2**30:6.1f}G    {percent(shares['products'])}"
            f"     {percent(shares['attention'])} {percent(shares['other'])} {percent(shares['host'])}"
            + (f"  {other['ratio']:.2f} x" if other else ''))
    for row in [row for row in rows if 'method' in row][:1]:
        lines += [f"  MFU refers to {row['peak_flops'] / 1e12:.4g} TFLOP/s ({row['peak']}); time: {row['method']}",
                  '  beside: tokens/s divided by those of transformers at the same sizes, weights in fp32, '
                  'autocast in bf16' + (', torch.compile' if row.get('transformers', {}).get('compiled') else '')]
    return lines


def cost_lines(costs):
    if not costs:
        return ['  not measured']
    return [f"  {number}. {percent(cost['share'])} of a step  {cost['name'][:CUT]}" for number, cost
            in enumerate(costs, 1)]


def end(whole):
    bad = [result['name'] for result in whole['steps'] if result['status'] not in ('passed', 'absent')]
    verdict = 'nothing differs' if whole['passed'] else f"not passed: {', '.join(bad)}"
    return f"{verdict}; {whole['seconds']:.0f} s; gpu-check.json and gpu-check.txt are written"


def page(whole):
    """Returns one page of text."""
    lines = [head(whole['machine'], whole['device']), f"  made at   {whole['made_at']}", '', 'Steps']
    lines += [step_line(result) for result in whole['steps']]
    lines += ['', 'Figures', *(figure_lines(whole['figures']) if whole['figures'] else ['  not measured'])]
    lines += ['', 'The three largest costs (mean share of a step over the shapes)', *cost_lines(whole['largest_costs'])]
    return '\n'.join([*lines, '', end(whole), ''])
