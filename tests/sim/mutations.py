"""Does the simulator notice? Breaks what it runs in one place at a time and requires that worlds fail.

mutations.py --root DIR --build DIR --compiler CXX --worlds N --objects A;B --libraries A;B
Each mutation replaces one text in one file of a copy; only that file's unit is compiled anew and linked before the
library, as many at a time as there are cores. Compiling is most of the time: so there is no optimization, CXX is
clang++ where there is one (a third of g++'s time), and a precompiled header holds all that the mutated files include,
templates instantiated (half of clang++'s time). Exit 0: at least 19 of 20 are killed.
ROLL_TEST_SHARES=N in the environment tries one N-th of the mutations.
"""
import argparse
import concurrent.futures
import os
import pathlib
import re
import subprocess
import sys
import tempfile

from units import write_changed

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1]))
from shares import share  # noqa: E402

# file below daemon/, or from the top: (text, replacement, what it breaks)
MUTATIONS = {
    'core/decide/worker.cpp': [
        ('found != known->end() && found + 1 != known->end()', 'false', 'a replaced roll-worker comes back'),
        ('if (!job.spec.trains()) continue;', '', "any job is given up on Slurm's word"),
    ],
    'core/decide/submit.cpp': [
        ('return repeated(s, in, *known);',
         'if (in.user == "") return repeated(s, in, *known);', 'a repeated key queues another job'),
        ('after.array = job->array == after.job;', 'after.array = false;',
         "an array's first job does not stand for all"),
    ],
    'core/decide/attempt.cpp': [
        ('place == nullptr || place->ended) return Events{};',
         'place == nullptr) return Events{};', 'a member ends twice'),
    ],
    'core/decide/find.cpp': [
        ('job->attempt->token == key.token', 'true', 'stale tokens are believed'),
    ],
    'core/apply/job.cpp': [
        ('job.due = due_at(job) <= job.past.back().ended_at;', 'job.due = true;', 'no back-off'),
        ('job.array = e.array;\n    job.due = due_at(job) <= e.at;', 'job.array = e.array;', 'no begin time'),
    ],
    'core/apply/attempt.cpp': [
        ('if (now <= known) return;', 'if (attempt.outcome) return;', 'the first bad end decides, whatever it was'),
        ('job.attempts = e.attempt.token.attempt;', '', 'attempt numbers do not grow'),
        ('place.up = place.ended = place.spare;', '', 'spares are waited for'),
    ],
    'core/actions.cpp': [
        ('if (place.up || state.adopting) return',
         'if (phase == AttemptPhase::Running) return', 'a member is not told to keep what it runs'),
        ('if (place.up || state.adopting) return', 'if (place.up) return',
         'who took over sends an owed start again'),
        ('if (phase == AttemptPhase::Stopping)', 'if (false)', 'nothing is ever stopped'),
    ],
    'core/wakeup.cpp': [
        ('if (!index.sleeping.empty()) earliest', 'if (false) earliest', 'nobody wakes up when a back-off ends'),
        ('if (deadline != index.deadlines.end()) earliest', 'if (false) earliest', 'nobody wakes up at a deadline'),
    ],
    'core/apply/indexing.cpp': [
        ('&& held == Held::Yes;', '&& held != Held::Never;', 'dependencies do not hold back'),
        ('file_anew(state, waiting.mapped());', '{}', 'who waited for a job is forgotten'),
        ('if (all.left == 0 || all.failed > 0)', 'if (all.left == 0)', 'who waits for an array learns of no failure'),
        ('file_anew(state, std::exchange(all.waiting, {}));', '{}', 'who waited for an array is forgotten'),
        ('if (job.spec.deadline) index.deadlines.insert', 'if (false) index.deadlines.insert', 'no deadlines'),
        ('if (exports && !job.export_job)', 'if (exports)', 'exports without end'),
    ],
    'core/placement/capacity.cpp': [
        ('free -= place.gpu_percent;', '', 'GPUs are given twice'),
        ('free.memory >= wanted.memory && ', '', 'memory is given twice'),
        ('return state.workers.at(item.first).quiet;', 'return false;', 'silent workers get jobs'),
    ],
    'core/facts/lookups.cpp': [
        ('if (exports && source->second.spec.array)', 'if (false)', 'the exports of an array are not waited for'),
    ],
    'core/placement/find_places.cpp': [
        ('places.back().spare = std::ssize(places) > wanted.nodes;', '', 'spares are members'),
    ],
    'core/facts/availability.cpp': [
        (' || a->second.closed', '', 'jobs start in closed allocations'),
        ('if (worker.draining) return false;', '', 'draining workers get jobs'),
        ('if (!excluded && is_excluded(state, worker)) return false;', '', 'machines that are left out get jobs'),
    ],
    'core/rules/place.cpp': [
        ('if (state.adopting || ', 'if (', 'who took over places jobs at once'),
        ('if (!state_.policy.backfill) break;', '', 'backfill cannot be turned off'),
        ('auto places = first_ ? ', 'auto places = false ? ', 'narrow jobs overtake a wide one'),
        ('return !find_places(job.spec.shape(shape), all).empty();', 'return true;',
         'a job that can never run is the one with the reservation'),
        ('for (const int shape : shapes) {', 'for (const int shape : {shapes.empty() ? 0 : shapes[0]}) {',
         'only the first variant is tried'),
        ('return Choice{shape, std::move(places)};', 'return Choice{0, std::move(places)};',
         'an attempt forgets its variant'),
    ],
    'core/placement/reservation.cpp': [
        ('now + later.time + kBackfillSlack <= *at_', 'true', 'backfilled jobs may take as long as they like'),
        ('if (!at_) return true;',
         'if (!at_) return false;', 'a job behind others without limits has no reservation'),
        ('if (!fits_beside) places.clear();', '', 'backfill counts no loss'),
    ],
    'core/placement/queue.cpp': [
        ('cursor->oldest != line.by_age.end() && starves(cursor->oldest->first)', 'false', 'who starves is left out'),
        ('limits_.would_borrow(job), -std::int64_t{priority}',
         'limits_.would_borrow(job), std::int64_t{priority}', 'priorities are upside down'),
    ],
    'core/rules/preempt.cpp': [
        ('if (*attempt.started_at + state.policy.min_run <= now)', '', 'preemption knows no min_run'),
        ('if (!lower && !(reclaims && limits.borrows(job))) continue;', '', 'equals preempt each other'),
    ],
    'core/placement/limits.cpp': [
        ('if (now + more <= limit)', 'if (now + more <= limit + 100)', 'quotas are passed by one'),
        ('if (!late && !limits.excess(job, wanted))', 'if (!late)', 'arrays and quotas know no limit'),
        ('if (limit && accounts[name] + count > *limit)', 'if (false)', 'an account queues as many jobs as it likes'),
        ('at = policy.accounts.find(at->second.parent)',
         'at = policy.accounts.end()', "a parent's quota does not count"),
    ],
    'core/placement/gpu_affinity.cpp': [
        ('if (left >= percent &&', 'if (left > 0 &&', 'parts of GPUs are given that are not there'),
    ],
    'core/placement/segments.cpp': [
        ('workers->size() / size * size', 'workers->size()', 'blocks of nodes span segments'),
        ('if (use && !one.segment.empty())', 'if (use)', 'no segment counts as one'),
        ('near.begin() + spares', 'near.begin() + spares - 1', 'a gang lacks a spare'),
    ],
    'core/placement/spares.cpp': [
        ('outcome != Outcome::Infra', 'false', 'spares are used whatever the end'),
        ('others.add(job, wanted, -1);', 'return {};', 'spares are never used'),
    ],
    'core/rules/settle.cpp': [
        ('if (stopped && job.attempt->preempted) return Class::Preempted;', '', 'being preempted uses up retries'),
        ('if (most == 0 || stalled_after(job, outcome) < most) return {};',
         'return {};', 'no progress goes on for ever'),
        ('return ++tries.timeouts <= retry.timeout;', 'return true;', 'a time limit is tried again and again'),
        ('std::ranges::all_of', 'std::ranges::any_of', 'an attempt ends with its first member'),
        ('return tries.infra_failures <= retry.infra;',
         'return tries.infra_failures <= retry.infra + 1;', 'one retry too many'),
        ('} else if (job.cancel_requested) {', '} else if (false) {', 'a cancelled job is tried again'),
    ],
    'core/allocation/allocations.cpp': [
        ('found->second = std::min(found->second, by);', 'static_cast<void>(by);',
         'an allocation leaves no time for slow saves'),
    ],
    'core/rules/close.cpp': [
        ('if (at->second.stopped_by_halving()) continue;', '', 'a trial that halving stopped fails its group'),
        ('if (!state.index.inside.contains(id))', '', 'a closed job does not wait for its jobs'),
        ('bad += at->second.phase == JobPhase::Done ? 0 : 1;', '', 'a closed job hides how its jobs ended'),
    ],
    'core/rules/wake.cpp': [
        ('if (at > now) break;', '', 'back-offs end at once'),
    ],
    'core/rules/hopeless.cpp': [
        ('if (task == id && state_.jobs.at(id).halved) continue;', '',
         'who waits for a sweep ends with a halved trial'),
        ('if (at >= now) break;', 'break;', 'queued jobs outlive their deadline'),
    ],
    'core/rules/stop.cpp': [
        ('*job.spec.deadline < now', 'false', 'running jobs outlive their deadline'),
        ('if (attempt.outcome)', 'if (false)', 'a broken gang is not stopped'),
        ('if (limit.count() > 0 && since + limit <= now) return kTimeIsUp;', '', 'no time limit'),
    ],
    'core/facts/dependency.cpp': [
        ('if (job.stopped_by_halving()) return Held::Yes;', '', 'a trial that halving stopped fails its sweep'),
        ('return ok ? Held::Yes : Held::Never;', 'return Held::Yes;', 'ok:ID is taken for any:ID'),
        ('if (!job->second.export_job) return Held::Not;', '', 'a chain goes on before the export'),
    ],
    'core/rules/lost.cpp': [
        ('if (place.ended ||',
         'if (place.ended || place.worker.value % 2 == 0 ||', 'half of the lost workers are not noticed'),
    ],
    'core/rules/cron.cpp': [
        ('!is_open(state, job.cron_last)', 'true', 'cron jobs pile up'),
    ],
    'core/facts/save_margin.cpp': [
        ('limit - std::min(save_margin(save_ms), limit / 4)', 'limit', 'a time limit leaves no time to save'),
    ],
    'core/facts/machines.cpp': [
        ('jobs.size() < 2', 'false', 'one job has a machine left out'),
    ],
    'core/rules/supply.cpp': [
        ('if (a.used_at + idle > now || held) return {};', 'return {};', 'idle allocations are kept'),
    ],
    'core/allocation/planner.cpp': [
        ('if (a.releasing || a.closed) continue;', 'if (a.releasing) continue;', 'closed allocations are counted on'),
        ('if (planner.worthwhile(quotas)) return planner;', 'return planner;', 'a queue knows no min_utilization'),
        ('std::min(count, budget.orders)', 'count', 'a queue orders more than it may'),
        ('return node.slots >= wanted.slots_per_node &&', 'return', 'a planned node holds any job'),
    ],
    'core/allocation/budget.cpp': [
        ('most = std::min(most, spec.max_jobs);', '', 'a queue knows no max_jobs'),
    ],
    'pilots/desk.cpp': [
        ('        if (found == wanted.end() || found->second != row.id)',
         '        if (false)', 'what nobody wants is not given back'),
        ('if (nodes.empty()) return std::nullopt;', 'return std::nullopt;', 'nobody asks about nodes'),
    ],
    'engine/engine.cpp': [
        ('state_ = *durable_;', '', 'a turn that was not written stays'),
    ],
    'gateway/sessions.cpp': [
        ('soon ? rules.missing_grace : rules.start_on_its_way', 'std::chrono::milliseconds(0)',
         'a start order that is on its way is forgotten'),
        ('if (renews || fresh) session.renewed = now;', 'if (fresh) session.renewed = now;',
         'who was heard once is silent'),
    ],
    'dispatch/dispatch.cpp': [
        ('if (!current && entry.phase != protocol::Phase::Ended)', 'if (false)', 'nobody is told FENCED'),
        ('if (news || recorded.export_step > 0)', 'if (false)',
         'nobody is told what is recorded'),
    ],
    'common/protocol/worker.cpp': [
        ('v("stop", a.stop);', 'if (!V::kReads) v("stop", a.stop);', 'orders to stop get lost on the wire'),
        ('v("steps", r.steps);', 'if (!V::kReads) v("steps", r.steps);', 'recorded steps get lost on the wire'),
        ('v("counted", a.counted);', 'if (!V::kReads) v("counted", a.counted);',
         'the silence that was counted gets lost on the wire'),
    ],
    'worker/agent/core/agent_core.cpp': [
        ('if (draining_ || attempts_.contains(order.attempt) ||', 'if (draining_ ||',
         'an attempt starts twice on a node'),
        ('return refuse_to_start(order.attempt, Outcome::Infra,\n',
         'return; refuse_to_start(order.attempt, Outcome::Infra,\n',
         'a start of what has ended is not answered'),
        ('if (attempt != nullptr) kill(*attempt, StopCause::Fenced,',
         'if (false) kill(*attempt, StopCause::Fenced,', 'FENCED is not obeyed'),
        ('attempt->bound.answered(', 'if (false) attempt->bound.answered(', 'answers lower no bound'),
    ],
    'worker/agent/core/lease.cpp': [
        ('silent_since_ = std::max(silent_since_, answer.silent_since_);', 'silent_since_ = sent + rules.lease;',
         'an answer lowers the bound too far'),
        ('silent_since_ = std::min(silent_since_, look.ended - ticks * rules.tick);', '',
         'a clock that stood still is believed'),
    ],
    'ledger/ledger.cpp': [
        ('"PRAGMA synchronous=FULL"', '"PRAGMA synchronous=OFF"', 'commits are not synced'),
        ('if (execute(impl->database.get(), "PRAGMA wal_checkpoint")) ', '', 'the mark names what is not synced'),
        ('ROLL_TRY_VOID(step_once(commit.get()));', 'head = next; ROLL_TRY_VOID(step_once(commit.get()));',
         'a commit that failed is taken for the newest'),
    ],
    'ledger/chain.cpp': [
        ('if (head.hash != stored)', 'if (false)', 'bits that turned are served'),
        ('if (mark_found) return head;', 'return head;', 'what a WAL lost is not missed'),
    ],
}


