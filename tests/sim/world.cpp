#include "tests/sim/world.hpp"

#include <algorithm>

#include "common/check.hpp"
#include "daemon/ledger/event_json.hpp"
#include "daemon/ledger/state_bytes.hpp"

namespace roll::sim {

using core::Input;

World::World(std::uint64_t seed) : random_(seed) {
    const int count = random_.between(1, 4);
    for (int i = 0; i < count; ++i) {
        nodes_.push_back({"n" + std::to_string(i), random_.between(1, 4), random_.between(0, 2)});
        if (random_.percent(70)) nodes_.back().segment = "s" + std::to_string(i % 2);
        if (random_.percent(50)) nodes_.back().gpu_numa = {0, 1};
        nodes_.back().old = random_.percent(25);
        later(random_.between(0, 20), [this, i] { start_process(nodes_[i]); });
    }
    machines_ = nodes_.size();
    policy_ = invent_policy();
    boot();
    plan_users();
    plan_slurm();
    open_desk();
}

void World::run() {
    while (second_ < kFaultsEnd || !done()) {
        ROLL_CHECK(second_ < kEnd);  // liveness
        ++second_;
        if (second_ == kFaultsEnd) calm_down();
        deliver();
        live();
        live_slurm();
        serve();
        if (faulty()) meddle();
    }
    auditor_.finish(engine_->state());
    check_replay();
    totals_.seconds = second_;
    totals_.events = std::ssize(ledger_);
    totals_.jobs = std::ssize(engine_->state().jobs);
    for (const auto& [id, job] : engine_->state().jobs) {
        totals_.attempts += std::ssize(job.past);
        totals_.checkpoints += std::ssize(job.checkpoints);
    }
}

// The network and the clock.

void World::later(int delay, std::function<void()> what) {
    network_[{second_ + delay, order_++}] = std::move(what);
}

// A message is lost, late or comes twice, as long as there are faults.
void World::send(std::function<void()> what) {
    if (chance(15)) return;
    if (chance(10)) later(random_.between(1, 30), what);
    later(chance(10) ? random_.between(1, 50) : random_.between(0, 1), std::move(what));
}

void World::deliver() {
    while (!network_.empty() && network_.begin()->first.first <= second_) {
        const auto what = std::move(network_.begin()->second);
        network_.erase(network_.begin());
        what();
    }
}

// rolld.

void World::boot() {
    core::State state;
    for (const core::Event& event : ledger_) core::apply(state, event);
    auditor_.check_acknowledged(state);
    const auto load = [this]() -> Result<core::State> {
        core::State loaded;
        for (const core::Event& event : ledger_) core::apply(loaded, event);
        return loaded;
    };
    const auto append = [this](std::span<const core::Event> events, Time) {
        return commit(events);
    };
    engine_ = std::make_unique<engine::Engine>(std::move(state), engine::Ledger{append, load});
    ++life_;
    polled_.reset();
    open_desk();
    wakeup_ = now();
    const std::vector<Input> first{core::Started{}, core::SetPolicy{policy_}};
    const auto begun = engine_->step(first, now());
    if (!begun || !begun->replies[0]) return die();  // the volume is full: it cannot serve
    for (const auto& [id, worker] : engine_->state().workers) last_renewal_[id] = beats_;
}

void World::die() {
    engine_.reset();
    desk_.reset();
    inbox_.clear();
    heard_.clear();
    newest_.clear();
    last_renewal_.clear();
    crash_ = Crash::None;
    behind_ = false;
    ++totals_.restarts;
    down_until_ = second_ + random_.between(1, faulty() ? 60 : 2);
}

Result<void> World::commit(std::span<const core::Event> events) {
    if (crash_ == Crash::BeforeCommit) return fail(ErrorCode::Failed, "killed before the commit");
    if (full_) return fail(ErrorCode::Refused, "the volume is full");
    for (const core::Event& event : events) {  // as the ledger writes and reads it
        auto written = ledger::event_from(ledger::kind_of(event), ledger::body_of(event));
        ROLL_CHECK(written);
        ledger_.push_back(*std::move(written));
    }
    ledger_times_.resize(ledger_.size(), now());
    if (crash_ == Crash::AfterCommit) return fail(ErrorCode::Failed, "killed after the commit");
    return {};
}

void World::serve() {
    if (!engine_ && second_ >= down_until_) boot();
    if (!engine_) return;
    count_silence();
    const bool due = !inbox_.empty() || behind_ || (wakeup_ && *wakeup_ <= now());
    if (due) step();
    if (!engine_) return;
    audit();
    answer_all();
    run_errands();
    ++beats_;
}

void World::audit() {
    if (behind_) return;  // consequences are owed, and cannot be written down
    for (; audited_ < ledger_.size(); ++audited_)
        auditor_.observe(ledger_[audited_], ledger_times_[audited_]);
    auditor_.check(engine_->state(), now(), second_ > kFaultsEnd + 120);
}

void World::step() {
    const std::vector<Request> requests = std::exchange(inbox_, {});
    std::vector<Input> inputs;
    for (const Request& request : requests) inputs.push_back(request.input);
    const auto turn = engine_->step(inputs, now());
    if (!turn) return die();
    behind_ = turn->full;
    totals_.refused_turns += behind_;
    settle_turn(*turn, requests);
    if (random_.percent(5)) check_replay();
}

void World::settle_turn(const engine::Turn& turn, const std::vector<Request>& requests) {
    ROLL_CHECK(turn.replies.size() == requests.size() && !turn.restless);
    wakeup_ = core::next_wakeup(engine_->state(), now());
    core::check_invariants(engine_->state());
    if (!turn.full) {
        for (const core::Rule rule : core::rules())
            ROLL_CHECK(rule(engine_->state(), now()).empty());
    }
    for (std::size_t i = 0; i < requests.size(); ++i) {
        if (requests[i].reply) requests[i].reply(turn.replies[i]);
    }
    for (const auto& [id, worker] : engine_->state().workers) last_renewal_.emplace(id, beats_);
}

// State is the fold of the ledger's events, and comes back from a snapshot as it was.
void World::check_replay() const {
    core::State state;
    for (const core::Event& event : ledger_) core::apply(state, event);
    ROLL_CHECK(state == engine_->state());
    const auto again = ledger::state_from(ledger::bytes_of(state));
    ROLL_CHECK(again && *again == state);
    auditor_.check_acknowledged(state);
}

std::optional<WorkerId> World::worker_of(const std::string& session) const {
    for (const auto& [id, worker] : engine_->state().workers) {
        if (worker.session == session) return id;
    }
    return std::nullopt;
}

// A connection ends with the process that it leads to, and keeps the order of what it carries.
void World::receive(const Heartbeat& heartbeat, std::uint64_t life) {
    if (!engine_ || life != life_) return;
    auto& newest = newest_[heartbeat.session];
    if (heartbeat.sequence <= newest) return;
    newest = heartbeat.sequence;
    heard_[heartbeat.session] = heartbeat;
    const auto worker = worker_of(heartbeat.session);
    if (!worker) {
        // Without a generation the first word of a process that is dead by now cannot be told from
        // a new one's; it is taken to have died with its connection.
        if (heartbeat.generation == 0 && !joined(heartbeat) && !is_alive(heartbeat.session)) return;
        inbox_.push_back({core::WorkerHello{heartbeat.node, heartbeat.session, heartbeat.slots,
                                            heartbeat.gpus, heartbeat.pilot, heartbeat.generation,
                                            heartbeat.segment, heartbeat.gpu_numa}});
        return;
    }
    claim(*worker, heartbeat);
}

bool World::joined(const Heartbeat& heartbeat) const {
    const auto known = engine_->state().sessions.find(heartbeat.node);
    return known != engine_->state().sessions.end() &&
           std::ranges::count(known->second, heartbeat.session) > 0;
}

bool World::is_alive(const std::string& session) const {
    return std::ranges::any_of(
        nodes_, [&](const Node& node) { return node.process && node.process->session == session; });
}

void World::claim(WorkerId worker, const Heartbeat& heartbeat) {
    if (engine_->state().workers.at(worker).quiet)
        inbox_.push_back({core::WorkerHeard{worker, true}});
    bool has_current = false;
    std::set<AttemptKey> listed;
    for (const Copy& copy : heartbeat.running) {
        listed.insert(copy.key);
        if (copy.up) inbox_.push_back({core::MemberStarted{worker, copy.key}});
        for (const Written& w : copy.unrecorded) {
            const std::string directory = "/c/" + std::to_string(w.step);
            if (w.deleted)
                inbox_.push_back({core::CheckpointDeleted{worker, copy.key, w.step, w.writer}});
            if (!w.deleted)
                inbox_.push_back({core::CheckpointWritten{worker, copy.key, w.step, directory,
                                                          w.asked, w.save_ms}});
        }
        if (!copy.exported.empty())
            inbox_.push_back({core::ExportWritten{worker, copy.key, copy.exported}});
        if (copy.ended) {
            inbox_.push_back({core::MemberExited{worker, copy.key, copy.outcome, copy.exit_code,
                                                 "it ended", copy.matched}});
        }
    }
    for (const core::Action& action : core::actions(engine_->state())) {
        const auto unknown = [&](const auto& a) {
            if (a.worker != worker) return;
            has_current = true;
            if (std::is_same_v<decltype(a), const core::StopMember&>) return;
            if (!listed.contains(a.attempt))
                inbox_.push_back({core::MemberUnknown{worker, a.attempt}});
        };
        std::visit(unknown, action);
    }
    if (heartbeat.below_lease || !has_current) last_renewal_[worker] = beats_;
}

Answer World::answer_to(const Heartbeat& heartbeat) const {
    const core::State& state = engine_->state();
    Answer answer{.incarnation = state.incarnation, .sequence = heartbeat.sequence};
    const auto worker = worker_of(heartbeat.session);
    if (!worker) return answer;
    for (const core::Action& action : core::actions(state)) {
        const auto key = std::visit([](const auto& a) { return a.attempt; }, action);
        if (std::visit([](const auto& a) { return a.worker; }, action) != *worker) continue;
        const core::Job& job = state.jobs.at(key.job);
        if (std::holds_alternative<core::KeepMember>(action)) answer.keep.insert(key);
        if (answer.keep.contains(key) && job.attempt->asked > job.attempt->saved)
            answer.save[key] = job.attempt->asked;
        if (std::holds_alternative<core::StopMember>(action)) answer.stop.insert(key);
        if (!std::holds_alternative<core::StartMember>(action)) continue;
        const auto& places = job.attempt->places;
        const auto place = std::ranges::find(places, *worker, &core::Place::worker);
        answer.start.push_back({key, static_cast<std::size_t>(place - places.begin()),
                                job.resources().nodes, *place, job.spec, job.checkpoints});
    }
    for (const Copy& copy : heartbeat.running) {
        const core::Job& job = state.jobs.at(copy.key.job);
        const bool current = job.attempt && job.attempt->token == copy.key.token;
        if (!current || !std::ranges::count(job.attempt->places, *worker, &core::Place::worker))
            answer.fenced.insert(copy.key);
        auto& steps = answer.recorded[copy.key];
        for (const core::Checkpoint& c : job.checkpoints) {
            if (c.token == copy.key.token) steps.insert(c.step);
        }
        if (!job.exported.empty()) answer.exported.insert(copy.key);
    }
    return answer;
}

void World::answer_all() {
    for (const auto& [session, heartbeat] : std::exchange(heard_, {})) {
        send([this, to = session, answer = answer_to(heartbeat)] { take_answer(to, answer); });
    }
}

void World::count_silence() {
    for (const auto& [id, beat] : last_renewal_) {
        if (!engine_->state().workers.contains(id)) continue;
        if (beats_ - beat >= 4) inbox_.push_back({core::WorkerHeard{id, false}});
        if (beats_ - beat >= kGoneBeats) inbox_.push_back({core::WorkerGone{id, "silent"}});
    }
}

// Nodes.

void World::start_process(Node& node) {
    node.process = std::make_unique<Process>();
    node.process->node = node.name;
    node.process->session = node.name + "/" + std::to_string(++sessions_);
    node.process->generation = node.old ? 0 : sessions_;
    node.process->slots = node.slots;
    node.process->gpus = node.gpus;
    node.process->segment = node.segment;
    node.process->gpu_numa = node.gpu_numa;
    node.process->pilot = node.pilot;
}

void World::live() {
    const ProcessRules rules(random_, faulty());
    for (Node& node : nodes_) {
        if (!node.process) continue;
        for (auto& [key, copy] : node.process->copies) {
            rules.live(copy, peers_of(copy), beats_, second_);
            note_writings(copy);
        }
        if (random_.percent(60)) {
            Heartbeat heartbeat = ProcessRules::beat(*node.process, beats_);
            send([this, hb = std::move(heartbeat), life = life_] { receive(hb, life); });
        }
    }
}

void World::note_writings(const Copy& copy) {
    for (const Written& w : copy.unrecorded) {
        if (w.deleted) auditor_.deleted(copy.key.job, w.step, w.writer);
        if (!w.deleted) auditor_.wrote(copy.key.job, w.step, w.writer);
    }
}

void World::take_answer(const std::string& session, const Answer& answer) {
    const ProcessRules rules(random_, faulty());
    for (Node& node : nodes_) {
        if (!node.process || node.process->session != session) continue;
        for (const AttemptKey& key : rules.on_answer(*node.process, answer, beats_, second_)) {
            check_started(node, node.process->copies.at(key));
        }
        for (const auto& [key, copy] : node.process->copies) note_writings(copy);
    }
}

// The point of it all: no two copies of a job, no slot or GPU used twice, seen from outside.
void World::check_started(const Node& node, const Copy& started) const {
    std::map<int, int> used;  // of each GPU, in hundredths
    for (const Node& other : nodes_) {
        if (!other.process) continue;
        for (const auto& [key, copy] : other.process->copies) {
            if (!copy.alive() || &copy == &started) continue;
            ROLL_CHECK(key.job != started.key.job || key.token == started.key.token);
            if (&other != &node) continue;
            for (int slot : copy.slots) ROLL_CHECK(!std::ranges::count(started.slots, slot));
            for (int gpu : copy.gpus) used[gpu] += copy.gpu_percent;
        }
    }
    for (int gpu : started.gpus) ROLL_CHECK(used[gpu] + started.gpu_percent <= 100);
}

Peers World::peers_of(const Copy& copy) const {
    Peers peers;
    if (copy.nodes == 1) return peers;
    for (const Node& node : nodes_) {
        if (!node.process) continue;
        const auto found = node.process->copies.find(copy.key);
        if (found == node.process->copies.end()) continue;
        const Copy& peer = found->second;
        if (peer.ended && peer.outcome != core::Outcome::Done) peers.all_done_or_alive = false;
    }
    return peers;
}

}  // namespace roll::sim
