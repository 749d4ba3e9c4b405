"""Does the simulator notice? Breaks the core in one place at a time and requires that worlds fail.

mutations.py --root DIR --build DIR --compiler CXX --worlds N --objects A;B --libraries A;B
Each mutation replaces one text in one file of a copy of daemon/core (or daemon/engine); only that file is
compiled anew (-O1) and linked before the library. Exit 0: at least nine of ten are killed.
"""
import argparse
import os
import subprocess
import sys
import tempfile

CORE = 'daemon/core/'
# (file, text, replacement, what it breaks)
MUTATIONS = [
    (CORE + 'decide.cpp', 'job->attempt->token == key.token', 'true', 'stale tokens are believed'),
    (CORE + 'decide.cpp', 'place == nullptr || place->ended) return Events{};',
     'place == nullptr) return Events{};', 'a member ends twice'),
    (CORE + 'decide.cpp', 'return repeated(s, in, known->second);',
     'if (in.user == "") return repeated(s, in, known->second);', 'a repeated key queues another job'),
    (CORE + 'decide.cpp', 'if (!place->up && !stopping) return Events{};', '',
     'a member whose order is on the way counts as dead'),
    (CORE + 'decide.cpp', 'found != known->end() && found + 1 != known->end()', 'false',
     'a replaced roll-worker comes back'),
    (CORE + 'apply.cpp', 'if (now <= known) return;', 'if (attempt.outcome) return;',
     'the first bad end decides, whatever it was'),
    (CORE + 'apply.cpp', 'job.attempts = e.attempt.token.attempt;', '', 'attempt numbers do not grow'),
    (CORE + 'actions.cpp', 'if (place.up) return', 'if (phase == AttemptPhase::Running) return',
     'a member is not told to keep what it runs'),
    (CORE + 'actions.cpp', 'if (phase == AttemptPhase::Stopping)', 'if (false)', 'nothing is ever stopped'),
    (CORE + 'actions.cpp', 'if (!index.sleeping.empty()) earliest', 'if (false) earliest',
     'nobody wakes up when a back-off ends'),
    (CORE + 'actions.cpp', 'if (deadline != index.deadlines.end()) earliest', 'if (false) earliest',
     'nobody wakes up at a deadline'),
    (CORE + 'apply.cpp', 'job.due = due_at(job) <= job.past.back().ended_at;', 'job.due = true;', 'no back-off'),
    (CORE + 'apply.cpp', 'job.due = due_at(job) <= e.at;\n}\nvoid on(State& s, const ExportQueued',
     'job.due = true;\n}\nvoid on(State& s, const ExportQueued', 'no begin time'),
    (CORE + 'index.cpp', '&& held == Held::Yes)', '&& held != Held::Never)', 'dependencies do not hold back'),
    (CORE + 'index.cpp', 'file(state, dependent);\n', '', 'who waited for a job is forgotten'),
    (CORE + 'index.cpp', 'if (job.spec.deadline) index.deadlines.insert', 'if (false) index.deadlines.insert',
     'no deadlines'),
    (CORE + 'room.cpp', 'std::ssize(candidates) < wanted.nodes', 'candidates.empty()',
     'gangs start in part'),
    (CORE + 'room.cpp', 'for (int gpu : place.gpus) std::erase(found->second.gpus, gpu);', '',
     'GPUs are given twice'),
    (CORE + 'rules/place.cpp', '            return events;\n', '            continue;\n',
     'narrow jobs overtake a wide one'),
    (CORE + 'rules/place.cpp', 'if (find_places(job.spec.resources, all).empty()) continue;', '',
     'a job that can never run blocks all'),
    (CORE + 'rules/place.cpp', 'if (arrays.is_full(job)) continue;', '', 'arrays know no limit'),
    (CORE + 'rules/release.cpp', 'if (worker.draining) return false;', '', 'draining workers get jobs'),
    (CORE + 'rules/wake.cpp', 'if (at > now) break;', '', 'back-offs end at once'),
    (CORE + 'rules/hopeless.cpp', 'if (at >= now) break;', 'break;', 'queued jobs outlive their deadline'),
    (CORE + 'rules/stop.cpp', '*job.spec.deadline < now', 'false', 'running jobs outlive their deadline'),
    (CORE + 'decide.cpp', 'if (job->array != after.job) continue;', 'continue;',
     "an array's first job does not stand for all"),
    (CORE + 'rules/stop.cpp', 'if (attempt.outcome)', 'if (false)', 'a broken gang is not stopped'),
    (CORE + 'rules/stop.cpp', 'if (limit.count() > 0 && since + limit <= now) return kTimeIsUp;', '', 'no time limit'),
    (CORE + 'rules/settle.cpp', 'std::ranges::all_of', 'std::ranges::any_of',
     'an attempt ends with its first member'),
    (CORE + 'rules/settle.cpp', '++infra > job.spec.retry.infra', '++infra > job.spec.retry.infra + 1',
     'one retry too many'),
    (CORE + 'rules/settle.cpp', '} else if (job.cancel_requested) {', '} else if (false) {',
     'a cancelled job is tried again'),
    (CORE + 'dependency.cpp', 'return ok ? Held::Yes : Held::Never;', 'return Held::Yes;',
     'ok:ID is taken for any:ID'),
    (CORE + 'index.cpp', 'if (exports && !job.export_job)', 'if (exports)', 'exports without end'),
    (CORE + 'rules/lost.cpp', 'if (place.ended ||', 'if (place.ended || place.worker.value % 2 == 0 ||',
     'half of the lost workers are not noticed'),
    ('daemon/engine/engine.cpp', 'state_ = *durable_;', '', 'a turn that was not written stays'),
]