def flags_of(options):
    clang = ['-fpch-instantiate-templates'] if 'clang' in options.compiler else []
    return ['-std=c++20', '-O0', '-w', '-I', options.root, '-I', os.path.join(options.build, 'generated'),
            '-DROLL_VERSION="mutant"', '-DFMT_SHARED', '-DSPDLOG_COMPILED_LIB', '-DSPDLOG_FMT_EXTERNAL',
            '-DSPDLOG_SHARED_LIB', *clang]


def text_of(options, file_name):
    path = file_name if file_name.startswith(('common/', 'worker/')) else os.path.join('daemon', file_name)
    with open(os.path.join(options.root, path), encoding='utf-8') as file:
        return path, file.read()


def precompile(options, folder):
    """The header that each mutant begins with: all that the mutated files include."""
    texts = [text_of(options, file_name)[1] for file_name in MUTATIONS]
    header = os.path.join(folder, 'all.hpp')
    with open(header, 'w', encoding='utf-8') as file:
        for line in sorted({line for text in texts for line in text.splitlines() if line.startswith('#include')}):
            file.write(line + '\n')
    subprocess.run([options.compiler, *flags_of(options), '-x', 'c++-header', header, '-o', header + '.gch'],
                   check=True)
    return header


def build(options, header, file_name, mutation, folder):
    old, new, _ = mutation
    path, text = text_of(options, file_name)
    if text.count(old) != 1:
        sys.exit(f'{path} holds {text.count(old)} times: {old}')
    source = write_changed(options.build, os.path.join(options.root, path), text.replace(old, new), folder)
    program = os.path.join(folder, 'sim')
    subprocess.run([options.compiler, *flags_of(options), '-include', header, '-c', source, '-o', source + '.o'],
                   check=True)
    subprocess.run([options.compiler, '-fuse-ld=mold', *options.objects.split(';'), source + '.o',
                    *options.libraries.split(';'), '-lspdlog', '-lfmt', '-lsqlite3', '-lxxhash', '-lsodium', '-lzmq',
                    '-ldl', '-lpthread', '-o', program], check=True)
    return program


