#include "daemon/gateway/sessions.hpp"

#include <algorithm>
#include <utility>

#include "common/number.hpp"
#include "common/outcome.hpp"
#include "daemon/core/decide/decide.hpp"
#include "daemon/core/facts/lookups.hpp"

namespace roll::gateway {

std::uint64_t beats_to_adopt(const LeaseRules& rules) {
    constexpr std::chrono::seconds kBeat{1};  // minimum time between two ticks
    const auto patience = std::chrono::ceil<std::chrono::seconds>(rules.volume_patience) / kBeat;
    return static_cast<std::uint64_t>(rules.lost_after_beats + patience);
}

namespace {

using Inputs = std::vector<core::Input>;

// Returns the text with a space in place of each control character. A reason may quote words of the
// job's owner, and is printed by the terminals, pages and webhooks of other users.
std::string one_line(std::string text) {
    std::ranges::replace_if(
        text, [](unsigned char c) { return c < 0x20 || c == 0x7F; }, ' ');
    return text;
}

std::optional<WorkerId> look_up(const core::State& state, const std::string& session) {
    const auto found = state.index.by_session.find(session);
    return found == state.index.by_session.end() ? std::nullopt : std::optional(found->second);
}

// Returns the id of the worker in State that has this session. Uses the cached id if it is still
// valid.
std::optional<WorkerId> worker_of(const core::State& state, const std::string& name,
                                  Session& session) {
    if (session.worker) {
        const auto worker = state.workers.find(*session.worker);
        if (worker != state.workers.end() && worker->second.session == name) return worker->first;
    }
    session.worker = look_up(state, name);
    return session.worker;
}

// Returns the allocation in which the worker runs, according to its heartbeat; nullopt if the
// heartbeat names none. A key "CLUSTER.INCARNATION.ID" with this ledger's CLUSTER names an
// allocation that this ledger requested. Any other key gives allocation 0, which never
// exists.
std::optional<core::Pilot> pilot_of(const protocol::Heartbeat& heartbeat,
                                    const std::string& cluster) {
    if (!heartbeat.pilot) return std::nullopt;
    core::Pilot pilot;
    pilot.slurm_job = heartbeat.pilot->slurm_job;
    pilot.ends_at = Time{std::chrono::seconds(heartbeat.pilot->ends_at)};
    std::string_view key = heartbeat.pilot->key;
    if (!key.starts_with(cluster + ".")) return pilot;
    key.remove_prefix(cluster.size() + 1);
    const std::size_t dot = key.find('.');
    if (dot == key.npos) return pilot;
    const auto incarnation = parse_number<std::uint64_t>(key.substr(0, dot));
    const auto id = parse_number<std::uint64_t>(key.substr(dot + 1));
    if (!incarnation || !id) return pilot;
    pilot.incarnation = *incarnation;
    pilot.allocation = AllocationId{*id};
    return pilot;
}

// Adds the inputs that follow from the worker's report about one attempt. Inputs for checkpoints
// and exports come before the input for the attempt's end, because the core accepts them only
// while the attempt is current.
void add_claims(WorkerId worker, const protocol::RunningAttempt& entry, Inputs& inputs) {
    if (entry.phase == protocol::Phase::Running || entry.phase == protocol::Phase::Ended)
        inputs.push_back(core::MemberStarted{worker, entry.attempt});
    for (const protocol::WrittenCheckpoint& c : entry.checkpoints) {
        if (c.deleted) {
            inputs.push_back(core::CheckpointDeleted{worker, entry.attempt, c.step,
                                                     c.writer.value_or(entry.attempt.token)});
        } else {
            inputs.push_back(core::CheckpointWritten{worker, entry.attempt, c.step, c.directory,
                                                     c.asked, c.save_ms});
        }
    }
    for (const RequestAnswer& answer : entry.answers)
        inputs.push_back(core::RequestDone{worker, entry.attempt, answer});
    if (!entry.exported.empty())
        inputs.push_back(core::ExportWritten{worker, entry.attempt, entry.exported});
    for (const protocol::WrittenExport& e : entry.exports)
        inputs.push_back(core::ExportWritten{worker, entry.attempt, e.directory, e.step, e.oldest});
    if (entry.phase == protocol::Phase::Ended) {
        inputs.push_back(core::MemberExited{worker, entry.attempt, entry.outcome, entry.exit_code,
                                            one_line(entry.reason), entry.matched, entry.usage});
    }
}

bool says(const protocol::Heartbeat& heartbeat, const AttemptKey& key) {
    return std::ranges::find(heartbeat.running, key, &protocol::RunningAttempt::attempt) !=
           heartbeat.running.end();
}

// A member of an attempt in State that is on the worker and has not ended.
struct Held {
    AttemptKey key;
    bool up = false;
    bool stopping = false;
};

std::vector<Held> held_by(const core::State& state, WorkerId worker) {
    std::vector<Held> held;
    for (const JobId id : core::jobs_on(state, worker)) {
        const core::Attempt& attempt = *state.jobs.at(id).attempt;
        const core::Place& place = *attempt.place_on(worker);
        const bool stopping = attempt.phase == core::AttemptPhase::Stopping;
        if (!place.ended) held.push_back({{id, attempt.token}, place.up, stopping});
    }
    return held;
}

// Returns how long heartbeats may leave out an attempt that should run on the worker, before the
// attempt counts as missing.
//
// The time is start_on_its_way if this rolld has sent a start order for the attempt and does not
// know that the attempt has started. The order may still arrive; with a shorter time, the attempt
// could start late and run at the same time as its successor. The time is also start_on_its_way if
// an earlier rolld placed the attempt, because the first heartbeat that arrives may be an old one.
// In all other cases, the time is missing_grace, which is shorter.
std::chrono::milliseconds grace(const core::State& state, const Held& held, const Session& session,
                                const LeaseRules& rules) {
    const bool ours = held.key.token.incarnation == state.incarnation;
    const bool soon = ours && (held.up || !session.ordered.contains(held.key));
    return soon ? rules.missing_grace : rules.start_on_its_way;
}

// Adds a MemberUnknown for each attempt that should run on the worker but has been missing from its
// heartbeats for too long. An attempt that waits for its start is never missing, because each
// answer repeats its start order.
void note_missing(const core::State& state, WorkerId worker, const LeaseRules& rules, Instant now,
                  Session& session, Inputs& inputs) {
    std::map<AttemptKey, Instant> missing;
    std::map<AttemptKey, Instant> ordered;
    for (const Held& held : held_by(state, worker)) {
        const auto sent = session.ordered.find(held.key);
        if (sent != session.ordered.end()) ordered.insert(*sent);
        if ((!held.up && !held.stopping) || says(session.last, held.key)) continue;
        const auto before = session.missing.find(held.key);
        const Instant since = before == session.missing.end() ? now : before->second;
        missing[held.key] = since;
        if (now - since >= grace(state, held, session, rules))
            inputs.push_back(core::MemberUnknown{worker, held.key});
    }
    session.missing = std::move(missing);
    session.ordered = std::move(ordered);
}

// Adds a StaleClaim for each attempt that the worker runs but that is not current. Adds only one
// input per attempt, not one per heartbeat.
void add_stale(const core::State& state, WorkerId worker, Session& session, Inputs& inputs) {
    std::set<AttemptKey> stale;
    for (const protocol::RunningAttempt& entry : session.last.running) {
        if (entry.phase == protocol::Phase::Ended || core::is_current(state, worker, entry.attempt))
            continue;
        stale.insert(entry.attempt);
        if (!session.fenced.contains(entry.attempt))
            inputs.push_back(core::StaleClaim{worker, entry.attempt});
    }
    session.fenced = std::move(stale);
}

// Returns the time at which the session will have missed two heartbeats.
Instant due(const Session& session) { return session.renewed + two_missed_beats(session); }

}  // namespace

std::chrono::milliseconds two_missed_beats(const Session& session) {
    const auto beat = std::chrono::milliseconds(std::max(session.last.beat_ms, 1000));
    return 2 * beat + beat / 2;
}

std::vector<core::Input> Sessions::hear(const core::State& state, const Peer& peer,
                                        protocol::Heartbeat heartbeat, std::uint64_t published,
                                        Instant now, std::string_view frame) {
    Inputs inputs;
    const auto worker = look_up(state, heartbeat.session);
    if (!worker) {
        inputs.push_back(core::WorkerHello{
            heartbeat.node, heartbeat.session, heartbeat.slots, heartbeat.gpus,
            pilot_of(heartbeat, cluster_), heartbeat.generation, heartbeat.segment,
            heartbeat.gpu_numa, heartbeat.memory, heartbeat.cpus, heartbeat.home});
    }
    auto [entry, fresh] = sessions_.try_emplace(heartbeat.session);
    Session& session = entry->second;
    if (fresh) {
        session.renewed_at = published;
        if (worker && unheard_since_.contains(*worker))
            session.renewed_at = unheard_since_.at(*worker);
    }
    // Ignore a heartbeat that arrives late, from a connection that the worker has replaced.
    if (!fresh && heartbeat.sequence <= session.last.sequence) return inputs;
    session.last = std::move(heartbeat);
    session.frame = frame;
    note(state, worker, session, fresh, peer, published, now, inputs);
    return inputs;
}

std::optional<std::vector<core::Input>> Sessions::hear_again(const core::State& state,
                                                             const Peer& peer,
                                                             std::string_view frame,
                                                             std::uint64_t published, Instant now) {
    constexpr std::string_view kName = "\"session\":\"";
    const std::size_t at = frame.find(kName);
    if (at == frame.npos) return std::nullopt;
    const std::string_view rest = frame.substr(at + kName.size());
    const auto entry = sessions_.find(rest.substr(0, rest.find('"')));
    if (entry == sessions_.end()) return std::nullopt;
    Session& session = entry->second;
    const auto sequence = protocol::repeated(session.frame, frame);
    const auto worker = gateway::worker_of(state, entry->first, session);
    if (!sequence || !worker) return std::nullopt;
    Inputs inputs;
    if (*sequence <= session.last.sequence) return inputs;
    session.last.sequence = *sequence;
    note(state, worker, session, false, peer, published, now, inputs);
    return inputs;
}

std::optional<WorkerId> Sessions::worker_of(const core::State& state, std::string_view session) {
    const auto entry = sessions_.find(session);
    if (entry == sessions_.end()) return std::nullopt;
    return gateway::worker_of(state, entry->first, entry->second);
}

// Updates the session after `session.last` was set, and adds the inputs that follow from the
// heartbeat in `session.last`.
void Sessions::note(const core::State& state, std::optional<WorkerId> worker, Session& session,
                    bool fresh, const Peer& peer, std::uint64_t published, Instant now,
                    Inputs& inputs) {
    const bool renews = session.last.bound_below_lease || !worker || !core::is_busy(state, *worker);
    if (renews) session.renewed_at = published;
    if (renews || fresh) session.renewed = now;
    session.counted = static_cast<std::int64_t>(published - session.renewed_at);
    session.peer = peer;
    session.heard_at = now;
    listen_at_ = std::min(listen_at_, std::max(due(session), now + std::chrono::seconds(1)));
    owing_.push_back(session.last.session);
    if (!worker) return;
    const core::Worker& known = state.workers.at(*worker);
    if (renews && known.quiet) inputs.push_back(core::WorkerHeard{*worker, true});
    if (session.last.draining && !known.draining)
        inputs.push_back(core::Drain{session.last.node, true});
    for (const protocol::RunningAttempt& running : session.last.running)
        add_claims(*worker, running, inputs);
    add_stale(state, *worker, session, inputs);
    if (renews) note_missing(state, *worker, rules_, now, session, inputs);
}

std::vector<core::Input> Sessions::lost(const core::State& state, std::uint64_t published) {
    Inputs inputs;
    if (published < judge_at_) return inputs;
    const auto limit = static_cast<std::uint64_t>(rules_.lost_after_beats);
    std::uint64_t oldest = published;
    for (const auto& [id, worker] : state.workers) {
        const auto session = sessions_.find(worker.session);
        std::uint64_t since = 0;
        if (session == sessions_.end()) {
            since = unheard_since_.try_emplace(id, published).first->second;
        } else {
            since = session->second.renewed_at;
        }
        oldest = std::min(oldest, since);
        if (published - since < limit) continue;
        inputs.push_back(
            core::WorkerGone{id, "not heard for " + std::to_string(published - since) + " ticks"});
    }
    // Silence is counted in published ticks, so the result cannot change before the next
    // tick.
    judge_at_ = std::max(oldest + limit, published + 1);
    return inputs;
}

std::vector<core::Input> Sessions::quiet(const core::State& state, Instant now) {
    Inputs inputs;
    if (now < listen_at_) return inputs;
    Instant soonest = Instant::max();
    for (const auto& [id, worker] : state.workers) {
        if (worker.quiet) continue;
        const auto session = sessions_.find(worker.session);
        // Skip a worker that has sent no heartbeat since rolld's start: State already has it as
        // quiet.
        if (session == sessions_.end()) continue;
        const Instant quiet_at = due(session->second);
        soonest = std::min(soonest, quiet_at);
        if (now >= quiet_at) inputs.push_back(core::WorkerHeard{id, false});
    }
    listen_at_ = std::max(soonest, now + std::chrono::seconds(1));
    return inputs;
}

bool Sessions::is_silent(const core::State& state, WorkerId id, std::uint64_t published) const {
    const auto worker = state.workers.find(id);
    if (worker == state.workers.end() || !worker->second.quiet) return false;
    const auto session = sessions_.find(worker->second.session);
    if (session != sessions_.end()) {
        const auto heard =
            session->second.renewed_at + static_cast<std::uint64_t>(session->second.counted);
        return published - heard >= static_cast<std::uint64_t>(rules_.silent_after_beats);
    }
    const auto since = unheard_since_.find(id);
    return since != unheard_since_.end() &&
           published - since->second >= static_cast<std::uint64_t>(rules_.silent_after_start_beats);
}

// Returns the silent workers. Looks for newly silent workers only once per tick of the beacon,
// because silence is counted in ticks.
const std::set<WorkerId>& Sessions::silent(const core::State& state, std::uint64_t published) {
    std::erase_if(silent_, [&](WorkerId id) { return !is_silent(state, id, published); });
    if (std::exchange(silent_for_, published) == published) return silent_;
    for (const auto& [id, worker] : state.workers)
        if (worker.quiet && is_silent(state, id, published)) silent_.insert(id);
    return silent_;
}

bool Sessions::is_company(const Session& session, Instant now) const {
    return session.last.heard_recently && now - session.heard_at <= rules_.company;
}

// Returns whether a worker has lately confirmed an answer of rolld. First checks the worker that
// was found last time. Searches all sessions only if that worker no longer confirms an answer.
bool Sessions::has_company(Instant now) {
    if (refused_heard_at_ && now - *refused_heard_at_ <= rules_.company) return true;
    const auto last = sessions_.find(companion_);
    if (last != sessions_.end() && is_company(last->second, now)) return true;
    const auto found = std::ranges::find_if(
        sessions_, [&](const auto& entry) { return is_company(entry.second, now); });
    if (found == sessions_.end()) return false;
    companion_ = found->first;
    return true;
}

// Drops the sessions of workers that are gone. Does nothing if no worker was added or removed since
// the last call.
void Sessions::forget_gone(const core::State& state) {
    const std::pair workers(state.workers.size(), state.next_worker);
    if (std::exchange(tidied_for_, workers) == workers) return;
    std::erase_if(sessions_, [&](const auto& entry) { return !look_up(state, entry.first); });
    std::erase_if(unheard_since_,
                  [&](const auto& entry) { return !state.workers.contains(entry.first); });
}

}  // namespace roll::gateway
