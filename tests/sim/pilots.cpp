// Slurm in a world: rolld's errands, and the workers that come and go with Slurm's jobs.
#include <algorithm>

#include "common/check.hpp"
#include "tests/sim/world.hpp"

namespace roll::sim {

constexpr const char* kPilotCluster = "c";
constexpr int kGiveBackSeconds = 150;  // two polls, two scancels, and the errands that still run

void World::plan_slurm() {
    if (random_.percent(40)) return;
    slurm_ = std::make_unique<FakeSlurm>(random_);
    spec::PilotQueue queue;
    queue.name = "q";
    queue.nodes = random_.between(1, 2);
    queue.slots = random_.between(2, 4);
    queue.gpus = random_.between(0, 2);
    if (random_.percent(60)) queue.memory = random_.between(2, 8) * kGibibyte;
    queue.time = std::chrono::seconds(random_.between(200, 900));
    queue.handover = std::chrono::seconds(random_.between(10, 40));
    queue.idle = std::chrono::seconds(random_.between(5, 90));
    queue.max_jobs = random_.between(1, 4);
    queue.backlog = random_.between(1, 3);
    if (random_.percent(30)) queue.max_nodes = random_.between(queue.nodes, 6);
    if (random_.percent(25)) queue.min_percent = random_.between(1, 100);
    queue_ = queue;
    if (random_.percent(40)) make_frail();
    add_queue();
}

// Makes the nodes of allocations fail often, and reduces other capacity and faults. Jobs then run
// in allocations, and rolld often lives long enough to notice a dead node.
void World::make_frail() {
    frail_ = random_.between(10, 60);
    for (std::size_t i = 0; i < machines_; ++i) {
        nodes_[i].slots = 1;
        nodes_[i].gpus = 0;
        nodes_[i].gpu_numa.clear();
    }
}

// Adds the queue until rolld has it. After the faults, also resumes it, because failures may have
// paused it.
void World::add_queue() {
    if (engine_ && !engine_->state().queues.contains("q"))
        inbox_.push_back({core::AddQueue{queue_}});
    if (engine_ && !faulty() && engine_->state().queues.contains("q"))
        inbox_.push_back({core::PauseQueue{"q", false}});
    if (second_ < kFaultsEnd + 600) later(random_.between(20, 60), [this] { add_queue(); });
}

// Closes or cancels an allocation, as an operator does.
void World::end_allocation() {
    if (!engine_) return;
    for (const auto& [id, allocation] : engine_->state().allocations) {
        if (random_.percent(50)) continue;
        if (random_.percent(50))
            inbox_.push_back({core::CloseAllocation{id}});
        else
            inbox_.push_back({core::CancelAllocation{id}});
        return;
    }
}

void World::open_desk() {
    if (slurm_) desk_.emplace(kPilotCluster, pilots::DeskRules{}, steady());
}

// Runs `what` at the end of an errand. Every errand ends by its deadline, so the end is not
// affected when the faults stop.
void World::errand_later(int delay, std::function<void()> what) {
    errands_[{second_ + delay, order_++}] = std::move(what);
}

void World::run_errands() {
    if (!slurm_ || !desk_ || behind_) return;
    for (core::Input& input : desk_->withdraw(engine_->state()))
        inbox_.push_back({std::move(input)});
    const auto errand = desk_->next(engine_->state(), steady());
    if (!errand) return;
    if (const auto* order = std::get_if<pilots::Submit>(&*errand)) {
        at_slurm_ = true;
        return submit_order(*order);
    }
    if (std::holds_alternative<pilots::Poll>(*errand)) {
        ++totals_.polls;
        // Check that rolld polls at most every 5 s, and at most twice in 30 s. The first limit
        // allows one more poll after a silent worker's node was reported down. The second limit
        // does not apply while the report is not confirmed.
        const bool doubt = std::exchange(said_down_, false);
        ROLL_CHECK(!polled_ || second_ - *polled_ >= 5 || doubt);
        const bool unproven = said_down_at_ && second_ - *said_down_at_ <= 60;
        ROLL_CHECK(!polled_before_ || second_ - *polled_before_ >= 30 || unproven);
        polled_before_ = std::exchange(polled_, second_);
    }
    if (std::holds_alternative<pilots::AskNodes>(*errand)) {
        ++totals_.asked_nodes;
        ROLL_CHECK(!asked_nodes_ || second_ - *asked_nodes_ >= 3);
        asked_nodes_ = second_;
    }
    at_slurm_ = true;
    const int way = chance(frail_ > 0 ? 5 : 20) ? random_.between(1, 70) : random_.between(0, 2);
    if (!std::holds_alternative<pilots::Cancel>(*errand) &&
        chance(50))  // some answers describe the time of the question
        return errand_later(
            way, [this, life = life_, told = carry_out(*errand)] { bring_home(told, life); });
    errand_later(way,
                 [this, errand = *errand, life = life_] { bring_home(carry_out(errand), life); });
}

pilots::Outcome World::carry_out(const pilots::Errand& errand) {
    if (const auto* cancel = std::get_if<pilots::Cancel>(&errand))
        return slurm_->cancel(*cancel, faulty(), second_);
    if (const auto* nodes = std::get_if<pilots::AskNodes>(&errand))
        return slurm_->tell(*nodes, faulty(), second_);
    return slurm_->list(faulty(), second_);
}

// Carries out sbatch: it is refused, lost, or queued without an answer, now or much later.
void World::submit_order(const pilots::Submit& order) {
    ++totals_.orders;
    const int way = chance(frail_ > 0 ? 5 : 20) ? random_.between(1, 70) : random_.between(0, 2);
    const int fate = faulty() ? random_.between(1, 100) : 100;
    errand_later(way, [this, order, fate, life = life_] {
        if (slurm_->away(second_)) return bring_home(slurm_->unsure(order), life);
        if (fate <= 8) return bring_home(slurm_->refuse(order), life);
        if (fate <= 16) return bring_home(slurm_->unsure(order), life);
        if (fate <= 24) {
            bring_home(slurm_->unsure(order), life);
            errand_later(random_.between(1, random_.percent(50) ? 100 : 500),
                         [this, order] { slurm_->submit(order, true, second_); });
            return;
        }
        bring_home(slurm_->submit(order, fate > 32, second_), life);
    });
}

void World::bring_home(const pilots::Outcome& outcome, std::uint64_t life) {
    if (!engine_ || !desk_ || life != life_) return;
    at_slurm_ = false;
    note_answer(outcome);
    for (core::Input& input : desk_->take(outcome, engine_->state(), steady()))
        inbox_.push_back({std::move(input)});
}

void World::live_slurm() {
    if (!slurm_) return;
    while (!errands_.empty() && errands_.begin()->first.first <= second_)
        errands_.extract(errands_.begin()).mapped()();
    complete_allocations();
    lose_nodes();
    const FakeSlurm::Changes changes = slurm_->live(faulty(), second_);
    for (const SlurmJob* job : changes.began) {
        for (int i = 0; i < job->queue.nodes; ++i) start_pilot(*job, i);
    }
    for (const SlurmJob* job : changes.warned)
        for (Node* node : nodes_of(*job)) ask_to_end(*node);
    for (const SlurmJob* job : changes.suspended) {
        for (Node* node : nodes_of(*job)) {
            if (second_ >= node->suspended_until) node->clock_stops = false;
            node->suspended_until = std::max(node->suspended_until, job->suspended_until);
        }
    }
    for (const SlurmJob* job : changes.ended)
        for (Node* node : nodes_of(*job)) end_worker(*node, true);
    for (const std::string& name : changes.died)
        if (Node* node = node_of(name)) end_worker(*node, true);
    for (const std::string& name : changes.cut) {
        if (Node* node = node_of(name))
            node->mute_until = node->deaf_until = second_ + random_.between(5, 80);
    }
    check_given_back();
    note_excess();
}

std::vector<World::Node*> World::nodes_of(const SlurmJob& job) {
    std::vector<Node*> nodes;
    for (Node& node : nodes_) {
        if (node.pilot && node.pilot->key == job.key && node.pilot->slurm_job == job.id)
            nodes.push_back(&node);
    }
    return nodes;
}

World::Node* World::node_of(const std::string& name) {
    const auto found = std::ranges::find(nodes_, name, &Node::name);
    return found == nodes_.end() ? nullptr : &*found;
}

// Makes busy nodes of allocations fail. A failure of an idle node would have no effect.
void World::lose_nodes() {
    if (!faulty() || frail_ == 0) return;
    for (const Node& node : nodes_) {
        if (!node.pilot || node.copies.empty()) continue;
        if (random_.between(1, frail_) > 1) continue;
        slurm_->lose_node(node.name, second_);
        ++totals_.nodes_lost;
    }
}

// Ends allocations whose workers have all ended, except on a node that is dead with all that ran
// there.
void World::complete_allocations() {
    for (const SlurmJob& job : slurm_->jobs()) {
        if (job.state != "RUNNING" || !job.failed.empty()) continue;
        const std::vector<Node*> nodes = nodes_of(job);
        const bool left = std::ranges::none_of(
            nodes, [](const Node* node) { return node->worker || !node->copies.empty(); });
        if (!nodes.empty() && left) slurm_->complete(job.id, job.key, second_);
    }
}

// Counts the allocations beyond the limit at one time. There can be such allocations because
// answers were lost.
void World::note_excess() {
    const auto& jobs = slurm_->jobs();
    const long alive = std::ranges::count_if(jobs, &SlurmJob::alive);
    totals_.excess_most = std::max(totals_.excess_most, alive - queue_.max_jobs);
    for (; seen_ < jobs.size(); ++seen_) {
        ++totals_.allocations;
        totals_.doubled += std::ranges::any_of(jobs, [&](const SlurmJob& other) {
            return other.alive() && other.key == jobs[seen_].key && other.id != jobs[seen_].id;
        });
    }
}

void World::start_pilot(const SlurmJob& job, int index) {
    if (chance(10)) return;  // the node is broken and runs no worker
    Node node{.name = node_name(job, index)};
    node.slots = job.queue.slots;
    node.gpus = job.queue.gpus;
    node.memory = job.queue.memory;
    node.cpus = job.queue.slots;
    node.segment = "s" + std::to_string(index);
    node.pilot = protocol::PilotNote{job.key, job.id, 100'000 + job.ends_at};
    set_clock(node);
    nodes_.push_back(std::move(node));
    start_worker(nodes_.back());
}

// Checks that Slurm's jobs that rolld does not want are not held for long once there are no faults.
void World::check_given_back() {
    if (!engine_ || faulty()) {
        unused_.clear();
        return;
    }
    const core::State& state = engine_->state();
    for (const SlurmJob& job : slurm_->jobs()) {
        const auto wanted = [&](const auto& item) {
            return desk_->key_of(state, item.first) == job.key && !item.second.releasing &&
                   (item.second.slurm_job.empty() || item.second.slurm_job == job.id);
        };
        if (!job.alive() || std::ranges::any_of(state.allocations, wanted)) {
            unused_.erase(job.id);
            continue;
        }
        const int since = unused_.emplace(job.id, second_).first->second;
        ROLL_CHECK(second_ - since < kGiveBackSeconds);
        totals_.unused_most = std::max<long>(totals_.unused_most, second_ - since);
    }
}

}  // namespace roll::sim
