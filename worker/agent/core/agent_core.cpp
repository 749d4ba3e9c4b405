#include "worker/agent/core/agent_core.hpp"

#include <algorithm>

#include "common/check.hpp"

namespace roll::agent {
namespace {

// While no attempt's bound (SilenceBound in lease.hpp) exceeds kCalm, the beacon is read only once
// per kCalmLooks.
constexpr Millis kCalm{3000};
constexpr Millis kCalmLooks{5000};
constexpr const char* kOrphaned = "rolld did not answer within the time of --orphan-after";

// Adds what the attempt reported about skipped steps to the reason of its success or failure. Does
// not change the reason of a stop.
void add_skipped(Verdict& verdict, const std::string& skipped) {
    if (skipped.empty()) return;
    const bool failed = verdict.outcome == Outcome::App || verdict.outcome == Outcome::Infra ||
                        verdict.outcome == Outcome::Invalid;
    if (verdict.outcome == Outcome::Done && verdict.reason.empty()) verdict.reason = skipped;
    if (failed) verdict.reason += (verdict.reason.empty() ? "" : "; ") + skipped;
}

}  // namespace

std::set<AttemptKey> named_by(const protocol::Answer& answer) {
    std::set<AttemptKey> named(answer.keep.begin(), answer.keep.end());
    for (const auto& order : answer.start) named.insert(order.attempt);
    for (const auto& order : answer.stop) named.insert(order.attempt);
    return named;
}

// Reports an attempt that never started here as ended, because rolld waits for its end.
void AgentCore::refuse_to_start(const AttemptKey& key, Outcome outcome, std::string reason) {
    add_leftover({.attempt = key,
                  .phase = Phase::Ended,
                  .outcome = outcome,
                  .exit_code = 1,
                  .reason = std::move(reason)});
    effects_.push_back(HeartbeatNow{});
}

void AgentCore::add_leftover(protocol::RunningAttempt entry) {
    Attempt attempt;
    attempt.order.attempt = entry.attempt;
    attempt.phase = Phase::Ended;
    attempt.gone = true;
    attempt.verdict = Verdict{entry.outcome, entry.exit_code, entry.reason};
    attempt.matched = std::move(entry.matched);
    attempt.usage = entry.usage;
    if (entry.phase != Phase::Ended)
        attempt.verdict = Verdict{Outcome::Infra, 1, "roll-worker was restarted"};
    for (auto& checkpoint : entry.checkpoints)
        attempt.unrecorded.push_back({std::move(checkpoint), std::nullopt});
    attempt.exported = std::move(entry.exported);
    attempt.exports = std::move(entry.exports);
    attempt.answers = std::move(entry.answers);
    ran_.insert(entry.attempt);
    attempts_[entry.attempt] = std::move(attempt);
}

Attempt* AgentCore::find(const AttemptKey& key) {
    const auto found = attempts_.find(key);
    return found == attempts_.end() ? nullptr : &found->second;
}

// Returns false for an answer that comes from an earlier start of rolld, or that is older than the
// newest answer.
bool AgentCore::accept(const protocol::Answer& answer) {
    if (answer.incarnation < incarnation_ || answer.sequence > self_.sequence) return false;
    if (answer.incarnation > incarnation_) {
        effects_.push_back(Note{"rolld's incarnation is " + std::to_string(answer.incarnation)});
        incarnation_ = answer.incarnation;
        echoed_ = 0;
    }
    const std::uint64_t before = std::exchange(echoed_, std::max(echoed_, answer.sequence));
    return answer.sequence >= before;
}

void AgentCore::on_answer(const protocol::Answer& answer, Instant now) {
    if (!accept(answer)) return;
    beacon_ = answer.beacon;
    trust_.on_answer(answer.incarnation, answer.counter);
    const std::set<AttemptKey> named = named_by(answer);
    renew(answer, named);
    for (const auto& recorded : answer.recorded) note_recorded(recorded);
    for (const AttemptKey& key : answer.fenced) {
        Attempt* const attempt = find(key);
        if (attempt != nullptr) kill(*attempt, StopCause::Fenced, "the attempt is outdated", now);
    }
    for (const auto& order : answer.stop) {
        Attempt* const attempt = find(order.attempt);
        if (attempt != nullptr) {
            stop(*attempt, StopCause::Asked, order.reason, order.checkpoint, now,
                 std::chrono::seconds(order.grace_seconds));
        } else if (!ran_.contains(order.attempt)) {
            refuse_to_start(order.attempt, Outcome::Stopped, order.reason);
        }
    }
    for (const auto& order : answer.save) ask_to_save(order);
    for (const auto& order : answer.tell) pass_on(order);
    for (const auto& order : answer.start) start(order, answer, now);
    forget_ended(answer, named);
    for (auto& [key, attempt] : attempts_) {
        publish(attempt, now);
        const bool fenced = std::ranges::find(answer.fenced, key) != answer.fenced.end();
        if (!attempt.gone || attempt.publishing || (named.contains(key) && !fenced)) continue;
        attempt.staged.clear();  // drop checkpoints that rolld no longer waits for
        conclude(attempt, now);
    }
}

void AgentCore::renew(const protocol::Answer& answer, const std::set<AttemptKey>& named) {
    const auto sent = sent_.find(answer.sequence);
    // Only the first answer to a heartbeat may extend leases. Answers that rolld sends without a
    // heartbeat repeat an old sequence number.
    const bool first = answer.sequence != renewed_ || answer.incarnation != renewed_by_;
    if (sent != sent_.end() && first) {
        renewed_ = answer.sequence;
        renewed_by_ = answer.incarnation;
        heard_ = sent->second;
        for (const AttemptKey& key : named) {
            Attempt* const attempt = find(key);
            if (attempt == nullptr || attempt->phase == Phase::Ended) continue;
            attempt->bound.answered(sent->second, answer.counted, answer.incarnation,
                                    answer.counter, rules_);
            leash(*attempt);
        }
        sent_.erase(sent_.begin(), sent);
    }
    for (auto& [key, attempt] : attempts_) drop_said(attempt, answer.sequence);
}

// Removes the reports of deleted checkpoints that heartbeat `sequence` or an earlier one contained.
// rolld has answered heartbeat `sequence`, so it knows of the deletions.
void AgentCore::drop_said(Attempt& attempt, std::uint64_t sequence) {
    std::erase_if(attempt.unrecorded, [&](const Unrecorded& written) {
        return written.checkpoint.deleted && written.said && *written.said <= sequence;
    });
}

void AgentCore::note_recorded(const protocol::Recorded& recorded) {
    Attempt* const attempt = find(recorded.attempt);
    if (attempt == nullptr) return;
    const std::set<std::int64_t> steps(recorded.steps.begin(), recorded.steps.end());
    const auto before = attempt->unrecorded.size();
    std::erase_if(attempt->unrecorded, [&](const Unrecorded& written) {
        return !written.checkpoint.deleted && steps.contains(written.checkpoint.step);
    });
    bool changed = attempt->unrecorded.size() != before;
    changed |= drop_recorded(*attempt, recorded);
    if (changed) effects_.push_back(Remember{entry_of(*attempt)});
    for (const std::int64_t step : steps) {
        if (attempt->gone || !attempt->told.insert(step).second) continue;
        effects_.push_back(Tell{recorded.attempt, protocol::RecordedStep{step}});
    }
}

void AgentCore::start(const protocol::StartOrder& order, const protocol::Answer& answer,
                      Instant now) {
    const auto sent = sent_.find(answer.sequence);
    if (draining_ || attempts_.contains(order.attempt) || sent == sent_.end()) return;
    const SilenceBound bound(sent->second, answer.counted, answer.incarnation, answer.counter,
                             rules_);
    if (bound.at(now) >= rules_.lease) return;
    if (ran_.contains(order.attempt))
        return refuse_to_start(order.attempt, Outcome::Infra,
                               "the attempt already ran here; rolld's ledger is outdated");
    if (!order.refused.empty())
        return refuse_to_start(order.attempt, Outcome::Infra, order.refused);
    bool free = true;
    for (auto& [key, attempt] : attempts_) {
        if (key.job != order.attempt.job || attempt.gone) continue;
        free = false;
        if (key.token < order.attempt.token)
            kill(attempt, StopCause::Superseded, "a later attempt of the job arrived", now);
    }
    if (!free) return;  // another attempt of the job still runs here; rolld will repeat the order
    ran_.insert(order.attempt);
    Attempt attempt;
    attempt.order = order;
    attempt.bound = bound;
    attempt.ranks.resize(programs_of(order));
    if (attempt.ranked()) {
        attempt.steps.resize(attempt.ranks.size());
        attempt.hang = {std::chrono::seconds(order.hang_after_seconds),
                        start_bound(order.document)};
        attempt.alive = now;
    }
    for (Rank& rank : attempt.ranks) rank.ready = !attempt.ranked();
    effects_.push_back(Remember{entry_of(attempt)});
    effects_.push_back(Start{order, bound.lease_ends(rules_), bound.killed_at(rules_)});
    if (all_ready(attempt)) attempt.phase = Phase::Running;
    attempts_[order.attempt] = std::move(attempt);
    effects_.push_back(HeartbeatSoon{});
}

void AgentCore::forget_ended(const protocol::Answer& answer, const std::set<AttemptKey>& named) {
    std::erase_if(attempts_, [&](const auto& item) {
        const auto& [key, attempt] = item;
        const bool told = attempt.end_said && *attempt.end_said <= answer.sequence;
        if (attempt.phase != Phase::Ended || !told || named.contains(key)) return false;
        effects_.push_back(Forget{key});
        return true;
    });
}

void AgentCore::on_look(const Look& look, Instant now) {
    const bool was_broken = trust_.broken;
    const bool believed = trust_.on_look(look, heard_, rules_);
    if (!believed && !was_broken)
        effects_.push_back(Note{
            "the beacon file is older than rolld's answers and is not used until rolld restarts"});
    // rolld has restarted and has answered nothing yet
    if (believed && look.incarnation > incarnation_) echoed_ = 0;
    if (believed) incarnation_ = std::max(incarnation_, look.incarnation);
    for (auto& [key, attempt] : attempts_) {
        if (attempt.gone) continue;
        believed ? attempt.bound.looked(look, rules_) : attempt.bound.doubted(look, rules_);
        leash(attempt);
        publish(attempt, now);
    }
}

void AgentCore::on_clock(Instant now) {
    for (auto& [key, attempt] : attempts_) {
        if (!attempt.gone)
            check_clock(attempt, now);
        else if (attempt.held_until)
            conclude(attempt, now);
    }
    // Forget heartbeats older than lease + fence: an answer to such a heartbeat extends no lease.
    const Instant useless = now - rules_.lease - rules_.fence;
    while (!sent_.empty() && sent_.begin()->second < useless) sent_.erase(sent_.begin());
}

void AgentCore::check_clock(Attempt& attempt, Instant now) {
    const Millis bound = attempt.bound.at(now);
    if (bound >= rules_.lease)
        stop(
            attempt, StopCause::LeaseLost,
            "no contact with rolld for longer than roll-worker's --lease; rolld may soon start the "
            "job on another node",
            true, now);
    if (bound >= rules_.lease + rules_.fence)
        kill(attempt, StopCause::LeaseLost,
             "no contact with rolld for longer than roll-worker's --lease and --fence together",
             now);
    const bool orphan =
        rules_.orphan_after.count() > 0 && heard_ && now - *heard_ >= rules_.orphan_after;
    if (orphan) stop(attempt, StopCause::Orphaned, kOrphaned, true, now);
    check_steps(attempt, now);
    const bool graceless = attempt.stop && now >= attempt.stop->kill_at;
    const bool settled = attempt.settle_at && now >= *attempt.settle_at;
    const bool failed = attempt.held_until && now >= *attempt.held_until;
    if (graceless || settled || failed) kill_processes(attempt);
}

// Stops an attempt that hangs. This counts as an infra failure, because the cause is not known.
void AgentCore::check_steps(Attempt& attempt, Instant now) {
    if (attempt.stop || attempt.verdict || attempt.kill_sent || attempt.gone) return;
    // Before the first step, only rank 0 reports activity, so only the first node can tell whether
    // the attempt hangs.
    if (attempt.order.node_rank != 0 && !has_stepped(attempt.steps)) return;
    std::string reason = hang_reason(attempt.steps, attempt.hang, attempt.alive, now);
    if (reason.empty()) return;
    reason += first_failure(ending_of(attempt), "; ");
    effects_.push_back(Note{label(attempt.order.attempt) + ": hangs: " + reason});
    effects_.push_back(DumpStacks{attempt.order.attempt});
    attempt.verdict = Verdict{Outcome::Infra, protocol::kExitHung, reason};
    attempt.settle_at = now + stops_.settle;
}

void AgentCore::stop(Attempt& attempt, StopCause cause, std::string reason, bool checkpoint,
                     Instant now, Millis grace) {
    if (attempt.gone) return;
    const bool harder = attempt.stop && attempt.stop->checkpoint && !checkpoint;
    if (attempt.stop && !harder) return;
    if (seems_hung(attempt, now)) effects_.push_back(DumpStacks{attempt.order.attempt});
    const Millis known =
        grace.count() > 0 ? std::max(grace, stops_.grace) : stops_.checkpoint_grace;
    const Instant kill_at = now + (checkpoint ? known : stops_.grace);
    effects_.push_back(Note{label(attempt.order.attempt) + ": stops: " + reason});
    attempt.stop = StopRequest{cause, std::move(reason), checkpoint, kill_at};
    attempt.phase = Phase::Stopping;
    effects_.push_back(Tell{attempt.order.attempt, protocol::StopAtStep{checkpoint}});
    effects_.push_back(Terminate{attempt.order.attempt});
    effects_.push_back(HeartbeatNow{});
}

void AgentCore::kill(Attempt& attempt, StopCause cause, std::string reason, Instant now) {
    if (attempt.gone) return;
    if (!attempt.stop || cause == StopCause::Fenced)
        attempt.stop = StopRequest{cause, std::move(reason), false, now};
    attempt.phase = Phase::Stopping;
    kill_processes(attempt);
}

void AgentCore::kill_processes(Attempt& attempt) {
    if (attempt.kill_sent) return;
    attempt.kill_sent = true;
    effects_.push_back(Kill{attempt.order.attempt});
    effects_.push_back(Note{label(attempt.order.attempt) + ": killed"});
}

void AgentCore::on_exit(const AttemptKey& key, int rank, ExitStatus exit, Instant now) {
    Attempt* const attempt = find(key);
    if (attempt == nullptr || rank < 0 || rank >= static_cast<int>(attempt->ranks.size())) return;
    if (attempt->ranks[rank].exit) return;
    attempt->ranks[rank].exit = exit;
    if (attempt->stop || attempt->first_failed || attempt->kill_sent) return;
    if (failed_by_itself(exit, attempt->command())) {
        attempt->first_failed = rank;
        if (attempt->command())
            attempt->held_until = now + stops_.hold;
        else
            kill_processes(*attempt);
    } else if (exit.number == protocol::kExitPeerLost && !attempt->settle_at) {
        attempt->settle_at = now + stops_.settle;
    }
}

void AgentCore::on_leash(const AttemptKey& key, Instant now) {
    Attempt* const attempt = find(key);
    if (attempt == nullptr) return;
    kill(*attempt, StopCause::LeaseLost,
         "no contact with rolld in time, or roll-worker was suspended", now);
}

void AgentCore::on_start_failed(const AttemptKey& key, Verdict verdict) {
    Attempt* const attempt = find(key);
    if (attempt != nullptr && !attempt->verdict) attempt->verdict = std::move(verdict);
}

void AgentCore::on_matched(const AttemptKey& key, std::vector<int> patterns) {
    if (Attempt* const attempt = find(key)) attempt->matched = std::move(patterns);
}

void AgentCore::on_gone(const AttemptKey& key, Instant now) {
    Attempt* const attempt = find(key);
    if (attempt == nullptr || attempt->gone) return;
    attempt->gone = true;
    attempt->phase = Phase::Stopping;
    conclude(*attempt, now);
}

// Ends an attempt once its staged checkpoints have their final names, because rolld forgets an
// attempt that has ended. If rolld cannot be reached, the renames wait for rolld's next answer.
void AgentCore::conclude(Attempt& attempt, Instant now) {
    if (attempt.phase == Phase::Ended) return;
    if (attempt.held_until && now < *attempt.held_until) return;
    publish(attempt, now);
    const bool fenced = attempt.stop && attempt.stop->cause == StopCause::Fenced;
    if (attempt.publishing || (!attempt.staged.empty() && !fenced)) return;
    if (!attempt.verdict) attempt.verdict = judge(ending_of(attempt));
    add_skipped(*attempt.verdict, attempt.skipped);
    attempt.phase = Phase::Ended;
    effects_.push_back(
        Note{label(attempt.order.attempt) + ": " + name_of(attempt.verdict->outcome) +
             (attempt.verdict->reason.empty() ? "" : ": ") + attempt.verdict->reason});
    effects_.push_back(Remember{entry_of(attempt)});
    effects_.push_back(HeartbeatNow{});
}

void AgentCore::on_drain(Instant now) {
    draining_ = true;
    self_.draining = true;
    effects_.push_back(HeartbeatNow{});
    for (auto& [key, attempt] : attempts_) {
        const std::string reason = "roll-worker was asked to end";
        const bool excused = attempt.held_until && now < *attempt.held_until && !attempt.stop;
        if (excused) {
            attempt.first_failed.reset();
            attempt.held_until.reset();
        }
        if (excused && attempt.gone) {
            attempt.stop = StopRequest{StopCause::Draining, reason, true, now};
            conclude(attempt, now);
        }
        stop(attempt, StopCause::Draining, reason, true, now);
    }
}

void AgentCore::leash(const Attempt& attempt) {
    effects_.push_back(SetLeash{attempt.order.attempt, attempt.bound.lease_ends(rules_),
                                attempt.bound.killed_at(rules_)});
}

// Returns true if every attempt still has its lease, that is, if every bound is below the lease
// time. Ignores fenced and superseded attempts, which must not affect the leases of the other
// attempts.
bool AgentCore::renewing(Instant now) const {
    return std::ranges::all_of(attempts_, [&](const auto& item) {
        const Attempt& attempt = item.second;
        const bool disowned = attempt.stop && (attempt.stop->cause == StopCause::Fenced ||
                                               attempt.stop->cause == StopCause::Superseded);
        return attempt.gone || disowned || attempt.bound.at(now) < rules_.lease;
    });
}

protocol::Heartbeat AgentCore::heartbeat(Instant now) {
    ++self_.sequence;
    sent_[self_.sequence] = now;
    if (draining_ && !drain_said_) drain_said_ = self_.sequence;
    self_.bound_below_lease = renewing(now);
    self_.heard_recently = heard_ && now - *heard_ <= rules_.contact;
    self_.running.clear();
    for (auto& [key, attempt] : attempts_) {
        for (Unrecorded& written : attempt.unrecorded)
            if (!written.said) written.said = self_.sequence;
        if (attempt.phase == Phase::Ended && !attempt.end_said) attempt.end_said = self_.sequence;
        self_.running.push_back(entry_of(attempt));
    }
    return self_;
}

std::string AgentCore::look_due(Instant now) {
    Millis highest{-1};
    for (const auto& [key, attempt] : attempts_)
        if (!attempt.gone) highest = std::max(highest, attempt.bound.at(now));
    if (beacon_.empty() || highest.count() < 0) return {};
    if (now - looked_ < (highest > kCalm ? rules_.tick : kCalmLooks)) return {};
    looked_ = now;
    return beacon_;
}

Millis AgentCore::hold_left(Instant now) const {
    Millis left = Millis::max();
    for (const auto& [key, attempt] : attempts_)
        if (attempt.held_until && now < *attempt.held_until)
            left = std::min(left, *attempt.held_until - now);
    return left;
}

bool AgentCore::idle() const {
    return std::ranges::all_of(attempts_, [](const auto& item) { return item.second.gone; });
}

bool AgentCore::settled(Instant now) const {
    if (!attempts_.empty()) return false;
    const bool hears = heard_ && now - *heard_ <= rules_.contact;
    return !draining_ || !hears || (drain_said_ && echoed_ >= *drain_said_);
}

}  // namespace roll::agent
