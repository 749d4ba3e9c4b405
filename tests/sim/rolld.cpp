// rolld in a world: what daemon/server does around the engine, without sockets and disk.
#include <algorithm>

#include "common/check.hpp"
#include "daemon/dispatch/dispatch.hpp"
#include "daemon/ledger/event_json.hpp"
#include "daemon/ledger/state_bytes.hpp"
#include "tests/sim/frames.hpp"
#include "tests/sim/world.hpp"

namespace roll::sim {

using core::Input;

constexpr const char* kCluster = "c";

// Returns what a rolld finds at its start: all acknowledged commits, and all or nothing of the
// commit that was running.
Result<core::State> World::read_ledger() {
    if (stored_) {
        stored_->disk().set_full(full_);
        const auto unsure = std::ssize(ledger_) - static_cast<std::int64_t>(synced_);
        if (!stored_->open(random_, {ledger_, unsure}, faulty()))
            return fail(ErrorCode::Refused, "no room to start");
        const auto found = static_cast<std::size_t>(stored_->newest());
        ROLL_CHECK(found == synced_ || std::ranges::count(unsure_ends_, found) > 0);
        std::erase_if(unsure_ends_, [&](std::size_t end) { return end > found; });
        ledger_.erase(ledger_.begin() + static_cast<std::ptrdiff_t>(found), ledger_.end());
        ledger_times_.resize(found);
    }
    core::State state;
    for (const core::Event& event : ledger_) core::apply(state, event);
    if (stored_) {
        const auto loaded = stored_->load();
        ROLL_CHECK(loaded && *loaded == state);
    }
    auditor_.check_acknowledged(state);
    return state;
}

Result<core::State> World::reload() const {
    if (stored_) return stored_->load();
    core::State state;
    for (const core::Event& event : ledger_) core::apply(state, event);
    return state;
}

void World::boot() {
    if (takes_over_ && !claims()) return;
    auto state = read_ledger();
    if (!state) return die();
    const auto load = [this] { return reload(); };
    const auto append = [this](std::span<const core::Event> events, Time at) {
        return commit(events, at);
    };
    engine_ = std::make_unique<engine::Engine>(*std::move(state), engine::Ledger{append, load});
    sessions_.emplace(gateway::LeaseRules{}, kCluster);
    ++life_;
    published_ = 0;
    slow_commit_ = 0;
    polled_.reset();
    polled_before_.reset();
    asked_nodes_.reset();
    said_down_ = at_slurm_ = false;
    open_desk();
    wakeup_ = now();
    const auto started = takes_over_ ? core::Started{reign_, true} : core::Started{};
    const std::vector<Input> first{started, core::SetPolicy{policy_}};
    const auto begun = engine_->step(first, now());
    if (!begun || !begun->replies[0]) return die();  // rolld cannot serve while the volume is full
    takes_over_ = false;
    if (second_ >= volume_lost_until_) beacon_.push_back({second_, engine_->state().incarnation});
}

// Ends rolld. It is killed, alone or by a power loss, or was asked to end.
void World::die(bool asked) {
    if (stored_ && asked && engine_ && !pending_ && !behind_)
        stored_->close(engine_->state());
    else if (stored_)
        stored_->crash(random_, random_.percent(50));
    // A commit that was running at the kill is in the ledger or is not.
    if (!stored_ && pending_ && random_.percent(50)) {
        ledger_.erase(ledger_.begin() + static_cast<std::ptrdiff_t>(synced_), ledger_.end());
        ledger_times_.resize(synced_);
    }
    pending_.reset();
    engine_.reset();
    sessions_.reset();
    desk_.reset();
    inbox_.clear();
    socket_.clear();
    orders_.clear();
    crash_ = Crash::None;
    behind_ = false;
    stalled_until_ = 0;
    ++totals_.restarts;
    down_until_ = second_ + random_.between(1, faulty() ? 60 : 2);
}

Result<void> World::commit(std::span<const core::Event> events, Time at) {
    if (stored_) return store(events, at);
    synced_ = ledger_.size();
    if (crash_ == Crash::BeforeCommit) return fail(ErrorCode::Failed, "killed before the commit");
    if (full_) return fail(ErrorCode::Refused, "the volume is full");
    for (const core::Event& event : events) {  // write and read each event as the ledger does
        auto written = ledger::event_from(ledger::kind_of(event), ledger::body_of(event));
        ROLL_CHECK(written);
        ledger_.push_back(*std::move(written));
    }
    ledger_times_.resize(ledger_.size(), at);
    if (crash_ == Crash::AfterCommit) return fail(ErrorCode::Failed, "killed after the commit");
    return {};
}

// Commits to SQLite, where the disk may fail at any operation of the commit.
Result<void> World::store(std::span<const core::Event> events, Time at) {
    FakeDisk& disk = stored_->disk();
    disk.set_full(full_);
    if (crash_ == Crash::BeforeCommit) disk.break_after(random_.between(0, 12));
    const auto stored = stored_->append(events, at);
    if (!stored && stored.error().code == ErrorCode::Refused) {
        disk.break_after(std::nullopt);  // rolld is killed in a later commit
        return stored;
    }
    ledger_.insert(ledger_.end(), events.begin(), events.end());
    ledger_times_.resize(ledger_.size(), at);
    if (!stored) ROLL_CHECK(crash_ == Crash::BeforeCommit);
    if (!stored) unsure_ends_.push_back(ledger_.size());
    if (stored) unsure_ends_.clear();
    if (stored) synced_ = ledger_.size();
    if (crash_ != Crash::None) return fail(ErrorCode::Failed, "killed in the commit, or after it");
    return {};
}

void World::serve() {
    if (!engine_ && second_ >= down_until_) boot();
    if (!engine_ || second_ < stalled_until_) return;
    if (pending_) return finish(*std::exchange(pending_, std::nullopt));
    listen();
    check_bounds();
    check_forsaken();
    const auto lost = sessions_->lost(engine_->state(), published_);
    note_given_away(lost);
    for (const Input& gone : lost) inbox_.push_back({gone});
    for (Input& quiet : sessions_->quiet(engine_->state(), steady_now())) {
        if (desk_) desk_->hurry(steady());
        inbox_.push_back({std::move(quiet)});
    }
    if (desk_) {
        const auto& silent = sessions_->silent(engine_->state(), published_);
        for (Input& gone : desk_->gone(engine_->state(), silent, steady()))
            inbox_.push_back({std::move(gone)});
    }
    if (engine_->state().adopting && published_ >= 35) inbox_.push_back({core::Adopted{}});
    if (!step() || !engine_) return;
    finish(*std::exchange(pending_, std::nullopt));
}

// Runs a turn if there is anything to do. Returns false if its commit takes longer than this
// second.
bool World::step() {
    Pending pending{.turn = {}, .requests = std::exchange(inbox_, {}), .at = now()};
    const bool due = !pending.requests.empty() || behind_ || (wakeup_ && *wakeup_ <= now());
    const std::size_t before = ledger_.size();
    if (due) {
        std::vector<Input> inputs;
        for (const Request& request : pending.requests) inputs.push_back(request.input);
        auto turn = engine_->step(inputs, now());
        if (!turn) {
            die();
            return false;
        }
        pending.turn = *std::move(turn);
        pending.stepped = true;
        behind_ = pending.turn.full;
        totals_.refused_turns += behind_;
    } else {
        pending.turn.owed = core::actions(engine_->state());
    }
    pending_ = std::move(pending);
    if (ledger_.size() == before || slow_commit_ == 0) return true;
    stalled_until_ = second_ + std::exchange(slow_commit_, 0);
    return false;
}

// Completes a turn whose events are on disk. Only now may others see its results.
void World::finish(const Pending& pending) {
    if (pending.stepped) settle_turn(pending);
    audit(pending);
    answer_workers(pending.turn);
    run_errands();
    check_gone_nodes();
    beat();
    if (pending.stepped && random_.percent(2)) check_replay();
}

// Lets the auditor check the turn. If the clock was set back, the check waits for a turn that has
// something to do: jobs may be possible again, but nothing wakes rolld for them.
void World::audit(const Pending& pending) {
    if (behind_) return;  // consequences of the inputs are due, but cannot be committed
    if (pending.stepped) stepped_at_ = pending.at;
    if (pending.at < stepped_at_) return;
    for (; audited_ < ledger_.size(); ++audited_)
        auditor_.observe(ledger_[audited_], ledger_times_[audited_]);
    auditor_.check(engine_->state(), pending.at, second_ > kFaultsEnd + 120);
}

void World::settle_turn(const Pending& pending) {
    const engine::Turn& turn = pending.turn;
    ROLL_CHECK(turn.replies.size() == pending.requests.size() && !turn.restless);
    wakeup_ = core::next_wakeup(engine_->state(), pending.at);
    note_forsaken(ledger_.size() - turn.committed);
    core::check_invariants(engine_->state());
    if (!turn.full) {
        for (const core::Rule rule : core::rules())
            ROLL_CHECK(rule(engine_->state(), pending.at).empty());
        check_heard();
    }
    for (std::size_t i = 0; i < pending.requests.size(); ++i) {
        if (pending.requests[i].reply) pending.requests[i].reply(turn.replies[i]);
    }
}

// Rule 8: checks that a worker that was just heard, and hears rolld, may get work. A heartbeat that
// arrives after a newer one does not count.
void World::check_heard() const {
    const core::State& state = engine_->state();
    for (const std::string& name : renewed_) {
        const auto worker = state.index.by_session.find(name);
        if (worker == state.index.by_session.end()) continue;
        const gateway::Session& session = sessions_->all().find(name)->second;
        if (session.heard_at != steady_now() || !session.last.bound_below_lease) continue;
        ROLL_CHECK(!state.workers.at(worker->second).quiet);
    }
}

// Checks that State is the fold of the ledger's events, and that a snapshot restores it exactly.
void World::check_replay() const {
    core::State state;
    for (const core::Event& event : ledger_) core::apply(state, event);
    ROLL_CHECK(state == engine_->state());
    const auto again = ledger::state_from(ledger::bytes_of(state));
    ROLL_CHECK(again && *again == state);
    auditor_.check_acknowledged(state);
}

// Delivers a heartbeat. If rolld is down, the next rolld gets it, or it is lost with the
// connection.
void World::arrive(const Node& node, const Said& said, std::uint64_t life) {
    const bool alive = is_alive(said.heartbeat.session);
    if (!engine_ && alive && life == life_ && random_.percent(50)) {
        const int delay = down_until_ - second_ + random_.between(1, 5);
        return later(delay, [this, &node, said, next = life_ + 1] { arrive(node, said, next); });
    }
    if (!engine_ || life != life_) return;
    // Without a generation, the first heartbeat of a process that is dead by now cannot be told
    // from that of a new process. It counts as lost with its connection.
    if (said.heartbeat.generation == 0 && !alive && !joined(node.name, said.heartbeat.session))
        return;
    socket_.push_back(said);
}

bool World::joined(const std::string& node, const std::string& session) const {
    const auto known = engine_->state().sessions.find(node);
    return known != engine_->state().sessions.end() &&
           std::ranges::count(known->second, session) > 0;
}

bool World::is_alive(const std::string& session) const {
    return std::ranges::any_of(
        nodes_, [&](const Node& node) { return node.worker && node.worker->session == session; });
}

// Checks that broken forms of a heartbeat are refused, also for a known session.
void World::check_broken(const std::string& frame) {
    if (totals_.messages % kBrokenOneIn != 0) return;
    for (const std::string& broken : broken_frames(frame, totals_.messages)) {
        ROLL_CHECK(!sessions_->hear_again(engine_->state(), {}, broken, published_, steady_now()));
        ROLL_CHECK(!protocol::decode_heartbeat(broken));
    }
}

void World::listen() {
    renewed_.clear();
    for (Said& said : std::exchange(socket_, {})) {
        const gateway::Peer peer{said.heartbeat.session, ""};
        if (said.heartbeat.bound_below_lease) renewed_.push_back(peer.route);
        std::optional<std::vector<Input>> claims;
        if (in_bytes_) {
            check_broken(said.frame);
            claims =
                sessions_->hear_again(engine_->state(), peer, said.frame, published_, steady_now());
            if (!claims) said.heartbeat = protocol::decode_heartbeat(said.frame).value();
        }
        if (!claims)
            claims = sessions_->hear(engine_->state(), peer, std::move(said.heartbeat), published_,
                                     steady_now(), in_bytes_ ? said.frame : "");
        for (Input& claim : *claims) inbox_.push_back({std::move(claim)});
    }
}

// Like Server::answer_workers(): answers each worker that was heard or whose orders changed.
void World::answer_workers(const engine::Turn& turn) {
    const core::State& state = engine_->state();
    const auto before = std::exchange(orders_, dispatch::orders(state, turn.owed, kCluster));
    const std::vector<std::string> owing = sessions_->take_owing();
    const std::set<std::string> heard(owing.begin(), owing.end());
    for (const auto& [id, worker] : state.workers) {
        const auto orders = orders_.find(id);
        const auto old = before.find(id);
        const bool none = orders == orders_.end();
        const bool changed =
            none ? old != before.end() : old == before.end() || !(old->second == orders->second);
        if (!changed && !heard.contains(worker.session)) continue;
        answer(id, worker, none ? protocol::Answer{} : orders->second);
    }
    sessions_->forget_gone(state);
}

void World::answer(WorkerId id, const core::Worker& worker, protocol::Answer answer) {
    const auto found = sessions_->all().find(worker.session);
    if (found == sessions_->all().end()) return;
    gateway::Session& session = found->second;
    for (const auto& order : answer.start) session.ordered[order.attempt] = steady_now();
    dispatch::add_verdicts(engine_->state(), id, session.last.running, answer);
    answer.version = session.last.version;
    answer.incarnation = engine_->state().incarnation;
    answer.sequence = session.last.sequence;
    answer.counted = session.counted;
    answer.counter = session.renewed_at;
    answer.beacon = "/volume/beacon";
    const auto node = std::ranges::find(nodes_, worker.node, &Node::name);
    Word word{travelled(std::move(answer)), truth(id, session)};
    send(*node, node->deaf_until, [&node = *node, to = worker.session, word = std::move(word)] {
        if (node.worker && node.worker->session == to) node.worker->heard.push_back(word);
    });
}

// Returns whether every worker on rolld's machine has ended, as the locks of the run directories
// would show.
bool World::all_have_ended() const {
    const auto& workers = engine_->state().workers;
    return machines_ == 1 && !workers.empty() &&
           std::ranges::all_of(workers, [&](const auto& item) {
               return item.second.allocation == AllocationId{} && !nodes_.front().worker;
           });
}

void World::beat() {
    const bool company = sessions_->has_company(steady_now()) || all_have_ended() ||
                         (desk_ && desk_->only_gone_are_left(engine_->state()));
    if (!company || second_ < volume_lost_until_) return;
    beacon_.push_back({second_, engine_->state().incarnation, ++published_});
    if (beacon_.size() > 8) beacon_.pop_front();
}

}  // namespace roll::sim
