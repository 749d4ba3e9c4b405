// The nodes of a world. Each runs a roll-worker, which is the real AgentCore with a simulated loop
// (worker/agent), and the programs that the roll-worker starts.
#include <algorithm>

#include "common/check.hpp"
#include "common/overload.hpp"
#include "tests/sim/world.hpp"

namespace roll::sim {

using agent::AgentCore;

namespace {

void tell(AgentCore& core, const agent::ProcessEvent& event, Instant now) {
    std::visit(
        Overload{
            [&](const agent::Reported& e) { core.on_report(e.attempt, e.rank, e.report, now); },
            [&](const agent::Exited& e) { core.on_exit(e.attempt, e.rank, e.exit, now); },
            [&](const agent::LeashRanOut& e) { core.on_leash(e.attempt, now); },
            [&](const agent::StartFailed& e) { core.on_start_failed(e.attempt, e.verdict); },
            [&](const agent::Matched& e) { core.on_matched(e.attempt, e.patterns); },
            [&](const agent::Used& e) { core.on_usage(e.attempt, e.usage); },
            [&](const agent::MemoryUsed& e) { core.on_memory(e.attempt, e.bytes); },
            [&](const agent::CpuUsed& e) { core.on_cpu_time(e.attempt, e.ms); },
            [&](const agent::Gone& e) { core.on_gone(e.attempt, now); },
            [](const agent::ShellEnded&) {}, [](const agent::Junk&) {}},
        event);
}

void tell(AgentCore& core, const agent::VolumeEvent& event, Instant now) {
    if (const auto* looked = std::get_if<agent::Looked>(&event)) {
        if (looked->look) core.on_look(*looked->look, now);
    } else {
        const auto& published = std::get<agent::Published>(event);
        core.on_published(published.attempt, published.step, published.done, now);
    }
}

}  // namespace

// Starts a roll-worker. The run directory of an earlier process remains: the attempts in it are
// ended first and then reported.
void World::start_worker(Node& node) {
    node.back_at.reset();
    protocol::Heartbeat self;
    self.version = node.old ? 1 : protocol::kVersion;
    self.node = node.name;
    self.session = node.name + "/" + std::to_string(++sessions_made_);
    self.generation = node.old ? 0 : sessions_made_;
    self.slots = node.slots;
    self.gpus = node.gpus;
    self.memory = node.memory;
    self.cpus = node.cpus;
    self.segment = node.segment;
    self.gpu_numa = node.gpu_numa;
    self.pilot = node.pilot;
    node.worker.reset(
        new RollWorker{.core = AgentCore(self, agent::LeaseRules{}, agent::StopRules{}),
                       .session = self.session,
                       .generation = self.generation});
    for (const auto& [key, entry] : node.remembered) node.worker->core.add_leftover(entry);
}

// Ends the roll-worker. The guards then kill the programs. With `at_once`, the whole node fails or
// its Slurm job ends, and nothing is left to kill.
void World::end_worker(Node& node, bool at_once) {
    node.worker.reset();
    node.frozen_until = 0;
    if (at_once) node.suspended_until = 0;
    const CopyRules rules(random_, faulty());
    for (auto& [key, copy] : node.copies) rules.kill(copy, node.clock);
    if (at_once) node.copies.clear();
}

void World::set_clock(Node& node) {
    node.clock = std::chrono::seconds(random_.between(0, 1'000'000));
    node.second = Millis(random_.between(999, 1001));
}

void World::live() {
    for (Node& node : nodes_) {
        const bool runs = second_ >= node.suspended_until;
        if (runs || !node.clock_stops) node.clock += node.second;
        if (runs) see_what_outlived(node);
    }
    for (Node& node : nodes_) {
        if (second_ >= node.suspended_until) live_node(node);
    }
}

// Marks programs that outlived their deadline because their node stood still. Called before any
// node runs, because another node may start the same job in this second.
void World::see_what_outlived(Node& node) const {
    for (auto& [key, copy] : node.copies)
        copy.late |= !copy.dies_at && node.clock >= copy.killed_at + std::chrono::seconds(2);
}

void World::live_node(Node& node) {
    const CopyRules rules(random_, faulty());
    for (auto& [key, copy] : node.copies) rules.live(copy, peer_failed(node, copy), node.clock);
    if (node.worker) {
        if (second_ >= node.frozen_until) work(node);
        return;
    }
    std::erase_if(node.copies, [](const auto& item) { return item.second.gone; });
    if (node.pilot || !node.copies.empty()) return;
    if (!node.back_at) node.back_at = second_ + random_.between(1, faulty() ? 60 : 5);
    if (second_ >= *node.back_at) start_worker(node);
}

// Runs one turn of roll-worker's loop.
void World::work(Node& node) {
    take_in(node);
    node.worker->core.on_clock(node.clock);
    carry_out(node);
    check_obeyed(node);
    look(node);
    say(node);
    carry_out(node);
    leave(node);
}

void World::take_in(Node& node) {
    RollWorker& worker = *node.worker;
    worker.obeyed = std::exchange(worker.heard, {});
    for (const Word& word : worker.obeyed) worker.core.on_answer(word.answer, node.clock);
    worker.saw.reset();
    while (!worker.volume.empty() && worker.volume.begin()->first <= node.clock) {
        const auto event = worker.volume.extract(worker.volume.begin()).mapped();
        tell(worker.core, event, node.clock);
        if (const auto* looked = std::get_if<agent::Looked>(&event))
            worker.saw = Beat{0, looked->look->incarnation, looked->look->counter};
    }
    for (auto& [key, copy] : node.copies) {
        for (const agent::ProcessEvent& event : std::exchange(copy.said, {})) {
            totals_.leashes += std::holds_alternative<agent::LeashRanOut>(event);
            if (const auto* said = std::get_if<agent::Reported>(&event)) {
                const auto* pruned = std::get_if<protocol::CheckpointPruned>(&said->report);
                if (pruned != nullptr) auditor_.deleted(key.job, pruned->step, pruned->writer);
            }
            tell(worker.core, event, node.clock);
        }
    }
    std::erase_if(node.copies, [](const auto& item) { return item.second.gone; });
}

void World::carry_out(Node& node) {
    const CopyRules rules(random_, faulty());
    const auto with = [&](const AttemptKey& key, const auto& what) {
        if (const auto found = node.copies.find(key); found != node.copies.end())
            what(found->second);
    };
    RollWorker& worker = *node.worker;
    for (const agent::Effect& effect : worker.core.take_effects()) {
        std::visit(
            Overload{[&](const agent::Start& e) {
                         Copy& copy = node.copies[e.order.attempt];
                         copy = rules.start(e, node.clock);
                         copy.late = worker.stood_at.has_value();
                         check_started(node, copy);
                     },
                     [&](const agent::SetLeash& e) {
                         with(e.attempt, [&](Copy& copy) { copy.killed_at = e.killed_at; });
                     },
                     [&](const agent::Tell& e) {
                         with(e.attempt, [&](Copy& copy) { rules.tell(copy, e.command); });
                     },
                     [&](const agent::Terminate& e) {
                         with(e.attempt, [&](Copy& copy) { rules.terminate(copy); });
                     },
                     [&](const agent::Kill& e) {
                         with(e.attempt, [&](Copy& copy) { rules.kill(copy, node.clock); });
                     },
                     [&](const agent::Publish& e) { carry_out(node, e); },
                     [&](const agent::Remember& e) { node.remembered[e.entry.attempt] = e.entry; },
                     [&](const agent::Forget& e) { node.remembered.erase(e.attempt); },
                     [&](const agent::HeartbeatNow&) { worker.changed = true; },
                     [&](const agent::HeartbeatSoon&) { worker.changed = true; },
                     [](const agent::DumpStacks&) {}, [](const agent::Note&) {}},
            effect);
    }
}

// Publishes a checkpoint. The rename may take a while, come too late or fail. roll-worker hears of
// the result even later.
void World::carry_out(Node& node, const agent::Publish& publish) {
    const Instant at = node.clock + std::chrono::seconds(chance(20) ? random_.between(1, 20) : 0);
    agent::Published result{.attempt = publish.attempt, .step = publish.step, .done = {}};
    if (at >= publish.before) {
        result.done =
            fail(ErrorCode::Unavailable, "the lease ended before the checkpoint was published");
    } else if (chance(5)) {
        result.done = fail(ErrorCode::Failed, "no such directory");
    } else {
        // A checkpoint must never replace an existing one.
        ROLL_CHECK(volume_.insert(publish.to).second);
        auditor_.wrote(publish.attempt.job, publish.step, publish.attempt.token);
    }
    node.worker->volume.emplace(at + std::chrono::seconds(random_.between(0, 1)), result);
}

// Reads the beacon as it was up to `volume_delay` ago. A broken volume may show older records than
// before.
void World::look(Node& node) {
    if (node.worker->core.look_due(node.clock).empty()) return;
    const auto& volume = node.worker->volume;  // read the beacon only once at a time
    if (std::ranges::any_of(volume, [](const auto& item) {
            return std::holds_alternative<agent::Looked>(item.second);
        }))
        return;
    if (second_ < node.blind_until || chance(5)) return;
    const int shown = std::max(second_ - random_.between(0, 3), chance(1) ? 0 : node.shown);
    node.shown = shown;
    const auto found = std::ranges::find_if(beacon_.rbegin(), beacon_.rend(),
                                            [&](const Beat& beat) { return beat.second <= shown; });
    if (found == beacon_.rend()) return;
    const Instant ended = node.clock + std::chrono::seconds(chance(10) ? random_.between(1, 5) : 0);
    node.worker->volume.emplace(
        ended, agent::Looked{agent::Look{found->incarnation, found->counter, node.clock, ended}});
}

void World::say(Node& node) {
    RollWorker& worker = *node.worker;
    const bool due = !worker.beat_at || random_.percent(75);
    if (!due && !std::exchange(worker.changed, false)) return;
    worker.beat_at = node.clock;
    Said said{worker.core.heartbeat(node.clock)};
    worker.said = said.heartbeat.sequence;
    if (in_bytes_) said.frame = protocol::encode(said.heartbeat);
    totals_.messages += in_bytes_;
    send(node, node.mute_until,
         [this, &node, said = std::move(said), life = life_] { arrive(node, said, life); });
}

// Ends a roll-worker that was asked to end: as soon as rolld knows of all ends or, if rolld does
// not answer, a few seconds after the programs have ended.
void World::leave(Node& node) {
    RollWorker& worker = *node.worker;
    if (!worker.ending) return;
    if (worker.core.idle() && !worker.leaves_at)
        worker.leaves_at = node.clock + std::chrono::seconds(3);
    if (!worker.core.settled(node.clock) && !(worker.leaves_at && node.clock >= *worker.leaves_at))
        return;
    node.worker.reset();
}

// Checks the main promise from outside: a job never runs twice at a time, and no slot, GPU,
// CPU or memory is used twice.
void World::check_started(const Node& node, const Copy& started) const {
    if (started.late || forsaken_.contains(started.key())) return;
    // The attempt is unknown to the rolld that took over.
    const bool forgotten = started.key().token.incarnation < reign_;
    if (audited_ == ledger_.size() && !forgotten)
        ROLL_CHECK(auditor_.is_current(started.key(), node.name));
    std::map<int, int> used;  // by GPU: hundredths in use
    std::int64_t memory = started.order.memory;
    int cpus = started.order.cpus;
    for (const Node& other : nodes_) {
        for (const auto& [key, copy] : other.copies) {
            const bool stands_still = second_ < other.suspended_until || copy.late;
            if (copy.gone || stands_still || &copy == &started || forsaken_.contains(key)) continue;
            ROLL_CHECK(key.job != started.key().job || key.token == started.key().token);
            if (&other != &node) continue;
            for (int slot : copy.order.slots)
                ROLL_CHECK(!std::ranges::count(started.order.slots, slot));
            for (int gpu : copy.order.gpus) used[gpu] += copy.order.gpu_percent;
            memory += copy.order.memory;
            cpus += copy.order.cpus;
        }
    }
    for (int gpu : started.order.gpus) ROLL_CHECK(used[gpu] + started.order.gpu_percent <= 100);
    ROLL_CHECK(memory <= node.memory && cpus <= node.cpus);
}

bool World::peer_failed(const Node& node, const Copy& copy) const {
    if (copy.order.nodes == 1) return false;
    return std::ranges::any_of(nodes_, [&](const Node& other) {
        if (&other == &node) return false;
        const auto entry = other.remembered.find(copy.key());
        return entry != other.remembered.end() && entry->second.phase == protocol::Phase::Ended &&
               entry->second.outcome != Outcome::Done;
    });
}

}  // namespace roll::sim
