// Everything that affects a world from outside: users, operators and failing machines.
#include <algorithm>

#include "common/check.hpp"
#include "common/json.hpp"
#include "common/spec/schema/array.hpp"
#include "tests/sim/world.hpp"

namespace roll::sim {

using core::JobPhase;

namespace {

// Returns the user who submits the job with this key.
std::string user_of(const std::string& key) { return key.size() % 2 == 0 ? "ann" : "bob"; }

}  // namespace

// Adds a share of a GPU, segments, spares and variants to the job.
void World::invent_shapes(spec::JobSpec& spec) {
    spec::Resources& wanted = spec.resources;
    if (wanted.gpus_per_node == 1 && random_.percent(40))
        wanted.gpu_percent = random_.between(1, 3) * 25;
    if (random_.percent(30)) wanted.memory = random_.between(1, 6) * kGibibyte;
    if (random_.percent(20)) wanted.cpus = random_.between(1, 3);
    if (wanted.nodes == 2 && random_.percent(30)) wanted.segment = 2;
    if (wanted.nodes == 4 && random_.percent(30)) wanted.segment = random_.percent(50) ? 2 : 4;
    if (wanted.nodes < 3 && random_.percent(15)) wanted.spares = random_.between(1, 2);
    for (int i = random_.percent(12) ? random_.between(1, 2) : 0; i > 0; --i) {
        spec::Resources other = wanted;
        other.nodes = random_.between(1, 2);
        other.segment = 0;
        if (random_.percent(30)) other.memory = random_.between(0, 3) * kGibibyte;
        other.slots_per_node = random_.between(1, 3);
        if (random_.percent(50)) other.time = std::chrono::seconds(random_.between(20, 120));
        spec.variants.push_back(other);
    }
    // The document, which the worker gets, must have the variants, too.
    Json document = Json::object();
    for (std::size_t i = 0; i < spec.variants.size(); ++i)
        document["resources"]["variants"].push_back(Json::object());
    spec.document = document.dump();
}

spec::JobSpec World::invent(int number) {
    spec::JobSpec spec;
    spec.name = "job" + std::to_string(number);
    spec.kind = random_.percent(60) ? spec::JobKind::Train : spec::JobKind::Command;
    spec.resources.nodes = random_.percent(70) ? 1 : random_.between(2, 4);
    spec.resources.slots_per_node = random_.between(1, 3);
    spec.resources.gpus_per_node = random_.percent(70) ? 0 : 1;
    if (random_.percent(25)) spec.resources.time = std::chrono::seconds(random_.between(20, 120));
    invent_shapes(spec);
    spec.retry = {.infra = random_.between(0, 4), .app = random_.between(0, 2)};
    spec.retry.timeout = random_.percent(30) ? random_.between(1, 2) : 0;
    spec.retry.no_progress = random_.between(0, 3);
    spec.retry.backoff = std::chrono::seconds(random_.between(1, 3));
    if (random_.percent(20))
        spec.retry.on_exit[1] = {static_cast<spec::OnExit>(random_.between(0, 2)), "one"};
    if (random_.percent(20)) spec.retry.on_log = {{"x", {spec::OnExit::Retry, ""}}, {"y", {}}};
    if (random_.percent(20)) spec.retry.on_log.push_back({"z", {spec::OnExit::Stop, "z"}});
    if (random_.percent(30)) spec.hang_after = std::chrono::seconds(random_.between(15, 60));
    spec.priority = random_.percent(70) ? 0 : random_.between(-2, 2);
    spec.hold = random_.percent(8);
    spec.output = "/runs/x-{id}";
    if (random_.percent(15)) spec.begin = now() + std::chrono::seconds(random_.between(-20, 300));
    if (random_.percent(15)) spec.deadline = now() + std::chrono::seconds(random_.between(5, 600));
    if (random_.percent(12)) {
        const int first = random_.between(0, 9);
        spec.array = spec::parse_array(std::to_string(first) + "-" +
                                       std::to_string(first + random_.between(0, 4)))
                         .value();
        spec.array->limit = random_.between(0, 2);
        if (random_.percent(50)) put_behind_array(spec);
    }
    if (spec.kind == spec::JobKind::Train && random_.percent(60)) spec.export_document = "{}";
    for (int i = random_.percent(40) ? random_.between(1, 2) : 0; i > 0 && !known_.empty(); --i) {
        auto one = known_.begin();
        std::advance(one, random_.between(0, static_cast<int>(known_.size()) - 1));
        const auto condition = static_cast<spec::After::Condition>(random_.between(0, 3));
        spec.after.push_back({condition, one->second});
    }
    return spec;
}

// Returns the content of this world's rolld.yaml.
spec::Policy World::invent_policy() {
    spec::Policy policy;
    policy.backfill = random_.percent(85);
    if (random_.percent(40)) policy.starve_after = std::chrono::seconds(random_.between(20, 300));
    policy.preempt = random_.percent(40);
    policy.min_run = std::chrono::seconds(random_.between(0, 20));
    policy.bad_nodes.failures = random_.percent(50) ? random_.between(1, 3) : 0;
    policy.bad_nodes.within = std::chrono::seconds(random_.between(20, 600));
    policy.bad_nodes.exclude_for = std::chrono::seconds(random_.between(5, 200));
    if (random_.percent(40)) policy.half_life = std::chrono::seconds(random_.between(30, 600));
    if (random_.percent(50)) return policy;
    const auto quota = [&](bool with_jobs) {
        spec::Quota made;
        if (random_.percent(60)) made.slots = random_.between(1, 6);
        if (random_.percent(40)) made.gpus = random_.between(0, 3);
        if (random_.percent(20)) made.gpu_hours = random_.between(0, 1);
        if (with_jobs && random_.percent(30)) made.jobs = random_.between(2, 8);
        return made;
    };
    policy.accounts["all"].quota = quota(false);
    for (const char* name : {"lab", "team"}) {
        spec::Account& account = policy.accounts[name];
        account.parent = random_.percent(60) ? "all" : "";
        account.share = random_.between(1, 3);
        account.quota = quota(true);
        account.quota.borrow_slots = random_.between(0, 3);
        account.quota.borrow_gpus = random_.between(0, 1);
    }
    policy.accounts["lab"].users = {"ann"};
    policy.accounts["team"].users = {"ann", "bob"};
    if (random_.percent(30)) policy.users["*"].quota = quota(true);
    return policy;
}

// Adds the job to an open group of its user, if there is one.
void World::put_into_open(const std::string& key, spec::JobSpec& spec) {
    for (const auto& [other, id] : known_) {
        if (keys_.at(other).open && user_of(other) == user_of(key)) spec.into = id;
    }
}

// Makes the job depend on an array.
void World::put_behind_array(spec::JobSpec& spec) {
    for (const auto& [key, id] : known_) {
        if (!keys_.at(key).array) continue;
        const auto condition = static_cast<spec::After::Condition>(random_.between(0, 3));
        spec.after.push_back({condition, id});
        return;
    }
}

void World::plan_open_jobs() {
    for (const char* key : {"open1", "open2", "open10"}) {
        if (!random_.percent(20)) continue;
        later(random_.between(0, 400), [this, key] {
            spec::JobSpec& spec = keys_[key];
            spec.name = key;
            spec.open = true;
            spec.output = "/runs/open-{id}";
            submit(key, spec);
        });
    }
}

void World::plan_users() {
    plan_open_jobs();
    const int count = random_.between(4, 18);
    for (int i = 0; i < count; ++i) {
        later(random_.between(0, 700), [this, i] {
            const std::string key = "key" + std::to_string(i);
            keys_[key] = invent(i);
            spec::JobSpec& spec = keys_[key];
            if (!spec.array && spec.after.empty() && !spec.deadline && random_.percent(8))
                spec.cron = "*/2 * * * *";
            if (spec.cron.empty() && random_.percent(50)) put_into_open(key, spec);
            if (!keys_[key].array && spec.cron.empty() && random_.percent(15)) {
                spec::JobSpec next = invent(100 + i);
                next.array.reset();
                next.output = "/then/{previous.output}";
                keys_[key].then = {next};
            }
            submit(key, keys_[key]);
        });
    }
}

// Submits a job. The user repeats the submission with the same key until there is an answer, and
// sometimes afterwards.
void World::submit(const std::string& key, const spec::JobSpec& spec) {
    if (known_.contains(key) && !chance(30)) return;
    later(random_.between(3, 12), [this, key, spec] { submit(key, spec); });
    send([this, key, spec] {
        if (!engine_) return;
        inbox_.push_back({core::Submit{key, user_of(key), spec}, [this, key](const auto& reply) {
                              if (!reply) {
                                  if (reign_ > 0 && reply.error().code == ErrorCode::NotFound)
                                      return;
                                  ROLL_CHECK(reply.error().code == ErrorCode::Refused);
                                  const std::string& why = reply.error().message;
                                  ROLL_CHECK(full_ || why.find("jobs") != why.npos ||
                                             why.find("cannot contain this job") != why.npos ||
                                             (reign_ > 0 && why.find(" belongs to ") != why.npos) ||
                                             why.ends_with("no job can be added to it"));
                                  return;
                              }
                              const JobId id = engine_->state().keys.at(user_of(key)).at(key);
                              auditor_.acknowledged(key, id);
                              send([this, key, id, reign = reign_] {
                                  if (reign != reign_) return;
                                  ROLL_CHECK(known_.emplace(key, id).first->second == id);
                              });
                          }});
    });
    if (!known_.contains(key) || !chance(20)) return;
    spec::JobSpec other = spec;
    other.name += "-other";
    send([this, key, other, reign = reign_] {
        if (!engine_ || reign != reign_) return;
        inbox_.push_back({core::Submit{key, user_of(key), other}, [](const auto& reply) {
                              ROLL_CHECK(!reply && reply.error().code == ErrorCode::Refused);
                          }});
    });
}

// Makes at most one random fault or request. Called each second.
void World::meddle() {
    // Reduce other faults. Otherwise few workers and rollds survive to notice a dead node.
    if (frail_ > 0 && random_.percent(80)) return;
    // True: choose among all nodes, including those of allocations.
    const bool any = random_.percent(50);
    const auto last = static_cast<int>(any ? nodes_.size() : machines_) - 1;
    Node& node = nodes_[static_cast<std::size_t>(random_.between(0, last))];
    const JobId job{static_cast<std::uint64_t>(random_.between(1, 40))};
    switch (random_.between(1, 200)) {
        case 1: inbox_.push_back({core::Cancel{job, "not wanted"}}); break;
        case 2: inbox_.push_back({core::Hold{job, true}}); break;
        case 3:
        case 4: inbox_.push_back({core::Hold{job, false}}); break;
        case 5: inbox_.push_back({core::SetPriority{job, random_.between(-2, 2)}}); break;
        case 6: inbox_.push_back({core::Drain{node.name, true}}); break;
        case 7:
        case 8: inbox_.push_back({core::Drain{node.name, false}}); break;
        case 17:
            inbox_.push_back(
                {core::SetBegin{job, now() + std::chrono::seconds(random_.between(-5, 200))}});
            break;
        case 18:
        case 19: inbox_.push_back({core::AskCheckpoint{job}}); break;
        case 36:
        case 37:
            inbox_.push_back(
                {core::AskTraining{job, RequestKind::StopAtStep, random_.between(1, 100)}});
            break;
        case 35: inbox_.push_back({core::Requeue{job}}); break;
        case 31:
        case 32: cancel_starting(); break;
        case 34: close_open(); break;
        case 38:
        case 39: halve(); break;
        case 40:
        case 41: end_allocation(); break;
        case 28: inbox_.push_back({core::StopDispatch{"maintenance"}}); break;
        case 29:
        case 30: inbox_.push_back({core::StopDispatch{}}); break;
        case 9:
        case 20:
        case 21: break_something(node); break;
        case 10: die(random_.percent(30)); break;
        case 33:
            if (random_.percent(10)) take_over();
            break;
        case 11: crash_ = Crash::BeforeCommit; break;
        case 12: crash_ = Crash::AfterCommit; break;
        case 13: full_ = true; break;
        case 14:
        case 15:
        case 16: full_ = false; break;
        case 22: stalled_until_ = second_ + random_.between(1, 40); break;
        case 23:
        case 24: slow_commit_ = random_.between(1, 20); break;
        case 25: volume_lost_until_ = second_ + random_.between(1, 60); break;
        case 26:
        case 27:
            if (clock_jumps_) clock_is_off_ += random_.between(-600, 600);
            break;
        default: break;
    }
    if (!engine_) inbox_.clear();
}

// Makes a roll-worker die or freeze, alone or with its node, asks it to end, or cuts it off.
void World::break_something(Node& node) {
    const int what = random_.between(1, 10);
    const int how_long = random_.between(1, 80);
    if (what == 3) {
        ask_to_end(node);
    } else if (what == 4) {
        node.frozen_until = second_ + how_long;
    } else if (what <= 6 && what > 4) {
        suspend(node, second_ + how_long, what == 5);
    } else if (what > 6) {
        cut(node);
    }
    if (what < 3) end_worker(node, what == 1);
}

// Asks a roll-worker to end, as SIGTERM or a signal of Slurm does.
void World::ask_to_end(Node& node) {
    if (!node.worker) return;
    node.worker->ending = true;
    node.worker->core.on_drain(node.clock);
}

// Suspends a node. If its clock stops, as in a paused virtual machine, its roll-worker cannot know
// how long the suspension was until it hears rolld or reads the beacon. Programs on the node may
// therefore outlive their deadline. rolld and the volume may become reachable later than the node.
void World::suspend(Node& node, int until, bool clock_stops) {
    node.suspended_until = until;
    node.clock_stops = clock_stops;
    if (!clock_stops) return;
    for (auto& [key, copy] : node.copies) copy.late = true;
    if (node.worker) node.worker->stood_at = node.worker->said;
    const int back = until + random_.between(0, 60);
    if (random_.percent(50)) node.blind_until = back;
    if (random_.percent(50)) node.mute_until = node.deaf_until = back;
}

// Cancels a job that was placed and has not started.
void World::cancel_starting() {
    if (!engine_) return;
    for (const auto& [id, job] : engine_->state().jobs) {
        if (!job.attempt || job.attempt->started_at || job.cancel_requested) continue;
        if (random_.percent(50)) continue;
        inbox_.push_back({core::Cancel{id, "it does not start"}});
        return;
    }
}

// Stops a task of an array, as a sweep with successive halving does.
void World::halve() {
    if (!engine_) return;
    for (const auto& [id, job] : engine_->state().jobs) {
        if (!job.spec.array || core::is_over(job.phase) || random_.percent(50)) continue;
        inbox_.push_back({core::Cancel{.job = id, .reason = "not among the best", .halved = true}});
        return;
    }
}

void World::close_open() {
    if (!engine_) return;
    for (const auto& [id, job] : engine_->state().jobs)
        if (job.spec.open && random_.percent(50)) inbox_.push_back({core::Close{id}});
}

// Cuts a node off: from rolld in one or both directions, or from the volume.
void World::cut(Node& node) {
    const int until = second_ + random_.between(1, 80);
    node.held_up = random_.percent(50);
    if (random_.percent(60)) node.mute_until = until;
    if (random_.percent(60)) node.deaf_until = until;
    if (random_.percent(40)) node.blind_until = until;
}

// Ends all faults. Repairs machines, and releases or cancels jobs that are held or can never run.
void World::calm_down() {
    full_ = false;
    crash_ = Crash::None;
    network_.clear();
    if (slurm_) add_queue();
    later(300, [this] {  // some jobs could never start because of a quota
        policy_.accounts.clear();
        policy_.users.clear();
        if (engine_) inbox_.push_back({core::SetPolicy{policy_}});
    });
    stalled_until_ = std::min(stalled_until_, second_);
    down_until_ = std::min(down_until_, second_ + 2);
    slow_commit_ = volume_lost_until_ = clock_is_off_ = 0;
    for (Node& node : nodes_) {
        node.frozen_until = node.suspended_until = 0;
        node.deaf_until = node.mute_until = node.blind_until = 0;
    }
    for (const auto& [key, spec] : keys_) submit(key, spec);
    for (int again = 10; again <= 2000; again += again < 200 ? 10 : 100) {
        later(again, [this] {
            if (!engine_) return;
            inbox_.push_back({core::StopDispatch{}});
            for (const Node& node : nodes_) inbox_.push_back({core::Drain{node.name, false}});
            for (const auto& [id, job] : engine_->state().jobs) {
                if (!job.spec.cron.empty()) inbox_.push_back({core::Cancel{id, "enough"}});
                if (job.spec.open) inbox_.push_back({core::Close{id}});
                if (job.held) inbox_.push_back({core::Hold{id, false}});
            }
        });
    }
    for (const int at : {600, 1200, 2400}) later(at, [this] { cancel_impossible(); });
}

void World::cancel_impossible() {
    if (!engine_) return;
    for (const auto& [id, job] : engine_->state().jobs) {
        bool possible = job.spec.open;  // a group runs nothing
        for (int i = 0; i < job.spec.shapes(); ++i) {
            const spec::Resources& wanted = job.spec.shape(i);
            possible = possible || could_be_ordered(wanted) || machines_hold(wanted);
        }
        if (!possible) inbox_.push_back({core::Cancel{id, "it can never run here"}});
    }
}

// Returns whether the machines that are always there could hold the job.
bool World::machines_hold(const spec::Resources& wanted) const {
    int fitting = 0;
    std::map<std::string, int> in_segment;
    for (std::size_t i = 0; i < machines_; ++i) {
        const Node& node = nodes_[i];
        if (node.slots < wanted.slots_per_node || node.gpus < wanted.gpus_per_node) continue;
        if (node.memory < wanted.memory || node.cpus < wanted.cpus) continue;
        ++fitting;
        if (!node.segment.empty()) ++in_segment[node.segment];
    }
    int whole = 0;
    for (const auto& [segment, count] : in_segment)
        whole += wanted.segment > 1 ? count / wanted.segment * wanted.segment : 0;
    return fitting >= wanted.workers() && (wanted.segment <= 1 || whole >= wanted.nodes);
}

// Returns whether allocations alone could hold the job.
bool World::could_be_ordered(const spec::Resources& wanted) const {
    if (!slurm_ || wanted.segment > 1 || queue_.min_percent > 0) return false;
    int most = queue_.max_jobs * queue_.nodes;
    if (queue_.max_nodes > 0) most = std::min(most, queue_.max_nodes / queue_.nodes * queue_.nodes);
    return queue_.slots >= wanted.slots_per_node && queue_.gpus >= wanted.gpus_per_node &&
           queue_.memory >= wanted.memory && queue_.slots >= wanted.cpus &&
           most >= wanted.workers() && wanted.time <= queue_.time - queue_.margin();
}

bool World::done() const {
    if (!engine_ || second_ < kFaultsEnd + 700) return false;
    if (slurm_ && (slurm_->any_alive() || !engine_->state().allocations.empty())) return false;
    return std::ranges::all_of(engine_->state().jobs,
                               [](const auto& item) { return core::is_over(item.second.phase); });
}

}  // namespace roll::sim
