#include "common/protocol/worker.hpp"

#include <algorithm>
#include <array>

#include "common/protocol/fields.hpp"

namespace roll::protocol {

constexpr std::array<std::string_view, 4> kPhases = {"starting", "running", "stopping", "ended"};
constexpr std::array<std::string_view, 6> kOutcomes = {"done",    "app",     "infra",
                                                       "invalid", "yielded", "stopped"};

static Json to_json(const RunningAttempt& running) {
    Json json = {{"attempt", to_json(running.attempt)}, {"phase", running.phase}};
    if (running.phase == "ended") {
        json["outcome"] = running.outcome;
        json["exit_code"] = running.exit_code;
        json["reason"] = running.reason;
        if (!running.matched.empty()) json["matched"] = running.matched;
    }
    if (!running.checkpoints.empty()) json["checkpoints"] = to_json_list(running.checkpoints);
    if (!running.exported.empty()) json["exported"] = running.exported;
    if (!running.progress.empty()) json["progress"] = running.progress;
    return json;
}

// An ended attempt says how; the others do not.
static Result<void> check_phase(const RunningAttempt& running, const std::string& path) {
    if (std::ranges::find(kPhases, running.phase) == kPhases.end())
        return fail(ErrorCode::Corrupt, path + ": unknown phase " + running.phase.substr(0, 40));
    if (running.phase == "ended" &&
        std::ranges::find(kOutcomes, running.outcome) == kOutcomes.end())
        return fail(ErrorCode::Corrupt,
                    path + ": unknown outcome " + running.outcome.substr(0, 40));
    return {};
}

static Result<RunningAttempt> read_running(const Json& json, const std::string& path) {
    JsonReader r(json, path);
    RunningAttempt running;
    running.phase = r.get<std::string>("phase");
    running.outcome = r.get_or("outcome", std::string{});
    running.exit_code = r.get_or("exit_code", 0);
    running.reason = r.get_or("reason", std::string{});
    running.matched = r.get_or("matched", std::vector<int>{});
    running.exported = r.get_or("exported", std::string{});
    running.progress = r.get_or("progress", std::string{});
    const Json& attempt = r.raw("attempt");
    const Json& checkpoints = r.raw("checkpoints");
    ROLL_TRY_VOID(r.finish_lenient());
    ROLL_TRY(running.attempt, read_attempt_key(attempt, path + ".attempt"));
    if (!checkpoints.is_null())
        ROLL_TRY_VOID(read_list(checkpoints, path + ".checkpoints", running.checkpoints,
                                &read_written_checkpoint));
    ROLL_TRY_VOID(check_phase(running, path));
    return running;
}

static Json to_json(const StartOrder& order) {
    return {{"attempt", to_json(order.attempt)},
            {"kind", order.kind},
            {"document", order.document},
            {"output", order.output},
            {"node_rank", order.node_rank},
            {"nodes", order.nodes},
            {"ranks_per_node", order.ranks_per_node},
            {"slots", order.slots},
            {"gpus", order.gpus},
            {"gpu_percent", order.gpu_percent},
            {"nonce", order.nonce},
            {"checkpoints", to_json_list(order.checkpoints)},
            {"time_limit_seconds", order.time_limit_seconds},
            {"hang_after_seconds", order.hang_after_seconds}};
}

static Result<StartOrder> read_start(const Json& json, const std::string& path) {
    JsonReader r(json, path);
    StartOrder order;
    order.kind = r.get<std::string>("kind");
    order.document = r.get<std::string>("document");
    order.output = r.get<std::string>("output");
    order.node_rank = r.get<int>("node_rank");
    order.nodes = r.get<int>("nodes");
    order.ranks_per_node = r.get<int>("ranks_per_node");
    order.slots = r.get<std::vector<int>>("slots");
    order.gpus = r.get<std::vector<int>>("gpus");
    order.gpu_percent = r.get_or("gpu_percent", order.gpu_percent);  // an older rolld does not say
    order.nonce = r.get<std::string>("nonce");
    order.time_limit_seconds = r.get_or<std::int64_t>("time_limit_seconds", 0);
    order.hang_after_seconds = r.get_or<std::int64_t>("hang_after_seconds", 0);
    const Json& attempt = r.raw("attempt");
    const Json& checkpoints = r.raw("checkpoints");
    ROLL_TRY_VOID(r.finish_lenient());
    ROLL_TRY(order.attempt, read_attempt_key(attempt, path + ".attempt"));
    ROLL_TRY_VOID(
        read_list(checkpoints, path + ".checkpoints", order.checkpoints, &read_written_checkpoint));
    return order;
}

static Json to_json(const StopOrder& order) {
    return {{"attempt", to_json(order.attempt)},
            {"reason", order.reason},
            {"checkpoint", order.checkpoint},
            {"grace_seconds", order.grace_seconds}};
}

static Result<StopOrder> read_stop(const Json& json, const std::string& path) {
    JsonReader r(json, path);
    StopOrder order;
    order.reason = r.get<std::string>("reason");
    order.checkpoint = r.get_or("checkpoint", false);
    order.grace_seconds = r.get_or<std::int64_t>("grace_seconds", 0);
    const Json& attempt = r.raw("attempt");
    ROLL_TRY_VOID(r.finish_lenient());
    ROLL_TRY(order.attempt, read_attempt_key(attempt, path + ".attempt"));
    return order;
}

static Json to_json(const SaveOrder& order) {
    return {{"attempt", to_json(order.attempt)}, {"asked", order.asked}};
}

static Result<SaveOrder> read_save(const Json& json, const std::string& path) {
    JsonReader r(json, path);
    SaveOrder order;
    order.asked = r.get<std::uint64_t>("asked");
    const Json& attempt = r.raw("attempt");
    ROLL_TRY_VOID(r.finish_lenient());
    ROLL_TRY(order.attempt, read_attempt_key(attempt, path + ".attempt"));
    return order;
}

static Json to_json(const Recorded& recorded) {
    return {{"attempt", to_json(recorded.attempt)},
            {"steps", recorded.steps},
            {"exported", recorded.exported}};
}

static Result<Recorded> read_recorded(const Json& json, const std::string& path) {
    JsonReader r(json, path);
    Recorded recorded;
    recorded.steps = r.get<std::vector<std::int64_t>>("steps");
    recorded.exported = r.get_or("exported", false);
    const Json& attempt = r.raw("attempt");
    ROLL_TRY_VOID(r.finish_lenient());
    ROLL_TRY(recorded.attempt, read_attempt_key(attempt, path + ".attempt"));
    return recorded;
}

static Json to_json(const PilotNote& pilot) {
    return {{"key", pilot.key}, {"slurm_job", pilot.slurm_job}, {"ends_at", pilot.ends_at}};
}

static Result<PilotNote> read_pilot(const Json& json) {
    JsonReader r(json, "heartbeat.pilot");
    PilotNote pilot;
    pilot.key = r.get<std::string>("key");
    pilot.slurm_job = r.get<std::string>("slurm_job");
    pilot.ends_at = r.get_or<std::int64_t>("ends_at", 0);
    ROLL_TRY_VOID(r.finish_lenient());
    return pilot;
}

std::string encode(const Heartbeat& heartbeat) {
    Json json({{"v", heartbeat.version},
               {"session", heartbeat.session},
               {"node", heartbeat.node},
               {"generation", heartbeat.generation},
               {"slots", heartbeat.slots},
               {"gpus", heartbeat.gpus},
               {"sequence", heartbeat.sequence},
               {"bound_below_lease", heartbeat.bound_below_lease},
               {"heard_recently", heartbeat.heard_recently},
               {"draining", heartbeat.draining},
               {"beat_ms", heartbeat.beat_ms},
               {"running", to_json_list(heartbeat.running)}});
    if (!heartbeat.segment.empty()) json["segment"] = heartbeat.segment;
    if (!heartbeat.gpu_numa.empty()) json["gpu_numa"] = heartbeat.gpu_numa;
    if (heartbeat.pilot) json["pilot"] = to_json(*heartbeat.pilot);
    return dump(json);
}

Result<Heartbeat> decode_heartbeat(std::string_view frame) {
    ROLL_TRY(const Json json, parse_frame(frame, "heartbeat"));
    JsonReader r(json, "heartbeat");
    Heartbeat heartbeat;
    heartbeat.version = r.get<int>("v");
    heartbeat.session = r.get<std::string>("session");
    heartbeat.node = r.get<std::string>("node");
    heartbeat.generation = r.get_or<std::uint64_t>("generation", 0);
    heartbeat.slots = r.get<int>("slots");
    heartbeat.gpus = r.get<int>("gpus");
    heartbeat.sequence = r.get<std::uint64_t>("sequence");
    heartbeat.bound_below_lease = r.get<bool>("bound_below_lease");
    heartbeat.heard_recently = r.get<bool>("heard_recently");
    heartbeat.draining = r.get<bool>("draining");
    heartbeat.beat_ms = r.get_or("beat_ms", heartbeat.beat_ms);  // an older worker does not say
    heartbeat.segment = r.get_or("segment", std::string{});
    heartbeat.gpu_numa = r.get_or("gpu_numa", std::vector<int>{});
    const Json& pilot = r.raw("pilot");
    const Json& running = r.raw("running");
    ROLL_TRY_VOID(r.finish_lenient());
    if (heartbeat.session.empty() || heartbeat.node.empty())
        return fail(ErrorCode::Corrupt, "heartbeat: session and node must have a name");
    if (heartbeat.slots < 0 || heartbeat.gpus < 0)
        return fail(ErrorCode::Corrupt, "heartbeat: slots and gpus must not be negative");
    if (!pilot.is_null()) {
        ROLL_TRY(heartbeat.pilot, read_pilot(pilot));
    }
    ROLL_TRY_VOID(read_list(running, "heartbeat.running", heartbeat.running, &read_running));
    return heartbeat;
}

std::string encode(const Answer& answer) {
    Json json({{"v", answer.version},
               {"incarnation", answer.incarnation},
               {"sequence", answer.sequence},
               {"counted", answer.counted},
               {"counter", answer.counter},
               {"beacon", answer.beacon},
               {"keep", to_json_list(answer.keep)},
               {"start", to_json_list(answer.start)},
               {"stop", to_json_list(answer.stop)},
               {"recorded", to_json_list(answer.recorded)},
               {"fenced", to_json_list(answer.fenced)}});
    if (!answer.save.empty()) json["save"] = to_json_list(answer.save);
    return dump(json);
}

Result<Answer> decode_answer(std::string_view frame) {
    ROLL_TRY(const Json json, parse_frame(frame, "answer"));
    JsonReader r(json, "answer");
    Answer answer;
    answer.version = r.get<int>("v");
    answer.incarnation = r.get<std::uint64_t>("incarnation");
    answer.sequence = r.get<std::uint64_t>("sequence");
    answer.counted = r.get<std::int64_t>("counted");
    answer.counter = r.get<std::uint64_t>("counter");
    answer.beacon = r.get<std::string>("beacon");
    const Json& keep = r.raw("keep");
    const Json& start = r.raw("start");
    const Json& stop = r.raw("stop");
    const Json& save = r.raw("save");
    const Json& recorded = r.raw("recorded");
    const Json& fenced = r.raw("fenced");
    ROLL_TRY_VOID(r.finish_lenient());
    if (!save.is_null()) ROLL_TRY_VOID(read_list(save, "answer.save", answer.save, &read_save));
    ROLL_TRY_VOID(read_list(keep, "answer.keep", answer.keep, &read_attempt_key));
    ROLL_TRY_VOID(read_list(start, "answer.start", answer.start, &read_start));
    ROLL_TRY_VOID(read_list(stop, "answer.stop", answer.stop, &read_stop));
    ROLL_TRY_VOID(read_list(recorded, "answer.recorded", answer.recorded, &read_recorded));
    ROLL_TRY_VOID(read_list(fenced, "answer.fenced", answer.fenced, &read_attempt_key));
    return answer;
}

}  // namespace roll::protocol
