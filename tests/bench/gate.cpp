// Runs rolld's inner loops, each between two marks for callgrind. gate.py counts their
// instructions.
#include <array>
#include <map>
#include <string>

#include <valgrind/callgrind.h>

#include "common/protocol/worker.hpp"
#include "common/spec/check/check_job.hpp"
#include "common/spec/job/job_json.hpp"
#include "common/spec/schema/array.hpp"
#include "daemon/engine/engine.hpp"
#include "daemon/gateway/sessions.hpp"
#include "daemon/query/query.hpp"

namespace {

using namespace roll;

const Time kNow{std::chrono::hours(1)};

engine::Engine new_engine(int workers, int slots) {
    const auto commit = [](std::span<const core::Event>, Time) { return Result<void>(); };
    engine::Engine engine(core::State{}, {commit, [] { return Result<core::State>(); }});
    std::vector<core::Input> inputs = {core::Started{}};
    for (int i = 0; i < workers; ++i) {
        const std::string node = "n" + std::to_string(i);
        inputs.push_back(core::WorkerHello{node, node + "-1", slots, 0});
    }
    (void)engine.step(inputs, kNow);
    return engine;
}

core::Input submission(int number) {
    spec::JobSpec spec;
    spec.name = "gate";
    spec.output = "/runs/gate-{id}";
    spec.document = std::string(600, 'x');
    return core::Submit{"key" + std::to_string(number), "ann", std::move(spec)};
}

core::Input ended(WorkerId worker, AttemptKey attempt) {
    return core::MemberExited{worker, attempt, core::Outcome::Done, 0, ""};
}

// Returns inputs that start and end every running attempt.
std::vector<core::Input> ends_of(const core::State& state) {
    std::vector<core::Input> inputs;
    for (const JobId id : state.index.running) {
        const core::Attempt& attempt = *state.jobs.at(id).attempt;
        const WorkerId worker = attempt.places.front().worker;
        inputs.push_back(core::MemberStarted{worker, {id, attempt.token}});
        inputs.push_back(ended(worker, {id, attempt.token}));
    }
    return inputs;
}

// Runs jobs from submission to end on eight workers, with 64 submissions in each turn.
void run_jobs(int count) {
    engine::Engine engine = new_engine(8, 8);
    for (int sent = 0; sent < count || !engine.state().index.running.empty();) {
        std::vector<core::Input> inputs = ends_of(engine.state());
        for (int i = 0; i < 64 && sent < count; ++i) inputs.push_back(submission(sent++));
        (void)engine.step(inputs, kNow);
    }
}

engine::Engine& deep_queue() {
    static engine::Engine engine = [] {
        engine::Engine made = new_engine(8, 8);
        std::vector<core::Input> inputs;
        for (int i = 0; i < 20'000; ++i) inputs.push_back(submission(i));
        (void)made.step(inputs, kNow);
        return made;
    }();
    return engine;
}

// Runs turns with one submission and one job's end each, while 20,000 jobs wait.
void turn_deep_queue(int count) {
    static int number = 100'000;
    engine::Engine& engine = deep_queue();
    for (int i = 0; i < count; ++i) {
        const JobId id = *engine.state().index.running.begin();
        const core::Attempt& attempt = *engine.state().jobs.at(id).attempt;
        const WorkerId worker = attempt.places.front().worker;
        const AttemptKey key{id, attempt.token};
        (void)engine.step(std::array<core::Input, 1>{core::MemberStarted{worker, key}}, kNow);
        (void)engine.step(std::array<core::Input, 2>{ended(worker, key), submission(number++)},
                          kNow);
    }
}

// Runs two arrays to their ends; the second depends on the first.
void run_arrays(int count) {
    engine::Engine engine = new_engine(8, 8);
    std::vector<core::Input> inputs;
    for (const char* key : {"first", "second"}) {
        auto submit = std::get<core::Submit>(submission(0));
        submit.key = key;
        submit.spec.array = spec::Array{.indices = "1-" + std::to_string(count)};
        if (!inputs.empty()) submit.spec.after = {{spec::After::Condition::Ok, JobId{1}}};
        inputs.push_back(std::move(submit));
    }
    for (; !inputs.empty(); inputs = ends_of(engine.state())) (void)engine.step(inputs, kNow);
}

// Returns an engine with 5,000 running jobs, 50 on each worker.
engine::Engine& full_house() {
    static engine::Engine engine = [] {
        engine::Engine made = new_engine(100, 50);
        std::vector<core::Input> inputs;
        for (int i = 0; i < 5'000; ++i) inputs.push_back(submission(i));
        (void)made.step(inputs, kNow);
        inputs.clear();
        for (const core::Action& action : core::actions(made.state())) {
            const auto& start = std::get<core::StartMember>(action);
            inputs.push_back(core::MemberStarted{start.worker, start.attempt});
        }
        (void)made.step(inputs, kNow);
        return made;
    }();
    return engine;
}

// Returns a heartbeat of the first worker in full_house().
protocol::Heartbeat beat_of_house() {
    const core::State& state = full_house().state();
    const auto& [id, worker] = *state.workers.begin();
    protocol::Heartbeat beat;
    beat.node = worker.node;
    beat.session = worker.session;
    for (const auto& [job_id, job] : state.jobs) {
        if (job.attempt->places.front().worker != id) continue;
        protocol::RunningAttempt running;
        running.attempt = {job_id, job.attempt->token};
        running.phase = protocol::Phase::Running;
        beat.running.push_back(running);
    }
    return beat;
}

// Receives heartbeats that renew a worker's lease and change nothing else.
void hear_heartbeats(int count) {
    static gateway::Sessions sessions{gateway::LeaseRules{}};
    static protocol::Heartbeat beat = beat_of_house();
    const core::State& state = full_house().state();
    for (int i = 0; i < count; ++i) {
        ++beat.sequence;
        (void)sessions.hear(state, {"route", "key"}, beat, beat.sequence, gateway::Instant{});
    }
}

// Lists a page of jobs, as `rollctl jobs` does.
void list_jobs(int count) {
    const protocol::JobsArgs args{
        .limit = count, .fields = {"id", "name", "kind", "state", "submitted_at", "waiting"}};
    (void)query::jobs(deep_queue().state(), args, {}, kNow)->dump();
}

void explain_jobs(int count) {
    const auto first = deep_queue().state().next_job - 1;
    for (int i = 0; i < count; ++i)
        (void)query::holds(deep_queue().state(), JobId{first - static_cast<std::uint64_t>(i)},
                           kNow);
}

// Encodes a worker's heartbeat and decodes it again.
void code_heartbeats(int count) {
    protocol::Heartbeat beat;
    beat.node = beat.session = "n1";
    for (std::uint64_t i = 1; i <= 16; ++i) {
        protocol::RunningAttempt running;
        running.attempt = {JobId{i}, {1, 1}};
        running.phase = protocol::Phase::Running;
        running.progress = R"({"step": 100, "loss": 2.5})";
        beat.running.push_back(running);
    }
    for (int i = 0; i < count; ++i) (void)protocol::decode_heartbeat(protocol::encode(beat));
}

// Checks a job file; encodes its spec and decodes it again.
void read_specs(int count) {
    const Json document = {{"name", "gate"},
                           {"kind", "command"},
                           {"command", {"python3", "train.py", "--epochs", "3"}},
                           {"resources", {{"nodes", 2}, {"slots_per_node", 4}, {"time", "2h"}}},
                           {"retry", {{"infra", 3}, {"backoff", "5s"}}}};
    for (int i = 0; i < count; ++i)
        (void)spec::job_spec_from_json(spec::to_json(spec::check_job(document, "/").spec));
}

// The reference for the other loops: the same kinds of operations on maps and JSON, without Roll's
// code.
void reference(int count) {
    std::map<std::string, int> map;
    for (int i = 0; i < count; ++i) map["key of " + std::to_string(i * 7919 % count)] = i;
    Json list = nlohmann::json::array();
    for (const auto& [key, value] : map)
        if (value % 8 == 0) list.push_back({{"key", key}, {"value", value}});
    list = nlohmann::json::parse(list.dump());
}

struct Loop {
    const char* name;
    void (*run)(int count);
    int count;
};
constexpr std::array kLoops = {Loop{"reference", reference, 4000},
                               Loop{"jobs_submitted_placed_ended", run_jobs, 300},
                               Loop{"arrays_behind_arrays", run_arrays, 300},
                               Loop{"turns_before_20000_queued", turn_deep_queue, 40},
                               Loop{"heartbeats_heard_5000_running", hear_heartbeats, 200},
                               Loop{"page_of_jobs", list_jobs, 1000},
                               Loop{"explained_jobs", explain_jobs, 100},
                               Loop{"heartbeats_coded", code_heartbeats, 40},
                               Loop{"job_files_read", read_specs, 40}};

}  // namespace

int main() {
    (void)deep_queue();
    (void)full_house();
    for (const Loop& loop : kLoops) {
        // run the loop once uncounted, because the first run builds shared state
        loop.run(loop.count);
        CALLGRIND_TOGGLE_COLLECT;
        loop.run(loop.count);
        CALLGRIND_TOGGLE_COLLECT;
        CALLGRIND_DUMP_STATS_AT(loop.name);
    }
}