# The first worlds in which the mutants that survive longest fail. Every mutant starts with them: that saves more than
# half of the time. They may be out of date without harm, because all other worlds follow.
RARE = [114, 174, 188, 495, 1072, 332, 124, 134, 183, 224, 34, 36, 58]


def killed(program, worlds):
    """Returns how a world of `program` failed, or None. A process runs one rare world or a hundred others."""
    ranges = [(world, world) for world in RARE if world <= worlds]
    ranges += [(first, min(first + 99, worlds)) for first in range(1, worlds + 1, 100)]
    for first, last in ranges:
        try:
            done = subprocess.run([program, f'--worlds={first}-{last}'], capture_output=True, text=True, timeout=120,
                                  check=False)
        except subprocess.TimeoutExpired:
            return f'it hangs between {first} and {last}'
        if done.returncode != 0:
            return done.stderr.strip().replace('\n', '; ') or f'it ends with {done.returncode}'
    return None


def judge(options, header, file_name, mutation):
    """How worlds of the mutant failed; None: it survives."""
    with tempfile.TemporaryDirectory(prefix='roll-mutation-') as folder:
        return killed(build(options, header, file_name, mutation, folder), options.worlds)


def main():
    parser = argparse.ArgumentParser()
    for name in ('root', 'build', 'compiler', 'objects', 'libraries'):
        parser.add_argument('--' + name, required=True)
    parser.add_argument('--worlds', type=int, required=True)
    parser.add_argument('--only', default='', help='only mutations whose description holds this pattern')
    options = parser.parse_args()
    chosen = share((file, mutation) for file, mutations in MUTATIONS.items() for mutation in mutations
                   if re.search(options.only, mutation[2]))
    fails_already = killed(os.path.join(options.build, 'bin', 'sim_test'), 100)
    if fails_already:
        sys.exit(f'worlds of the unbroken core fail already, so nothing can be said of broken ones: {fails_already}')
    survivors = 0
    with (tempfile.TemporaryDirectory(prefix='roll-mutations-') as common,
          concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool):
        header = precompile(options, common)
        verdicts = pool.map(lambda one: judge(options, header, *one), chosen)
        for (_, mutation), verdict in zip(chosen, verdicts):
            print(f'{mutation[2]}: {verdict or "SURVIVES"}', flush=True)
            survivors += verdict is None
    print(f'{len(chosen) - survivors} of {len(chosen)} mutations killed')
    return 0 if survivors * 20 <= len(chosen) else 1


sys.exit(main())