def build(options, mutation, folder):
    path, old, new, _ = mutation
    with open(os.path.join(options.root, path), encoding='utf-8') as file:
        text = file.read()
    if text.count(old) != 1:
        sys.exit(f'{path} holds {text.count(old)} times: {old}')
    source = os.path.join(folder, os.path.basename(path))
    with open(source, 'w', encoding='utf-8') as file:
        file.write(text.replace(old, new))
    flags = ['-std=c++20', '-O1', '-w', '-I', options.root, '-I', os.path.join(options.build, 'generated')]
    program = os.path.join(folder, 'sim')
    subprocess.run([options.compiler, *flags, '-c', source, '-o', source + '.o'], check=True)
    subprocess.run([options.compiler, *options.objects.split(';'), source + '.o', *options.libraries.split(';'),
                    '-lspdlog', '-lfmt', '-lxxhash', '-lpthread', '-o', program], check=True)
    return program


def killed(program, worlds):
    try:
        done = subprocess.run([program, f'--worlds={worlds}'], capture_output=True, text=True, timeout=120,
                              check=False)
    except subprocess.TimeoutExpired:
        return 'it hangs'
    return done.stderr.strip().replace('\n', '; ') if done.returncode != 0 else None


def main():
    parser = argparse.ArgumentParser()
    for name in ('root', 'build', 'compiler', 'worlds', 'objects', 'libraries'):
        parser.add_argument('--' + name, required=True)
    parser.add_argument('--only', default='', help='only mutations whose description holds this')
    options = parser.parse_args()
    chosen = [m for m in MUTATIONS if options.only in m[3]]
    survivors = []
    for mutation in chosen:
        with tempfile.TemporaryDirectory(prefix='roll-mutation-') as folder:
            verdict = killed(build(options, mutation, folder), options.worlds)
        print(f'{mutation[3]}: {verdict or "SURVIVES"}', flush=True)
        if verdict is None:
            survivors.append(mutation)
    print(f'{len(chosen) - len(survivors)} of {len(chosen)} mutations killed')
    return 0 if len(survivors) * 10 <= len(chosen) else 1


sys.exit(main())
