#include "tests/sim/world.hpp"

#include "common/check.hpp"
#include "tests/sim/frames.hpp"

namespace roll::sim {

World::World(std::uint64_t seed) : random_(seed) {
    const int count = random_.between(1, 4);
    for (int i = 0; i < count; ++i) {
        nodes_.push_back({"n" + std::to_string(i), random_.between(1, 4), random_.between(0, 2)});
        if (random_.percent(75)) nodes_.back().memory = random_.between(1, 8) * kGibibyte;
        if (random_.percent(75)) nodes_.back().cpus = random_.between(1, 4);
        if (random_.percent(70)) nodes_.back().segment = "s" + std::to_string(i % 2);
        if (random_.percent(50)) nodes_.back().gpu_numa = {0, 1};
        nodes_.back().old = random_.percent(25);
        if (nodes_.back().old) nodes_.back().memory = nodes_.back().cpus = 0;
        nodes_.back().back_at = random_.between(0, 20);
        set_clock(nodes_.back());
    }
    machines_ = nodes_.size();
    policy_ = invent_policy();
    clock_jumps_ = random_.percent(30);
    in_bytes_ = seed % kInBytesOneIn == 5;
    if (seed % kStoredOneIn == 0) stored_ = std::make_unique<StoredLedger>(seed);
    boot();
    plan_users();
    plan_slurm();
    open_desk();
}

void World::run() {
    while (second_ < kFaultsEnd || !done()) {
        ROLL_CHECK(second_ < kEnd);  // all jobs must end before this second
        ++second_;
        if (second_ == kFaultsEnd) calm_down();
        deliver();
        live();
        live_slurm();
        deliver();
        serve();
        if (faulty()) meddle();
    }
    auditor_.finish(engine_->state());
    check_replay();
    totals_.seconds = second_;
    totals_.stored = stored_ != nullptr;
    totals_.with_slurm = slurm_ != nullptr;
    totals_.damaged = stored_ ? stored_->damaged() : 0;
    totals_.events = std::ssize(ledger_);
    totals_.jobs = std::ssize(engine_->state().jobs);
    for (const auto& [id, job] : engine_->state().jobs) {
        totals_.attempts += std::ssize(job.past);
        totals_.checkpoints += std::ssize(job.checkpoints);
    }
}

void World::later(int delay, std::function<void()> what) {
    network_[{second_ + delay, order_++}] = std::move(what);
}

// Returns the answer after encoding and decoding. Done in all worlds for answers that count
// silence, because they are rare.
protocol::Answer World::travelled(protocol::Answer said) {
    if (!in_bytes_ && said.counted == 0) return said;
    ++totals_.messages;
    const std::string frame = protocol::encode(said);
    if (totals_.messages % kBrokenOneIn == 0) {
        for (const std::string& broken : broken_frames(frame, totals_.messages))
            ROLL_CHECK(!protocol::decode_answer(broken));
    }
    const auto heard = protocol::decode_answer(frame);
    ROLL_CHECK(heard && *heard == said);
    return *heard;
}

// Sends a message. While there are faults, it may be lost, late or doubled.
void World::send(std::function<void()> what) {
    if (chance(15)) return;
    if (chance(10)) later(random_.between(1, 30), what);
    later(chance(10) ? random_.between(1, 50) : random_.percent(20), std::move(what));
}

// Sends a message between a node and rolld, unless the node is cut off.
void World::send(const Node& node, int cut_until, std::function<void()> what) {
    if (second_ >= cut_until) return send(std::move(what));
    if (node.held_up) later(cut_until - second_ + random_.between(0, 3), std::move(what));
}

void World::deliver() {
    while (!network_.empty() && network_.begin()->first.first <= second_) {
        const auto what = std::move(network_.begin()->second);
        network_.erase(network_.begin());
        what();
    }
}

}  // namespace roll::sim
