#!/usr/bin/env python3
"""Breaks each rule of docs/leases.md by hand and requires that the test which it names fails.

    tests/daemon/lease_mutations.py [--build build/release] [--only RULE]

Compiles one changed file with the build's own command, links it before the library into the test's program, and
runs the tests that are named; their programs must have been built. Exit 0: every mutant is killed. Takes minutes, so
it is run by hand.
"""
import argparse
import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / 'tests' / 'sim'))
from units import unit_of, write_changed  # noqa: E402

SESSIONS, CORE, LEASE = 'daemon/gateway/sessions.cpp', 'worker/agent/core/agent_core.cpp', 'worker/agent/core/lease.cpp'
WRITER, TAKE_OVER = 'daemon/gateway/beacon_writer.cpp', 'daemon/server/take_over.cpp'

# (rule, file, text, replacement, program, tests); those of rolld itself are rolld_tests's
MUTANTS = [
    (1, WRITER, 'if (superseded_ || !io::write_beacon(path_, record)) return;',
     'static_cast<void>(io::write_beacon(path_, record));',
     'gateway_tests', 'BeaconWriter.CountsNoBeatThatItCouldNotWrite'),
    (1, 'daemon/server/server.cpp', '    auto turned = step();\n',
     '    if (drained && sessions_.has_company(steady_now())) beacon_.beat();\n    auto turned = step();\n',
     'rolld', 'Beats.ComeAfterTheCommitOfTheirTurn'),
    (2, 'common/io/beacon.cpp', 'static_cast<off_t>(beacon_offset(beacon.counter))', 'off_t{0}',
     'io_tests', 'BeaconFile.TornWriteLeavesTheOtherRecord'),
    (3, 'daemon/core/decide/find.cpp', 'job->attempt->token == key.token',
     'job->attempt->token.attempt == key.token.attempt', 'core_test', '*'),
    (4, SESSIONS, 'if (published - since < limit) continue;', 'if (published - since <= limit) continue;',
     'gateway_tests', 'Sessions.AWorkerIsLostAtThirtyFiveBeats*'),
    (4, SESSIONS, 'unheard_since_.try_emplace(id, published).first->second', 'published - 35',
     'gateway_tests', 'Sessions.AfterAStartSilenceCountsFromZero'),
    (5, SESSIONS, 'const bool renews = session.last.bound_below_lease ||', 'const bool renews = true ||',
     'gateway_tests', 'Sessions.AHeartbeatFromADeafWorker*'),
    (5, SESSIONS, '|| !worker || !core::is_busy(state, *worker);', '|| !worker;',
     'gateway_tests', 'Sessions.ADeafWorkerWithoutAnAttemptRenews'),
    (6, 'daemon/dispatch/dispatch.cpp', 'if (!current && entry.phase != protocol::Phase::Ended)', 'if (false)',
     'dispatch_tests', '*'),
    (7, SESSIONS, 'session.last.heard_recently && ', '', 'gateway_tests', 'Sessions.ThereIsCompanyOnly*'),
    (7, SESSIONS, 'if (refused_heard_at_ &&', 'if (false && refused_heard_at_ &&', 'gateway_tests', '*ThatWaits*'),
    (8, SESSIONS, '2 * beat + beat / 2', '200 * beat', 'gateway_tests', 'Sessions.NothingIsPlacedOnAWorker*'),
    (9, LEASE, 'silent_since_(sent - counted * rules.tick)', 'silent_since_(sent)', 'agent_core_tests', 'Bound.*'),
    (9, CORE, 'named = named_by(answer);',
     'named = [&] { std::set<AttemptKey> all; for (auto& a : attempts_) all.insert(a.first); return all; }();',
     'agent_core_tests', '*AnswersThatDoNotNameIt*'),
    (10, LEASE, 'if (look.incarnation < incarnation_) return;\n    const bool newer', 'const bool newer',
     'agent_core_tests', 'Bound.AnOlderIncarnation*'),
    (10, LEASE, 'counter_ = 0;', '', 'agent_core_tests', 'Bound.ANewerIncarnation*'),
    (10, LEASE, '    silent_since_ = std::min(silent_since_, look.ended - ticks * rules.tick);\n', '',
     'agent_core_tests', 'Bound.MoreBeatsThanThisClockSaw*'),
    (11, CORE, 'believed = trust_.on_look(look, heard_, rules_);', 'believed = true;',
     'agent_core_tests', '*ABeaconThatGoesBack*'),
    (12, CORE, 'if (bound >= rules_.lease)\n', 'if (false)\n', 'agent_core_tests', '*AtTheLeaseItStops*'),
    (12, CORE, 'if (bound >= rules_.lease + rules_.fence)\n', 'if (false)\n',
     'agent_core_tests', '*AtTheLeaseItStops*'),
    (12, CORE, 'if (orphan) stop', 'if (false) stop', 'agent_core_tests', '*AnOrphanStops*'),
    (13, 'worker/agent/process/guard.cpp', 'boot_now() >= leash_.killed_at()', 'false', 'supervisor_test',
     'SupervisorTest.TheGuardKillsWhenTheLeashRunsOut'),
    (14, CORE, '    ran_.insert(entry.attempt);\n', '', 'agent_core_tests', '*ALeftoverIsReportedEnded*'),
    (15, CORE, 'if (bound.at(now) >= rules_.lease) return;', '', 'agent_core_tests', '*AStartThatWasHeldUp*'),
    (15, CORE, 'if (ran_.contains(order.attempt))\n', 'if (false)\n', 'agent_core_tests', '*NeverStartsAToken*'),
    (15, CORE, 'answer.incarnation < incarnation_ ||', 'false ||', 'agent_core_tests', '*AnOlderRolldIsNotObeyed*'),
    (16, 'daemon/core/decide/find.cpp', 'job->attempt->token == key.token', 'true', 'core_test', '*'),
    (17, 'daemon/ledger/lock.cpp', '::flock(lock.fd_, LOCK_EX | LOCK_NB) != 0', 'false', 'ledger_tests',
     'Ledger.IsServedByOneProcess*'),
    (17, TAKE_OVER, 'if (!again || *again != *seen) {', 'if (!again) {', 'rolld',
     'Rolld.ABeaconThatGrowsElsewhere*'),
    (17, TAKE_OVER, 'old = !interrupted && seen->incarnation > state.incarnation;', 'old = false;', 'rolld',
     'Rolld.ALedgerOlderThanItsBeacon*'),
    (17, TAKE_OVER, 'std::max(seen->incarnation, state.incarnation) + 1', 'state.incarnation + 1',
     'rolld', 'Rolld.ABeaconThatStandsStillElsewhere*'),
    (18, WRITER, 'superseded_ = true;', '{}', 'gateway_tests', 'BeaconWriter.*Newer*'),
    (18, 'daemon/server/server.cpp', 'beacon_.look_again();', '', 'rolld', 'Rolld.SaysNothingMoreAfter*'),
    (18, 'daemon/server/server.cpp', 'if (lost_volume()) return;', '', 'rolld', 'Rolld.EndsWhenItCannotRead*'),
    (18, WRITER, 'if (there || there.error().code == ErrorCode::NotFound) read_at_', 'read_at_', 'gateway_tests',
     'BeaconWriter.KnowsForHowLong*'),
    (19, SESSIONS, 'rules.lost_after_beats + patience', 'rules.lost_after_beats', 'gateway_tests',
     'Sessions.ATakeOverWaits*'),
    (19, TAKE_OVER, 'patience = std::max(patience, ', 'std::max(patience, ', 'rolld',
     'Rolld.ATakeOverMinds*'),
    (19, 'daemon/core/actions.cpp', 'if (place.up || state.adopting) return', 'if (place.up) return',
     'core_test', '*'),
    (19, 'daemon/core/rules/place.cpp', 'if (state.adopting || ', 'if (', 'gateway_tests', 'Sessions.AfterATakeOver*'),
]


