"""Does the simulator notice? Breaks the core in one place at a time and requires that worlds fail.

mutations.py --root DIR --build DIR --compiler CXX --worlds N --objects A;B --libraries A;B
Each mutation replaces one text in one file of a copy of daemon/core (or daemon/engine); only that file is
compiled anew (-O1) and linked before the library. Exit 0: at least 19 of 20 are killed.
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
    (CORE + 'apply.cpp', 'job.array = e.array;\n    job.due = due_at(job) <= e.at;', 'job.array = e.array;',
     'no begin time'),
    (CORE + 'index.cpp', '&& held == Held::Yes)', '&& held != Held::Never)', 'dependencies do not hold back'),
    (CORE + 'index.cpp', 'unfile(state, dependent);\n        file(state, dependent);', '',
     'who waited for a job is forgotten'),
    (CORE + 'index.cpp', 'if (job.spec.deadline) index.deadlines.insert', 'if (false) index.deadlines.insert',
     'no deadlines'),
    (CORE + 'room.cpp', 'std::ssize(candidates) < wanted.nodes', 'candidates.empty()',
     'gangs start in part'),
    (CORE + 'room.cpp', 'for (int gpu : place.gpus) std::erase(found->second.gpus, gpu);', '',
     'GPUs are given twice'),
    (CORE + 'rules/place.cpp', 'if (!state_.policy.backfill) break;', '', 'backfill cannot be turned off'),
    (CORE + 'rules/place.cpp', 'return first_ ? ', 'return false ? ', 'narrow jobs overtake a wide one'),
    (CORE + 'rules/place.cpp', 'if (first_ || find_places(job.spec.resources, all_).empty()) continue;',
     'if (first_) continue;', 'a job that can never run is the one with the reservation'),
    (CORE + 'rules/place.cpp', 'if (limits.excess(job)) {', 'if (false) {', 'arrays and quotas know no limit'),
    (CORE + 'reservation.cpp', 'now + later.time + kBackfillSlack <= *at_', 'true',
     'backfilled jobs may take as long as they like'),
    (CORE + 'reservation.cpp', 'if (!at_) return true;', 'if (!at_) return false;',
     'a job behind others without limits has no reservation'),
    (CORE + 'reservation.cpp', 'if (lost > spare) places.clear();', '', 'backfill counts no loss'),
    (CORE + 'queue.cpp', 'cursor->oldest != line.by_age.end() && starves(cursor->oldest->first)', 'false',
     'who starves is left out'),
    (CORE + 'queue.cpp', 'limits_.would_borrow(job), -std::int64_t{priority}',
     'limits_.would_borrow(job), std::int64_t{priority}', 'priorities are upside down'),
    (CORE + 'rules/preempt.cpp', 'if (*attempt.started_at + state.policy.min_run <= now)', '',
     'preemption knows no min_run'),
    (CORE + 'rules/preempt.cpp', 'if (!lower && !(reclaims && limits.borrows(job))) continue;', '',
     'equals preempt each other'),
    (CORE + 'limits.cpp', 'now + more <= *limit + borrow', 'now + more <= *limit + borrow + 1',
     'quotas are passed by one'),
    (CORE + 'limits.cpp', 'if (limit && accounts[name] + count > *limit)', 'if (false)',
     'an account queues as many jobs as it likes'),
    (CORE + 'limits.cpp', 'at = policy.accounts.find(at->second.parent)', 'at = policy.accounts.end()',
     "a parent's quota does not count"),
    (CORE + 'rules/settle.cpp', 'if (stopped && job.attempt->preempted) return Class::Preempted;', '',
     'being preempted uses up retries'),
    (CORE + 'rules/settle.cpp', 'if (most == 0 || stalled_after(job, outcome) < most) return {};', 'return {};',
     'no progress goes on for ever'),
    (CORE + 'rules/settle.cpp', 'return ++tries.timeouts <= retry.timeout;', 'return true;',
     'a time limit is tried again and again'),
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
    (CORE + 'rules/settle.cpp', 'return tries.infra_failures <= retry.infra;',
     'return tries.infra_failures <= retry.infra + 1;', 'one retry too many'),
    (CORE + 'rules/settle.cpp', '} else if (job.cancel_requested) {', '} else if (false) {',
     'a cancelled job is tried again'),
    (CORE + 'dependency.cpp', 'return ok ? Held::Yes : Held::Never;', 'return Held::Yes;',
     'ok:ID is taken for any:ID'),
    (CORE + 'index.cpp', 'if (exports && !job.export_job)', 'if (exports)', 'exports without end'),
    (CORE + 'rules/lost.cpp', 'if (place.ended ||', 'if (place.ended || place.worker.value % 2 == 0 ||',
     'half of the lost workers are not noticed'),
    (CORE + 'dependency.cpp', 'if (!job->second.export_job) return Held::Not;', '',
     'a chain goes on before the export'),
    (CORE + 'meaning.cpp', 'strictness(*meaning->then) > strictness(*strictest)', 'false',
     'the first meaning counts, not the strictest'),
    (CORE + 'rules/exclude.cpp', 'jobs.size() < 2', 'false', 'one job has a machine left out'),
    (CORE + 'rules/release.cpp', 'if (is_excluded(state, worker)) return false;', '',
     'machines that are left out get jobs'),
    (CORE + 'rules/supply.cpp', 'budget.most = std::min(budget.most, spec.max_jobs);', '',
     'a queue knows no max_jobs'),
    (CORE + 'rules/supply.cpp', 'if (a.used_at + idle > now || is_busy(state, id)) return {};', 'return {};',
     'idle allocations are kept'),
    ('daemon/pilots/desk.cpp', '        if (found == wanted.end() || found->second != row.id)', '        if (false)',
     'what nobody wants is not given back'),
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
                    '-lspdlog', '-lfmt', '-lsqlite3', '-lxxhash', '-lpthread', '-o', program], check=True)
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
    return 0 if len(survivors) * 20 <= len(chosen) else 1


sys.exit(main())
