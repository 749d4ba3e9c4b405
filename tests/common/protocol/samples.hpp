// One message of each kind. None of their fields has its default value.
#pragma once

#include "common/protocol/client.hpp"
#include "common/protocol/rank.hpp"
#include "common/protocol/worker.hpp"

namespace roll::protocol {

inline AttemptKey sample_key() { return {JobId{7}, Token{3, 2}}; }

inline std::vector<WrittenCheckpoint> sample_checkpoints() {
    return {{.step = 10, .directory = "/runs/x/checkpoints/step-00000010.3-2"},
            {.step = 5, .directory = "/a", .deleted = true, .writer = Token{2, 1}},
            {.step = 15, .directory = "/b", .asked = 2}};
}

inline Heartbeat sample_heartbeat() {
    RunningAttempt ended;
    ended.attempt = sample_key();
    ended.phase = Phase::Ended;
    ended.outcome = Outcome::Infra;
    ended.exit_code = 137;
    ended.reason = "killed \"by\" \xf0\x9f\x94\xa5";
    ended.checkpoints = sample_checkpoints();
    ended.exported = "/export/hf";
    ended.exports = {{20, "/export/hf-step-00000020", 10}};
    ended.answers = {{.number = 2, .step = 9, .stop_step = 20, .text = "done"}};
    ended.progress = R"({"step":10})";
    ended.usage = {1234, 5678, 90, 12, 4096, 512};
    RunningAttempt running;
    running.attempt = {JobId{8}, Token{3, 1}};
    running.phase = Phase::Running;
    Heartbeat heartbeat;
    heartbeat.session = "5a11";
    heartbeat.node = "gpu-1";
    heartbeat.generation = 9;
    heartbeat.slots = 4;
    heartbeat.gpus = 8;
    heartbeat.sequence = 18446744073709551615u;
    heartbeat.bound_below_lease = false;
    heartbeat.heard_recently = true;
    heartbeat.beat_ms = 5000;
    heartbeat.segment = "leaf1";
    heartbeat.memory = 64LL << 30;
    heartbeat.cpus = 16;
    heartbeat.limits = "cgroup v2";
    heartbeat.gpu_numa = {0, 0, 1, 1};
    heartbeat.features = {"gangs"};
    heartbeat.home = "12ab@host";
    heartbeat.process = "host a, process 7";
    heartbeat.pilot = PilotNote{"c1.3.7", "4711", 1795284960};
    heartbeat.running = {ended, running};
    return heartbeat;
}

inline Answer sample_answer() {
    StartOrder start;
    start.attempt = sample_key();
    start.kind = "train";
    start.document = R"({"name":"x"})";
    start.output = "/runs/x";
    start.node_rank = 1;
    start.nodes = 2;
    start.ranks_per_node = 4;
    start.slots = {0, 3};
    start.gpus = {7};
    start.gpu_percent = 25;
    start.memory = 3LL << 30;
    start.cpus = 2;
    start.tasks_per_node = 2;
    start.hosts = {"n1", "n2"};
    start.slurm_variables = true;
    start.nonce = "00ff";
    start.checkpoints = sample_checkpoints();
    start.time_limit_seconds = 90;
    start.hang_after_seconds = 600;
    start.secrets = {{"TOKEN", "x \"y\""}};
    start.stop_step = 40;
    start.adds_cpu_times = true;
    start.files = true;
    start.refused = "bob has no secret TOKEN any more";
    Answer answer;
    answer.incarnation = 3;
    answer.sequence = 12;
    answer.counted = 4;
    answer.counter = 99;
    answer.beacon = "/state/beacon";
    answer.refused = "node a already runs a roll-worker";
    answer.keep_asking = true;
    answer.keep = {sample_key()};
    answer.start = {start};
    answer.stop = {
        {.attempt = sample_key(), .reason = "cancelled", .checkpoint = true, .grace_seconds = 90}};
    answer.save = {{.attempt = sample_key(), .asked = 3}};
    answer.tell = {{.attempt = sample_key(),
                    .request = {.number = 2, .kind = RequestKind::Profile, .value = 5}}};
    answer.recorded = {{.attempt = sample_key(),
                        .steps = {5, 10},
                        .exported = true,
                        .export_step = 20,
                        .answered = 2}};
    answer.fenced = {{JobId{9}, Token{1, 1}}};
    return answer;
}

inline Launch sample_launch() {
    Launch launch;
    launch.attempt = sample_key();
    launch.kind = "convert";
    launch.document = "{}";
    launch.output = "/runs/x";
    launch.logs = "/runs/x/logs/attempt-2";
    launch.nodes = 2;
    launch.node_rank = 1;
    launch.ranks_per_node = 8;
    launch.gpus = {0, 1};
    launch.nonce = "00ff";
    launch.checkpoints = sample_checkpoints();
    launch.stop_step = 40;
    launch.allow_faults = true;
    return launch;
}

}  // namespace roll::protocol