def commands(build, target):
    out = subprocess.run(['ninja', '-t', 'commands', target], cwd=build, capture_output=True, text=True, check=True)
    return out.stdout.splitlines()


def mutant(build, file, text, replacement, program, folder):
    source = (ROOT / file).read_text(encoding='utf-8')
    if source.count(text) != 1:
        sys.exit(f'{file} holds {source.count(text)} times: {text}')
    changed = write_changed(build, ROOT / file, source.replace(text, replacement), folder)
    all_commands = commands(build, f'bin/{program}')
    compile_it = next(c for c in all_commands if c.endswith(f' -c {unit_of(build, ROOT / file)}'))
    compiled = folder / 'changed.o'
    words = [w for w in shlex.split(compile_it) if w not in ('-Werror', 'ccache')]
    words[words.index('-o') + 1] = str(compiled)
    words[-1] = changed
    subprocess.run(words + ['-w'], cwd=build, check=True)
    link = re.sub(r'^: && | && :$', '', all_commands[-1])
    link = re.sub(r' -o \S+ ', f' -o {folder}/mutant {compiled} ', link)
    subprocess.run(link, shell=True, cwd=build, check=True)
    return folder / 'mutant'


def judge(command, broken):
    """The test that failed, or how else the mutant showed; a rolld that goes on where it should end is waited for."""
    try:
        run = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False,
                             env={**os.environ, 'ROLL_TEST_ROLLD': str(broken)})
    except subprocess.TimeoutExpired:
        return 'killed: its test does not end'
    failed = re.findall(r'\[  FAILED  \] (\S+)', run.stdout)
    killed = run.returncode != 0 and bool(re.search(r'Running [1-9]', run.stdout))
    return failed[0] if failed else 'killed' if killed else 'SURVIVES'


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--build', type=pathlib.Path, default=ROOT / 'build/release')
    parser.add_argument('--only', type=int, default=0)
    options = parser.parse_args()
    survivors = 0
    for rule, file, text, replacement, program, tests in MUTANTS:
        if options.only not in (0, rule):
            continue
        with tempfile.TemporaryDirectory(prefix='roll-lease-') as folder:
            broken = mutant(options.build, file, text, replacement, program, pathlib.Path(folder))
            test = options.build / 'bin/rolld_tests' if program == 'rolld' else broken
            verdict = judge([test, f'--gtest_filter={tests}'], broken)
        survivors += verdict == 'SURVIVES'
        print(f'rule {rule}: {text.strip()[:60]}: {verdict}', flush=True)
    print(f'{survivors} survive')
    return 1 if survivors else 0


sys.exit(main())
